"""The command line `ledger`: every command parses its arguments and leaves the work to the package.

In reading order:

- `main`: the commands and how errors end. `installation`: what a command runs on. `options`, `output`: shared by
  commands. `attribution`: who changes something, and whether that is meant. `progress_bar`: how far a
  long command is.
- `service`: serve, api, worker, migrate, backup, restore, settings, doctor. `merchants`, `keys`, `processors`:
  operators' commands about merchants.
- `events`: follows a merchant's public events. `forwarding`: posts them to a program on this machine.
- `log`: the signed log as files, and proofs. `export`: the events as lines of JSON.
- `operations`: the commands of operators that append no event.
- `rebuild`: the read models from the log. `archive`: the content of old events into files.
- `jobs`, `messages`, `payouts`: what could not be done yet. `reconcile`: compares the processor's records with the log.
  `audit`: shows that nothing was changed.
- `replay`: the events of an order or a subscription. `seed`: runs a scenario.
  `demo`: shows the demo's key.
"""
