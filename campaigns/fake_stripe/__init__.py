"""Stripe as far as the ledger uses it, in a process of its own: `python -m campaigns.fake_stripe`.

It is written from Stripe's documentation and OpenAPI description alone, without a look at the ledger's adapter. Each request and
each answer is checked against the description. In reading order:

- `specification`, `parameters`, `forms`, `errors`: Stripe's description and the words of its refusals; `extraction` takes the part
  that is used out of the whole.
- `clock`, `record`, `books`, `lists`, `expansion`: time, the file of what happened, and an account's objects.
- `cards`: the test cards. `payment_methods`, `payment_intents`, `confirmation`, `instalments`, `charges`, `refunds`: card payments.
  `setup_intents`: cards that are saved without one.
- `customers`, `transfers`, `vouchers`: SPEI and OXXO. `balance`, `payouts`, `disputes`, `account`: the money afterwards.
- `calls`, `routes`, `idempotency`, `faults`, `requests`: what becomes of a request. `accounts`: whose key it has.
- `webhooks`, `pages`, `controls`: messages, the payer's pages, and what tests may do. `app`, `__main__`: the server.
"""
