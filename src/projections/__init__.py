"""The read models: rows that the journal writes in the commit of the events they show, and the queries over them.

A projection of one stream renders the state that `evolve` folded, so that the decider and the read model agree about
money. Rendering reads no clock, no random number and no environment: replaying the log gives the same bytes.

In reading order:

- `queries`: every read of a request: point reads, which share round trips, and pages.
- `orders`: one order, from its state to the bytes that a client reads. `customers`, `payment_methods`, `merchants`: the
  same for their streams. `global_invoices`, `products`, `subscriptions`: their rows and pages of them; the last one
  with plans. `processor_accounts`: merchants' accounts with processors. `webhook_endpoints`: where their
  events are posted. `webhook_deliveries`: what became of them.
  `audits`: audits of the log.
- `lists`: pages of orders, their filters and totals. `search`: the text search of a page.
- `events`: the feed of public events. `as_of`: resources as they were. `histories`: what
  happened to them.
- `formats`: how times, amounts and numbers are written. `report_pages`: reports as pages of HTML.
- `inline`: all tables together, as the journal writes them. `binary`: values in Postgres' binary format.
- `erasures`: the reads of an erasure.
- `rebuild`: the same rows from the log alone. `read_models`: which rows follow from which stream.
"""
