"""A crowd: clients of one merchant work on the same few orders at once through two machines, one of which is killed.

- `member`: one client: the requests of a walk, about the orders that all share, sent again where an answer was lost.
- `command`: two services on one database, the kills, and the checks of a walk at the end.
"""
