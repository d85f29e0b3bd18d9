"""The failover campaign: Postgres under Patroni loses its primary again and again while merchants pay through three routes.

In reading order:

- `command`: the options and the table. `campaign`: a run and its verdict. `faults`: how a primary is lost.
- `cluster`, `links`, `programs`: three nodes on loopback, what can be cut between them, and Debian's programs.
- `routes`: the connection strings of the services: all nodes by name, HAProxy, pgbouncer.
"""
