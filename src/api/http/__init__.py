"""What happens to every request, whatever its endpoint.

In reading order:

- `middleware`: the outermost layer. `endpoint`: the operations of one path. `auth`: the key and its merchant.
  `rate_limits`: how many requests a key may make.
- `request`: one request. `dependencies`: what endpoints work with. `idempotency_key`: the header, and the request's
  fingerprint.
- `error_responses`: how each rejection and failure is answered.
  `open_requests`: what ends a request that takes too long. `waiting_requests`: those that wait for the next event.
- `request_metrics`: what passes through this process.
"""
