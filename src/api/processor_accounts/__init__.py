"""The endpoints of the merchant's accounts with payment processors. Never answer, log or echo a secret key.

In reading order:

- `fields`: what a request to connect an account contains. `documents`: what all of them answer with.
- `connect`: connects an account, or changes it. `show`, `disconnect`, `check`: what their names mean.
"""
