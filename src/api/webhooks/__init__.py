"""The endpoints of the merchant's webhook endpoints. Never log or echo a secret, and answer it only where it is made.

In reading order:

- `fields`: what requests contain, and the endpoint that a path names. `documents`: what they are answered with.
- `create`, `list`, `change`, `rotate`, `delete`: what their names mean. `test`: posts a sample.
- `deliveries`: what became of events. `replay`: delivers events again.
"""
