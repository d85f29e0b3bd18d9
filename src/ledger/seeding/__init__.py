"""Stories: files of requests with their times, told to a ledger as if the months in them had passed.

The rule a stranger would break: a story is told in commands, through the same decoding and the same operations as a
request over HTTP. It never writes an event, so nothing stands in the log that the ledger would have refused.

A story is JSON Lines, one request per line, in the order of time:

    {"as": "Café Nublado", "do": "register", "at": "2026-06-15T09:00:00-06:00", "body": {"requestsPerMinute": 600}}
    {"as": "Café Nublado", "do": "create", "at": "2026-06-15T10:12:00-06:00", "body": {"externalId": "W-1", ...}}
    {"as": "Café Nublado", "do": "charge", "at": "2026-06-18T13:30:00-06:00", "order": "W-1", "body": {...}}

`as` names the merchant, `do` the action (the table in `actions`), `at` is the merchant's clock while the line is told,
`body` is what would be sent over HTTP, and `order` names by external id the order that an action is about.

Read `lines` (the format), `actions` and `order_actions` (what a line can do), `telling` (how they are told: in order where
one needs the other, side by side where not), `passing` (what becomes of an order between its lines).
"""
