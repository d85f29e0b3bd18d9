"""The endpoints of saved payment methods, one file each.

A card is saved by a payment with `persist`, and no operation here takes or shows a card number.

In reading order:

- `list`, `show`: a customer's methods, and one of them. `update`, `delete`: the writes.
"""
