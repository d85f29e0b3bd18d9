"""The event store: an append-only log per merchant on Postgres, written in groups.

Read `append` (what a commit is), `codec` (events as bytes), `sealing` (what is
personal in them), `sealing_keys` and `data_keys`, `statement` (the one SQL statement), `packing`, `batch`, `writer`
(the group commit), `reader`, `journal` (the front door, which the rest of the service uses).
"""
