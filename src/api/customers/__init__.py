"""The endpoints of customers (contract N49 to N51, N61).

In reading order: `fields` (what a request gives of a customer), `show`, `list`, `create`, `change`, `delete`.
"""
