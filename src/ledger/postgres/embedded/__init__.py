"""The PostgreSQL server that is installed with the program.

In reading order:

- `cluster`: its files: the binaries, the cluster, the account that owns them.
- `server`: its process, started and stopped by the service.
- `data_dir`: which process of a data directory may start it.
"""
