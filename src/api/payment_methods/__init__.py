"""The endpoints of saved payment methods, one file each.

A card is saved by a payment with `persist`, or by `create` without one. No operation here shows a card number.

In reading order:

- `list`, `show`: a customer's methods, and one of them. `update`, `delete`: the writes.
- `create`: saves a card once its issuer has confirmed it. `authenticate`: goes on after its payer acted. `responses`:
  the answer of both.
"""
