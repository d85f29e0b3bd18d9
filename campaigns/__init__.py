"""Campaigns: programmes that attack the service for minutes or hours, and check afterwards that nothing was lost or doubled.

`python -m campaigns` lists them, `python -m campaigns NAME` runs one. Each creates what it attacks and exits 1 if anything
is wrong. The tests in `tests/campaigns` run short forms of them with every change.

In reading order:

- `catalogue`: the list of campaigns. `__main__`: the command.
- `chaos`: kills, stalls and cut connections under load; its clients, service and checks serve the other campaigns too.
- `failover`: Postgres under Patroni, which loses its primary again and again.
- `citus`: PostgreSQL with Citus, built here, and a cluster of it for tests.
- `rolling_upgrade`: the former release beside this one.
- `unknown_outcomes`: a payment processor that fails in every way. `fake_processor`: that processor.
- `fake_stripe`: Stripe, as far as the ledger uses it, with its faults. `stand_ins`: that, and Stripe World beside it, compared.
- `webhooks`: kills while events are posted to endpoints and a program follows the feed.
- `stamped_once`: kills while documents are stamped.
- `subscriptions`: a year of renewals, and kills during renewals.
- `walker`: random walks over subscriptions and invoices. `crowd`: the same requests on the same orders, through two
  machines of which one is killed.
- `races`: simultaneous requests for the same money. `vault`: a change of the sealing key while saved cards pay.
- `wrong_requests`, `fuzz`: requests with mistakes as people make them, malformed ones, and generated ones.
- `mutants`: each guard taken out once, and the test that notices it.
- `card_numbers`: ids that are taken for card numbers, and card numbers that are not found.
- `key_timing`: what the time of a key's check gives away.
"""
