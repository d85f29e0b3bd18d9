"""The idempotency record: a request that came under an idempotency key, and its answer.

The id of its stream follows from the merchant and the key, so that the stream's first version is the claim on the key.
The stream stores a keyed hash of the request and the version of the stream that was answered,
never the request itself.

In reading order:

- `events`: accepted, answered, refused, released, completed. `state`, `evolve`: the record, and its fold.
"""
