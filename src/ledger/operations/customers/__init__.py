"""What can be done with a customer.

In reading order:

- `upsert`: finds or creates the customer of a new order.
- `requests`: a merchant's request on a customer. `create`, `change`: two of them.
"""
