"""What can be done with saved payment methods.

In reading order:

- `charge`: the card of a payment. `card_tokens`: the card of a token. `save`: saves a card, in the commit that
  announces its payment.
- `kept_cards`: cards that their processors keep: how they are saved and forgotten.
- `change`: changes billing details, deletes a method.
- `verify`: saves a card without a payment. `verification_call`: its calls to the processor. `sessions`: those of
  payers who act at the processor. `payer_return`: a payer comes back from there. `complete`: finds the outcome of a
  call, and ends a verification without its payer.
- `sweep`: settles or destroys the cards that a crash left between the log and the vault, or the log and a processor.
"""
