"""The journal's group commit: pending commands become one batch, which one statement checks and writes.

In reading order:

- `append_statement`: the SQL of a batch.
- `group_commit`: the queue, the batches in flight and the lost connection.
- `batch`: which commands may share a batch, and what the statement's rows mean.
- `writer`: the group commit of appends. `large_commits`: a writer of their own for commits of many streams.
- `shard_writers`: the same on Citus, where each merchant commits on the server that has it.
- `locked_merchants`: commands that wait because another transaction has locked their merchant's head.
- `disk_probe`: whether the database has room to write.
- `notifier`: announces after a commit which logs have grown.
"""
