"""What is true now, for reading: rows that are written in the append's own transaction, and the queries over them.

The rule a stranger would break: a projection of one stream is `render(state)`, never a second fold, so that the decider
and the read model cannot disagree about money. Nothing here reads a clock, draws a random number or looks at the
environment: replaying the log gives the same bytes.

In reading order:

- `documents`, `formats`: what a client sees, and how times and amounts are written there.
- `render`: from an order's state to those bytes; `actions`, what its payer has to do; `refunds` and `authentication`, apart.
- `orders`, `customers`, `merchants`, `tally`, `search_text`: a table each, with its row and its statements.
- `inline`: all of them together, as the journal writes them; `wire` is the form in which Postgres takes the values.
- `loader`: point reads that wait together become one. `lists`: where lists of orders run.
- `pages`: what a list may be asked for, and its answer. `list_statements`: its SQL; `related_customers`: whose orders it shows.
- `search_statements`: the SQL of a list's search, over the lines of `search_text`. `search_blocks`: what many lines in one row say
  about themselves. `search_packing`, `search_counts`: how the worker makes such rows, and counts what is in them.
- `open_intents`, `payers`, `order_lookup`: what the recovery, an erasure and an operator look for.
- `rebuild`: the same rows from the log alone.
"""
