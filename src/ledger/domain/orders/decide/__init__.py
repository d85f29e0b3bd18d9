"""The deciders of an order: from a command to the events that follow from it, a module for each subject.

In reading order:

- `guards`: checks that several deciders share, each with its rejection. `candidates`: the account of a new payment.
- `payments`: creating an order, opening a payment on it, erasing its payer. `changes`: what a merchant changes of an
  order's terms. `references`: references and deposits.
- `authorizations`: the outcome of an authorisation. `authentication`: 3-D Secure and redirects. `sessions`: the end of
  one at the processor. `session_outcomes`: what that has come to.
- `captures`, `releases`, `cancellation`, `refunds`: what a merchant does with a payment, and what the processor
  answers.
- `payouts`: refunds that the merchant pays out itself. `overpayments`: what goes back of money beyond the order's
  amount.
- `disputes_and_settlement`: what banks and processors report later, and expiry.
- `outcomes`: any outcome to the right decider. `closing`: the end of a cancellation.
- `unanswered_calls`: calls without an answer, and calls that are sent again.
"""
