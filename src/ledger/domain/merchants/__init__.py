"""The merchant: who collects money, with its settings and its API keys. The id of its stream is the merchant's id.

In reading order: `events` (registered, settings changed, key issued, key revoked), `state`, `commands`, `decide`,
`evolve`; `settings` converts settings between text and values.
"""
