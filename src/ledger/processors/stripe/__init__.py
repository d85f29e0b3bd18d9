"""Stripe: cards by tokens, transfers by SPEI, cash at OXXO, refunds, and the lists for reconciliation.

In reading order:

- `transport`: one request, its deadline and idempotency key, and what its failure means. `forms`: how it is written.
- `objects`: Stripe's objects, as far as they are used. `units`: its unit of an amount.
- `call_keys`: how a call of the ledger is named at Stripe.
- `tokens`: what may be shown of a token's card, and how a saved one is forgotten.
- `intents`: the object that represents a payment. `cards`: authorisations and the payer's authentication.
- `charges`: captures, voids, releases, refunds. `references`: CLABEs, vouchers, and what goes back to their payers.
- `refund_parts`: the refunds that one call has made, and what they come to.
- `declines`: Stripe's decline codes in the ledger's words.
- `records`: what Stripe carried out, for the daily comparison. `account`: what an account can do.
- `payouts`: the payments that a payout settles, with their fees.
- `signatures`: the signature of Stripe's messages. `events`: what they are about.
- `processor`: all of it as one processor. `account_kind`: what connecting an account needs.
"""
