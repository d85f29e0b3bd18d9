"""What is true now, for reading: rows that are written in the append's own transaction, and the queries over them.

The rule a stranger would break: a projection of one stream is `render(state)`, never a second fold, so that the decider
and the read model cannot disagree about money. Nothing here reads a clock, draws a random number or looks at the
environment: replaying the log gives the same bytes.

In reading order:

- `documents`, `formats`: what a client sees, and how times and amounts are written there.
- `render`: from an order's state to those bytes.
- `orders`, `customers`, `merchants`, `tally`: a table each, with its row and its statements.
- `inline`: all of them together, as the journal writes them; `wire` is the form in which Postgres takes the values.
- `loader`: point reads that wait together become one. `pages`, `lists`: the list of orders and where it runs.
- `open_intents`: what the recovery looks for.
- `rebuild`: the same rows from the log alone.
"""
