"""The HTTP interface: what a merchant's program sends, checked and turned into drafts; what it is answered.

The rule a stranger would break: nothing here decides about money or holds SQL. A request becomes a draft, a draft goes
to an operation of the ledger, reading goes to a query of the projections, and every refusal finds its status in one
table. What may be relied on is written down, point by point, in `docs/reference/contract.md`.

In reading order:

- `app`: every route on one page, and the wiring. `payment_orders`: what the routes do. `sandbox`: the
  helpers that exist only there.
- `edge`, `resource`: what happens around every request, and the order of the checks.
- `auth`, `limits`: who may ask, and how often. `call`: one request while it is being answered.
- `schemas`: what may be sent. `decoding`, `drafting`: what becomes of it. `card_numbers`: what may stand nowhere.
- `errors`, `refusals`, `answers`: how it is said.
- `sandbox`: what exists only where no money moves, the payers' pages among it.
- `openapi`, `reference_page`: the description that is published. `health`: for load balancers.
"""
