"""PostgreSQL: its connections, its schema, and the embedded server.

In reading order:

- `connection`: how a connection is opened, cut and replaced. `faults`: failures that are answered 503.
- `primary_search`: which of several servers accepts writes. `silent_servers`: those that answer on no connection.
- `replication`: commits that a synchronous standby has, and the server's warnings about those that it may lack.
- `replica`: a standby that answers reads, if it shows what was acknowledged before.
- `connection_count`: how many of them a service opens. `pooling`: refuses a pooler that shares sessions.
- `dataloader`: many reads in one query. `arrays`: columns of values as one parameter. `pipeline`: transactions that
  are sent as a whole, without waiting for those before.
- `listener`: notifications of one channel. `skip_scan`: the distinct values of an indexed column.
- `migrate`: the schema. `distribution`: where its tables are on Citus. `prepare`: what a database needs before the
  service starts.
- `shards`: which server of Citus has a merchant. `merchant_transactions`: transactions of one merchant there, and reads
  of all merchants, shard by shard. `node_reads`: reads there. `merchant_reads`: rows of several merchants by one
  statement, or by one of each merchant.
- `standstill`: how a process stops while nothing that it waits for can be completed.
- `registration`: the processes of all services on a database, and their clocks.
- `archive_state`: whether its write-ahead log is archived.
- `embedded`: a PostgreSQL server that runs as a child process.
"""
