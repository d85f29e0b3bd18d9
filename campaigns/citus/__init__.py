"""Citus, the extension of PostgreSQL that divides tables among servers: built from its source, and a cluster of it.

In reading order:

- `build`: the extension beside a copy of the embedded Postgres, in a cache of this machine.
- `cluster`: a coordinator and two workers on Unix sockets, and databases that all of them have.
- `trial`: a service on them under load, and what is found of it afterwards.
- `kills`: the campaign that kills the nodes, and parts of the service. `moves`: the one that moves shards.
- `__main__`: `python -m campaigns.citus` builds it, or says in one line why it cannot be built here.
"""
