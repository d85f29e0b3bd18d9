"""The simulated processor: moves no money, and answers by the card number.

In reading order:

- `processor`: the contract's methods, and what only a sandbox can do.
- `accounts`: the accounts of a sandbox. `books`: where the records of each account are kept.
- `test_cards`: how each test card behaves. `saved_cards`: the cards that it keeps for later payments.
- `authorizations`: plain authorisations and those with further effects. `charge_writer`: records the plain ones in
  batches. `charge_rows`: the records, and their statements.
- `call_executor`: carries out every other call, in one transaction with its answer.
- `charges`: capture, void, refund. `authentications`: 3-D Secure and redirects. `references`: CLABEs, cash, payouts.
- `records`: what the processor kept of its charges, for reconciliation.
- `outbox`: the messages that the processor sends.
- `account_kind`: the processor as one that accounts can be connected with.
"""
