"""What the benchmarks load the journal and the service with.

In reading order:

- `processes`: the processes that generate load. `commits`: commits to the journal. `requests`: HTTP requests.
- `order_body`: the order of the README. `order_actions`: what happens to orders after they are created, as walks.
- `fill`: a merchant with many orders. `history`: long logs by COPY. `growth`: databases of several sizes.
- `peers`: appends to other event stores. `peer_schemas`: their SQL. `limits`: R (single INSERTs by pgbench) and E (a bare
  echo). `echo`: the server of E.
- `stripe_answers`: a server that answers as Stripe does. `authorizations`: card payments there, by the adapter and by a
  bare client.
- `locked_key`: a private key that takes long to open. `derivations`: such derivations in a process of their own.
- `rebuilding`, `auditing`: a rebuild, and an audit, in a process of its own.
- `webhook_receiver`: counts webhooks. `posts`: a bare client that posts to it. `event_rendering`: folds and renders public
  events in one process.
"""
