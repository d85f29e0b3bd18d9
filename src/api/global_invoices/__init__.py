"""The endpoints of global invoices, one file each.

In reading order:

- `create`: makes one for a period. `show`: one of them, with its orders and links to its files. `list`: pages of them.
- `cancel`: cancels a stamped one.
"""
