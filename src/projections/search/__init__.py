"""The text search of a page of orders: lines of text, packed into blocks and counted.

In reading order:

- `lines`: the text that an order or a customer is searched by, written with the event. `blocks`: many lines in one row.
- `statements`: the SQL of a search. `accents`: the pattern of a search of customers or products.
- `compaction`: packs lines into blocks, in the background. `counts`: its counters, which spare a search the counting.
- `rows`: compares a row with its lines. `count_check`: compares the counters with the lines. `repair`: replaces wrong
  lines, and has them counted again.
"""
