"""The public events of a merchant: the numbers that are stored, and the bodies, which are rendered from the log.

In reading order:

- `numbered`: a numbered event, and the queries of them. `states`: streams as they were at positions of the log.
- `bodies`: the body of an event, the same bytes whenever it is rendered. `feed`: pages of bodies. `samples`:
  a sample of each kind.
"""
