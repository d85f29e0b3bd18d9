"""The work that happens outside a request, mostly in the worker.

A reaction or a job may run twice, and in two workers at once: the version of the stream decides which one counts, as
for requests.

In reading order:

- `effects`: what a reaction is, and what it can ask for. `reactions`: what follows events. `scheduler`: timers that
  come due, and the queue of jobs that they become. `clock`: moves of a sandbox merchant's clock.
- `inbox`: messages of processors, from the inbox to the orders.
- `deliveries`: posts public events to merchants' endpoints.
- `recovery`: finds the outcomes of processor calls that have none. `reconciliation`: compares the processor's records
  with the log. `erasure`: finishes interrupted erasures. `log_sealing`: extends the Merkle trees of logs.
- `audits`: carries out the audits that merchants ask for.
- `fair_slots`: work that runs side by side, shared by the merchants. `pace`: renewals begin evenly. `periodic`: the one
  poll loop. `worker`: runs all of it in one process.
"""
