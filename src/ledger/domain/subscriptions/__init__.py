"""A customer's subscription to a plan: its periods, its invoices and the charges of each.

One stream has a subscription with all its invoices. In reading order:

- `events`, `state`, `commands`: the storage format, what follows from it, and what can be asked.
- `calendar`: where a period begins and ends. `proration`: the lines of an invoice when a plan changes.
- `notice_events`, `notices`: messages to the customer, what causes them, and their state until they are sent.
- `due`: what is due next. `decide`: requests, due work, and outcomes of charges. `evolve`: the fold.
- Dunning: `decide/charges` retries a failed charge after the delays in the terms of its plan (`domain/plans/terms`).
- `charge_ids`: ids that follow from a subscription, an invoice and an attempt.
"""
