"""The feed of the merchant's public events.

In reading order:

- `list`: the events after a number. `show`: one event. `redeliver`: delivers one again.
"""
