"""The public events that follow from the log: what webhooks and the feed of events announce.

They are derived from the states before and after each command and are not stored in the log (decision 0092). All of it
is pure.

In reading order:

- `kinds`: every kind of public event, and the patterns that choose among them.
- `topics`: the table of the log's topics, each with its kinds or the reason why it has none.
- `statuses`: the same for each status that a resource can get.
- `command`: one command, stream by stream, and the public event that follows from it.
- `announcing`: the public events of a command, in their order. Begin here.
- `orders`, `documents`: those of a payment order with its payments, and of its electronic invoices.
- `customers`: those of customers and saved cards. `catalog`: of plans and products. `subscriptions`: of subscriptions.
- `lookup`: the events of a command that can cause a kind.
"""
