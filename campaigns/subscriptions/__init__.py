"""Renewals.

- `year`: a merchant's year by the sandbox's clock, and what is wrong in the log. `kills`: kills during renewals.
"""
