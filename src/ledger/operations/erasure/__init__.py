"""Erasing a customer, with its saved cards and its subscriptions.

In reading order:

- `erase_customer`: erases a customer, for a merchant or an operator.
"""
