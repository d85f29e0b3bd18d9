"""The part of an order's stream that is about its electronic invoices. `ledger.domain.invoices` decides it.

In reading order:

- `terms`: the documents as events store them, and the merchant's settings that they follow. `events`: the storage
  format. `state`: an order's documents. `evolve`: from an event to the next state. `cancellation`: the same for that of
  any document.
- `mail_events`, `mail`: the events and the state of the message with a stamped document.
"""
