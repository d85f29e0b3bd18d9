"""What stands in for Stripe: the fake of this project, and Stripe World, which others wrote and checked against recordings.

- `environment`: Stripe World in an environment of its own, because it needs a newer Python. `stripe_world`: its server.
- `__main__`: starts both and prints their addresses (`make stand-ins`), or compares them.
- `interference`: a server in front of either, which lets requests fail.
- `script`: the calls of the comparison. `comparison`: both answers, field by field. `expected`: the differences that stay.
"""
