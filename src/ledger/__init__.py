"""The payment ledger: a pure core that decides and remembers, one journal around it that commits in groups.

In reading order: `money`, `ids`, `rejections`; `orders`, `customers`, `merchants` (the core: pure); `journal` (the event
store); `gateways` (payment processors); `operations` (one command from request to receipt); `reactions` (what follows,
later or elsewhere); then the house: `settings`, `secrets`, `postgres`, `migrate`, `serve`, `cli`.
"""
