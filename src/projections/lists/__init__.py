"""Pages of orders: queries, their SQL, and the connections that they run on.

In reading order:

- `pages`: a query, a cursor, and the JSON of a page. `statements`: the SQL of a query.
- `related_customers`: the customers of a query. `tally`: counters, for totals.
- `pool`: the connections of list queries.
"""
