"""What must hold of the states that follow from the log, as pure functions that yield what does not (contract 4.5).

The audit asks them after every event. Tests and campaigns ask them too, so that there is one form of each rule.

In reading order:

- `broken`: a rule that does not hold.
- `orders`: sums, status and moves of an order (I1 to I7). `documents`: its electronic invoices (I8, I9).
- `subscriptions`: moves, periods, payments and charges (I7, S1 to S3).
- `logs`: positions, versions, claims and card numbers (I10, I11, I13). `vault`: numbers of saved cards (V1).
- `answers`: the sums of an order in the answer that a merchant reads (I1 to I5).
"""
