"""The event store: an append-only log per merchant on Postgres, written by a group commit.

In reading order:

- `append`: what a commit consists of, and how it fails.
- `journal`: the interface that the rest of the service uses: commits changes, loads streams.
- `operator`: who ran a command, as it is kept beside events. `operator_commands`: the commands without events.
- `codec`: events as bytes, under permanent topics. `inline`: the read models that are written in the same commit.
- `commit`: the group commit. `encryption`: personal data in events, and its keys.
- `event_archive`: events whose content is in a file, out of the table.
- `reader`: streams, claims and stretches of a merchant's log, read back.
"""
