"""What every operation is given, and what it returns.

In reading order:

- `inputs`: parsed requests. `results`: what an operation returns. `ledger`: what every operation is given.
- `clock`: the merchants' time. `order_numbers`: their sequence. `customer_cache`: customers that this process has
  loaded lately. `card_vault`: what operations may ask of the vault. `event_feed`: how a merchant's feed catches up.
  `webhooks`: what operations on webhook endpoints need. `repeats`: how events are delivered again.
  `audits`: how a log is audited.
"""
