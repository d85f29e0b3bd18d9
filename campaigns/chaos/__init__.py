"""The chaos campaign: a real service under load, a fault, a recovery, and a check of every answer that the clients got.

In reading order:

- `command`: the faults by name, and the table of figures. `rounds`: what one round does.
- `service`, `running`, `installation`: the service under test, its processes, and an installation on a given Postgres.
- `clients`, `wallet`, `bodies`, `wire`, `proxy`: the load, its saved cards, its requests, a connection, and a proxy that cuts.
- `witness`, `acknowledged`: the clients' record, flushed before they continue, and what it acknowledges.
- `checker`, `evidence`, `rules`, `saved_cards`: the check of the log, the rows and the processor's records.
- `kill_service`, `kill_postgres`, `kill_parts`, `stop_service`, `restarts`: ends of processes.
- `freeze`, `stops`, `held`, `full_pool`: processes and sessions that do not answer.
- `cut_commits`, `full_disk`: connections and disks that fail.
- `hostile`, `attackers`: clients that attack.
"""
