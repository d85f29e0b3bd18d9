"""A request that came under an idempotency key: what was asked, and what it was answered.

Its stream's id follows from the merchant and the key, so that the stream's first version is the claim on the key. What is
kept is a keyed hash of the request and where its answer stands in the order's stream, never the request itself.
"""
