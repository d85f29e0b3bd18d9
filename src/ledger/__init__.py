"""The payment ledger: a pure core that decides and remembers, one journal around it that commits in groups.

The rule a stranger would break: the core imports nothing that does I/O, and nobody but the wiring knows all the rooms.
`tests/test_architecture.py` holds every direction.

The rooms, in reading order:

- `money`, `ids`, `rejections`: what everything is made of. Pure.
- `orders`, `customers`, `merchants`: the core. Events, state, evolve, commands, decide. Pure. Begin with `orders`.
- `journal`: the event store. It commits what was decided and loads what happened.
- `recorder`: the same log through the eventsourcing library, for whoever writes a consumer with it.
- `gateways`: the contract of a card processor, and the sandbox that keeps it.
- `operations`: one request from its draft to a committed outcome. `requests`: what is kept of those under a key.
- `reactions`: what follows later or elsewhere: what is due, jobs, clocks that are moved, the recovery.
- `api_keys`, `wiring`: how a key is made; one process's ledger put together.
- `stories`, `seeding`, `demo`: months of requests told in seconds.
- `bench`: figures beside the limits that were measured with them.

The house around them: `settings`, `secrets`, `logs`, `measures`; the database (`cluster`, `data_dir`, `postgres`, `migrate` with
`migrations`, `database`); the processes (`serve`, `child`, `process`) and what they listen with (`listener`, `server`,
`connections`, `gathered`, `own_answers`); `deadlines` for whatever waits; the command line (`cli` and its `cli_…`).

What is read stands in `projections`, HTTP in `api`. Why it is so stands in `docs/`.
"""
