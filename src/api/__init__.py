"""The HTTP interface: parses what a merchant's program sends, calls one operation or query, and encodes the answer.

Nothing here decides about money or holds SQL. `docs/reference/contract.md` has what clients can rely on.

In reading order:

- `app`: every route on one page. `operation`: what the published description has of one operation. `description`: the
  OpenAPI document, made from the routes. `error_answers`: its answers with an error. `openapi`: its other parts.
- `response`: an answer. `errors`: the interface's own errors.
- `decoding`: from a body or a query to values, with all that is wrong in one answer.
- `http`: what happens to every request: authentication, rate limits, errors.
- `orders`, `customers`, `products`: the endpoints of payment orders, of customers and of products, one file each.
  `fields`: parts of their bodies: shapes, limits and parsers.
- `global_invoices`: the endpoints of global invoices.
- `merchant`: the endpoints of the merchant's own API keys and settings. `processor_accounts`: those of its accounts
  with payment processors.
- `payment_methods`: the endpoints of saved cards. `subscriptions`: those of subscriptions and plans.
- `histories`: what happened to an order, a customer or a subscription.
- `events`: the feed of public events. `webhooks`: the endpoints to which they are posted.
- `audits`: audits of the merchant's log.
- `log`: the Merkle tree over the merchant's log, its checkpoints and proofs.
- `pages`: the pages for payers: their HTML, and the page of self-invoicing.
- `sandbox`: helpers and payer pages that exist only there.
- `system`: health, metrics, the reference page, and where processors deliver signed messages.
"""
