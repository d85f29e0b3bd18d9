"""The vault: the numbers of saved cards, in a table that only its own database role reads.

`ledger.wiring` opens it, `ledger keys rewrap` rewraps its keys; no other module imports it. Operations get it as a
`CardVault` (see `ledger.operations.context.card_vault`).

In reading order:

- `sealed_card`: one number, sealed under a key of its own; and the fingerprint that finds it again.
- `vault`: keeps, opens and destroys numbers. The only module with the role's connections.
- `rewrapping`: the statements by which the cards' keys are put under the newest sealing key.
"""
