"""The endpoints of saved payment methods, one file each: `list`, `show`, `update`, `delete`.

A card is saved by a payment with `persist`, and no operation here takes or shows a card number.
"""
