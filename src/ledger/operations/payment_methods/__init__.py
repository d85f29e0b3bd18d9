"""What can be done with saved payment methods.

In reading order:

- `charge`: the card of a payment. `save`: saves it, in the commit that announces the payment.
- `change`: changes billing details, deletes a method.
- `sweep`: settles or destroys the numbers that a crash left between the vault and the log.
"""
