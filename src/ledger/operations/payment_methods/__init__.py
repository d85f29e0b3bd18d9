"""What can be done with saved payment methods.

In reading order:

- `charge`: the card of a payment. `card_tokens`: the card of a token. `save`: saves a card, in the commit that
  announces its payment.
- `change`: changes billing details, deletes a method.
- `verify`: saves a card without a payment. `verification_call`: its calls to the processor. `complete`: finds the
  outcome of such a call, and ends a verification without its payer.
- `sweep`: settles or destroys the numbers that a crash left between the vault and the log.
"""
