"""The messages of Stripe, doubled, shuffled, early and lost: the orders end as with each message once and in order.

- `script`: what becomes of an order, at the ledger and at Stripe. `campaign`: two runs of it, and their comparison.
- `command`: `python -m campaigns messages`.
"""
