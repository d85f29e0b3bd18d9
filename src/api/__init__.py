"""The HTTP interface: what a merchant's program sends, checked and turned into drafts; what it is answered.

The rule a stranger would break: nothing here decides about money or holds SQL. A request becomes a draft, a draft goes
to an operation of the ledger, reading goes to a query of the projections, and every refusal finds its status in one
table.

Read `app` (all routes on one page), `payment_orders` (what they do), `edge` and `resource` (what happens around them),
`auth` and `limits` (who may ask, how often), `schemas` (what may be sent), `drafting` (what becomes of it), `errors`.
"""
