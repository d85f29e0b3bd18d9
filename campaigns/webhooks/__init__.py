"""Webhooks and the feed while parts of the service are killed: nothing is lost, and what comes again is the same.

In reading order:

- `command`: the arguments and the figures. `campaign`: the load, the kills, and the wait until everything has arrived.
- `receiver`: the merchants' receivers, and their record. `consumer`: a program that follows the feed and is killed.
- `comparison`: what arrived against what the feed has.
"""
