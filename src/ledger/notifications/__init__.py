"""Messages to payers: what they contain, and who delivers them. Nothing here decides whether one is sent.

In reading order:

- `contract`: what an operation may ask of a notifier, and what it may answer.
- `not_sent`: why a message was not sent, in words for operators.
- `smtp`: hands messages to a mail server. `log`: records in the log that there was one.
- `messages`: every message from plain values, as text and HTML. `words`: their sentences in Spanish and English.
- `formats`: amounts and dates as people write them. `templates` holds the layout that all messages share.
"""
