"""The audits that merchants ask for, in the worker: each in a process of its own, one at a time over all workers.

The process has a low priority, and ends with its worker, however that ends. What it leaves undone begins again.

In reading order:

- `messages`: what the worker and the process send each other. `store`: the audits in the database. `requests`: how a
  request asks for one.
- `process`: the worker's view of the process. `runner`: takes one audit after the other.
"""
