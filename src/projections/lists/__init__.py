"""Pages of orders and of customers: queries, their SQL, and the connections that they run on.

In reading order:

- `paging`: what lists have in common. `pages`: a query and the JSON of a page. `cursor`: where the next page begins.
  `statements`: the SQL of a query.
- `related_customers`: the customers of a query. `references`: what else its filters refer to. `tally`: counters, for
  totals.
- `customers`: the same for a page of customers.
- `in_flight`: the orders of a page that are rendered when it is read. `shared_pages`: pages of orders that requests
  share. `pool`: the connections of all other list queries. `replica`: both at a standby.
"""
