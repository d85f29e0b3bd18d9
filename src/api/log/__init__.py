"""The Merkle tree over the merchant's log: its keys, checkpoints, tiles and proofs.

In reading order:

- `signed`: the public keys of the log, and its newest checkpoint. `tiles`: the tree and its entries, piece by piece.
- `entry_proof`: the proof of an event. `consistency`: the proof that a log has only grown.
- `errors`: what cannot be answered yet, or at all.
"""
