"""The PostgreSQL server that is installed with the program.

In reading order:

- `account`: the account that it runs as, and its environment.
- `ownership`: the owner of its files, also after the account has changed.
- `authentication`: which users of the machine may connect.
- `cluster`: its files: the binaries, the cluster, its sockets.
- `wal_store`, `wal_uploader`, `archiving`: the archive of its WAL.
- `memory`: how much memory it may use.
- `server`: its process, started and stopped by the service.
- `data_dir`: which process of a data directory may start it.
"""
