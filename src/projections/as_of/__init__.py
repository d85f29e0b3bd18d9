"""Resources as they were: folded from the log up to a position and rendered by the renderers of today's answers.

In reading order:

- `points`: where in a merchant's log a time or a version of a stream is.
- `reads`: orders, customers and subscriptions at such a point, with what their documents contain of other streams.
- `reports`: the connection of reads that may fold many streams. `snapshots`: a merchant's streams at a place in its
  log.
- `orders`, `subscriptions`: pages of their lists.
- `summaries`: all orders and subscriptions of a merchant in sums.
"""
