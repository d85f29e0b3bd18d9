"""The effects of events: timers, jobs and aliases of payments, written once for every event.

In reading order:

- `registry`: which reactions exist.
- `order_timers`: the timers of an order. `subscription_timers`: those of a subscription, and its payment orders.
- `verification_timers`: those of cards that are verified before they are saved.
- `global_invoice_timers`: that of a global invoice.
- `payment_index`: the aliases of payments.
- `dispatcher`: shows every merchant's log to the reactions. `quarantine`: merchants whose log cannot be read.
- `numbering`: gives a merchant's public events their numbers. `feed`: lets that catch up before a request reads.
- `runner`: keeps the dispatcher and the scheduler running in a worker.
"""
