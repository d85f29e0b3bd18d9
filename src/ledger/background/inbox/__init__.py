"""What processors report, from the inbox to the orders.

In reading order:

- `delivery`: delivers messages to the inbox, and fetches them from the sandbox's outbox.
- `consumer`: tries the messages of the inbox until an order has recorded them.
- `missed`: fetches the messages of accounts that never arrived.
- `notices`: asks a processor for what its message is about. `payment_changes`: records the state of a payment there.
  `verification_changes`: the same of a card that is saved without a payment.
- `message_handlers`: records a message on its order. `overpayment`: refunds what was paid too much.
- `retention`: deletes messages a month after they were applied.
- `pending`: messages that no order has recorded, for operators. `dismissal`: ends one that no order can record.
"""
