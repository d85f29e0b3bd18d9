"""The endpoints of plans (contract N65, N66).

In reading order:

- `plans`: what subscriptions are charged.
"""
