"""A walker: random requests of merchants about subscriptions and invoiced orders, over years of the sandbox's clock.

In reading order:

- `walk`: one merchant's walk: its requests, and what it knows by their answers.
- `orders`, `customers`, `cards`, `subscriptions`, `invoices`: what a walk does next. `actions`: how often it does it,
  and which operations all walks together have to reach.
- `checks`: what has to hold of the log afterwards. `months`: what has to hold of the months' reports.
- `command`: many walks on one service.
"""
