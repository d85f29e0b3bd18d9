"""What can be done with a merchant, by a request or by an operator.

In reading order:

- `registration`: registers a merchant with its first key, and changes its name and settings.
- `api_keys`: issues, rotates and revokes keys.
"""
