"""The payment ledger: a pure core that decides, a journal that commits decisions in groups, and what runs them.

The layers, from the inside out; each imports only those above it:

1. `domain`: events, state, decisions. Pure. Read `domain.orders` first.
2. `postgres`, `journal`, `recorder`: the database, the event store, and the same log through the eventsourcing library.
3. `processors`, `invoicing`, `notifications`, `operations`: the contract with a payment processor; electronic invoices;
   messages to payers; what a merchant or a worker can do. `webhooks`: signed messages to merchants' programs.
   `vault`: the numbers of saved cards, which only its own database role reads. `tlog`: a Merkle tree over each
   merchant's log, by which an event is proved.
4. `background`: what happens outside a request: reactions, timers, jobs, the inbox, recovery.
5. `audit`: what must hold of the log and of all that follows from it. `service`, `cli`, `backup`, `seeding`: the
   processes, the command line, backups and their restoration, the demo's
   scenarios.
   `wiring`: puts one process's ledger together.

Beside the layers:

- `settings`: every setting, with its bounds. `database_urls`: whether a connection string can be read.
  `security`: keys and secrets. `telemetry`: logs and metrics. `tracing`: spans, if traces are on.
- `doctor`: checks an installation for an operator.
- `call_failures`: how a call to an outside system fails.
- `bounded_file`: reads a file that a person has named.
- `write_once_store`: a folder or an object store in which each file is written once.
- `tasks`: time-outs, and tasks that run to their end. `slices`: long work that leaves the loop to other requests.
  `ttl_cache`, `back_off`, `month_names`, `progress`: what several layers use.
  `asgi`: what the server adds for the application. `parent_process`: what a child process reads of its parent.
- `personal_data`: a value without personal data. `py311_speedups`: replacements for slow parts of Python 3.11.

`projections` answers reads; `api` serves HTTP. `docs/` explains why. `tests/test_architecture.py` checks every
direction of import.
"""
