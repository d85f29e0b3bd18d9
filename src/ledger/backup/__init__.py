"""Backups of an installation's database, their restoration to a new directory, and what is computed from the whole log.

In reading order:

- `programs`: Postgres' own programs, of the server's major version.
- `record`: what a backup records about itself.
- `manifest`: whether the files of a backup are those that were sent.
- `base_backup`: takes a backup while the service runs, and checks it.
- `fetching`: segments of the archived log for a recovery, from an object store.
- `recovery`: the server that recovers a copy of the backup, up to a moment.
- `restoration`: a backup in a new data directory, audited.
- `log_reader`: reads the log without a whole ledger. `export`: the log as lines of JSON.
- `comparison`: the read models of a merchant against its log. `rebuild`: corrects them in place.
- `event_archiving`: the content of old events out of the database into files.
"""
