"""Payment processors: the contract that each of them meets, the simulated one, and Stripe.

In reading order:

- `contract`: what an operation may ask of a processor, and what a processor may answer.
- `accounts`: the accounts of merchants with processors.
- `messages`: what processors send unasked, signed. `findings`: what they answer about the object of a message.
  `inbox_store`: these messages, stored until an order has applied
  them.
- `bins`, `clabe`: what a card number and a Mexican account number mean.
- `mexican_issuers`: the issuers of Mexican cards, generated from a public list.
- `saved_card`: a saved card in a request, before the vault adds its number. `card_references`: the cards that
  processors keep.
- `pan_detection`, `cvc_detection`: find card data in texts. `card_data`: masks it in the texts of processors.
- `registry`: the processors with which merchants connect accounts of their own. `account_methods`: what they take.
  `account_keys`: the accounts' keys, held sealed. `merchant_accounts`: the accounts, as a process sees them.
- `payer_returns`: signed addresses to which a processor sends payers back.
- `account_health`: whether accounts answer.
- `connected_accounts`: each account with the processor that has its keys.
- `sandbox`: the simulated processor. `stripe`: Stripe.
"""
