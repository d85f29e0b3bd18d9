"""Scenarios: files of requests with their times, run on a ledger as if the months in them had passed.

A scenario runs in commands, through the decoding and the operations of a request over HTTP. Never write an event here:
the log then holds only what the ledger has accepted.

A scenario is JSON Lines, one request per line, in the order of time:

    {"as": "Café Nublado", "do": "register", "at": "2026-06-15T09:00:00-06:00", "body": {"requestsPerMinute": 600}}
    {"as": "Café Nublado", "do": "create", "at": "2026-06-15T10:12:00-06:00", "body": {"externalId": "W-1", ...}}
    {"as": "Café Nublado", "do": "charge", "at": "2026-06-18T13:30:00-06:00", "order": "W-1", "body": {...}}

`as` names the merchant, `do` the action (the table in `actions`), `at` is the merchant's clock while the line runs,
`body` is what would be sent over HTTP, and `order` names by external id the order that an action is about.

In reading order:

- `scenario_file`: the format of a file.
- `due_work`: the clock of a scenario, and what falls due on an order between its lines.
- `context`: what the lines of a run share, and one line of it.
- `actions`: what a line can do. `payer_actions`: what payers and their banks do.
- `runner`: runs the lines one after another.
- `seed`: runs a file on an installation. `demo`: the demo's merchant, its scenario and its key.
"""
