"""A log that proves itself: a Merkle tree over each merchant's events, in formats that other programs verify.

The formats are RFC 9162 (hashes and proofs) and C2SP's signed-note, tlog-checkpoint, tlog-tiles and tlog-proof. Entry n
of a merchant's tree is the event at position n + 1 of its log.

In reading order:

- `merkle`: hashes of a tree, and proofs about them. `entries`: an event as an entry of the tree.
  `event_lines`: an event as a line of JSON, and its entry.
- `tiles`: the pieces in which a tree is stored and published.
- `notes`: signed texts and their keys. `checkpoints`: a signed size and root of a tree.
- `proofs`: the file that proves an entry, and its verification.
- `keys`: the keys of an installation. `growth`: how a tree grows, and what shows a changed log. `store`: its tables.
  `reading`: tiles and the hashes of proofs. `static`: a log as files.
  `checkpoint_files`: checkpoints outside the database.
"""
