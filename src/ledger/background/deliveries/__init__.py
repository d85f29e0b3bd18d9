"""The delivery of public events to merchants' endpoints, in the worker.

An event arrives at least once, and in the order of its stream: with the same id and the same bytes if it arrives again.
Never write an outcome without the lease on its endpoint, and write it in the transaction that moves the cursor.

In reading order:

- `delivery`: a delivery, its attempts, and what follows from the outcome of one: the schedule of retries.
- `lines`: which delivery may go when. `health`: how much an endpoint that fails is asked, and when it is disabled.
- `store`: the leases, cursors and deliveries in the database. `outcomes`: writes outcomes in groups.
- `event_source`: what is needed of the feed. `pages`, `rendered`: what of it the endpoints of a merchant share.
- `session`: delivers an endpoint's events while a lease lasts. `alerts`: an endpoint was disabled because it failed.
- `repeats`: what a merchant asks for again.
- `sender`: gives endpoints that have something to send to sessions. `retention`: deletes what is old or of an erased
  person.
"""
