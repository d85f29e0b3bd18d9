"""What can be done with a subscription, and how it is billed.

In reading order:

- `requests`: parsed requests, and how a subscription is found.
- `create`, `change`, `cancel`, `retry`: a merchant's requests. `charging`: executes those that may charge.
- `preview`: the next invoice, before it is made.
- `bill`: does what is due. `charge`: charges an invoice by a payment order, whose ids follow from the attempt.
- `notify`: sends the customer the messages that follow.
- `commit`: the commit of a subscription's events, with the use of its saved card.
- `history`: a subscription's past, event by event.
"""
