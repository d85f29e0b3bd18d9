"""What can be done with a customer.

In reading order:

- `upsert`: finds or creates the customer of a new order. `cache`: customers that this process has loaded lately.
- `requests`: a merchant's request on a customer. `create`, `change`: two of them.
- `erase`: erases a customer, for a merchant or an operator.
"""
