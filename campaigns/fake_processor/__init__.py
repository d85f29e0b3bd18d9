"""A payment processor that fails in every way, in a process of its own: `python -m campaigns.fake_processor`.

- `modes`: the failures, and the shapes of calls and answers. `state`: what the processor has taken.
- `record`: its file, flushed line by line. `__main__`: the server.
- `client`: the ledger's side. `service`: a service that uses it instead of the sandbox.
"""
