"""The endpoints of customers (contract N49 to N51, N61).

In reading order:

- `fields`: what a request gives of a customer, and its parser.
- `show`, `list`: one customer, and a page of them. `create`, `change`, `delete`: the writes.
"""
