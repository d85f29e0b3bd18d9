"""The endpoints of histories: what happened to an order, a customer or a subscription, why, and all of them in sums.

In reading order:

- `events`: the events of a resource, as JSON or as a page. `explain`: why a field of an order is what it is.
- `summary`: the merchant's orders and subscriptions in sums.
"""
