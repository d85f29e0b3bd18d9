"""The endpoints of subscriptions and of their plans, one file each (contract N62 to N68).

In reading order:

- `plans`: what subscriptions are charged.
- `fields`: what a request gives of a subscription, and its parser. `responses`: what the endpoints have in common.
- `list`, `show`: a page of subscriptions, and one of them. `invoices`: what a subscription was charged.
  `preview`: the next invoice, before it is made.
- `create`, `change`, `cancel`, `retry`: the writes.
"""
