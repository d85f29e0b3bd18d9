"""The pure core: what the ledger stores (events), what follows from events (state) and what may happen next (deciders).

Every stream has the same parts: `events` (the storage format), `state`, `commands`, `decide` (a state and a command to
events, or a `Rejected`) and `evolve` (a state and an event to the next state). Time and ids are parameters. The core
imports msgspec, the pure standard library and two pure modules beside the layers alone.

In reading order:

- `money`: exact amounts in minor units. `rejections`: every refusal, with its public code. `fiscal_data`: the receiver
  of an electronic invoice.
- `orders`: payment orders, their payments and refunds. Read this package first.
- `customers`, `merchants`: who pays, and who collects. `payment_methods`: a customer's saved cards. `products`: what is
  sold. `plans`: what subscriptions charge. `subscriptions`: their periods, invoices and charges.
  `processor_accounts`: with whom a merchant collects. `webhooks`: where public events are posted.
  `idempotency`: requests under an idempotency key (no decider).
- `invoices`: the terms of electronic invoices, receipts and credit notes, and the division of an amount into taxes.
- `streams`: every kind of stream with its events, its fold and its claims, as values.
- `public_events`: what webhooks and the feed of events announce of them.
- `fold`: the state after several events. `ids`: derived ids. `merge_patch`: changes of JSON by RFC 7396.
"""
