"""The HTTP interface: parses what a merchant's program sends, calls one operation or query, and encodes the answer.

Nothing here decides about money or holds SQL. `docs/reference/contract.md` says what clients can rely on.

In reading order:

- `app`: every route on one page, and the wiring. `dependencies`: what endpoints are given.
- `http`: what happens to every request: authentication, rate limits, decoding, errors, responses.
- `fields`: parts of request bodies: each shape with its limits and its parser.
- `orders`: the endpoints of payment orders. `sandbox`: helpers and payer pages that exist only there.
- `processor_messages`: where processors deliver signed messages. `system`: health, metrics, the reference page.
- `openapi`: the published description.
"""
