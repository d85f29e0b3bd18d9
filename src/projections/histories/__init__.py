"""What happened to an order, a customer or a subscription, event by event, and why an amount or a status is what it is.

In reading order:

- `steps`: the events of a stream with the state after each, from the log.
- `sentences`: an event as an English sentence, one template for each topic.
- `documents`: a page of events as JSON. `explanations`: why a field of an order is what it is. `pages`: both as HTML.
"""
