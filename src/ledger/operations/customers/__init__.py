"""What can be done with a customer.

In reading order:

- `upsert`: finds or creates the customer of a new order. `cache`: customers that this process has loaded lately.
- `erase`: erases a customer.
"""
