"""The deciders of a subscription. In reading order:

- `request`: a new subscription. `changes`: a merchant's requests about one that exists.
- `due_work`: what is due by the merchant's clock. `charges`: outcomes of charges.
- `preview`: the next invoice, before it is made.
- `messages`: messages to the customer, and the outcomes of attempts to send them.
- `steps`: the events that they share: an invoice, a charge, an end.
"""
