"""Kills while documents are stamped.

- `command`: the options. `campaign`: the orders, the kills and the provider's failures.
- `comparison`: the provider's record beside the clients' and the log.
"""
