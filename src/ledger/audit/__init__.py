"""The audit: shows that the log and everything that follows from it are as they were written.

`auditor.audit` is the entry: it audits one merchant or all as of one moment, and returns a `Report`.

In reading order:

- `invariants`: what must hold of every state.
- `report`: what an audit found. `page`: the same for people.
- `snapshot`: connections that see one moment. `tables`: rows in the order of their streams.
- `leaves`: the hashes of events by position. `trees`: the events against the signed log.
- `faults`: why an event cannot be folded. `sums`: what is compared as a whole.
- `streams`: folds, checks and compares streams, one after the other.
- `auditor`: puts the parts together. `processors`: what processors list otherwise. `child_main`: the
  process of an audit that a merchant asked for.
"""
