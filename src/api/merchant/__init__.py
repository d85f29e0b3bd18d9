"""The endpoints of a merchant's own account: its API keys, its settings, and what a client should know of the service.

In reading order:

- `list_keys`, `create_key`, `rotate_key`, `revoke_key`: the keys. `settings`: the merchant. `fiscal_issuer`: the issuer
  of its invoices. `fiscal_logo`: the logo on them. `meta`: units and the key of the request.
- `fields`, `documents`: the fields of requests about keys, and their answers. `new_keys`:
  the rate of new keys. `uploads`: the check of a file, in a thread.
"""
