"""What can be done with a merchant's webhook endpoints. Only the answers to creation and rotation have a secret.

In reading order:

- `endpoint`: finds an endpoint, and what all of them need.
- `create`: creates an endpoint. `change`: changes it. `rotate`: gives it another secret. `delete`: deletes it.
- `disable`: disables one whose receiver accepts nothing. `test`: posts a sample.
"""
