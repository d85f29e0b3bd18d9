"""The one way in which a stream is changed.

In reading order:

- `unit_of_work`: the streams that a request has loaded, its plans and its commits. `execute`: attempts, commits, calls.
  `execute_stream`: the same on a stream that needs no processor. `execute_once`: a sandbox's helper, once for a key.
- `idempotency`: answers that a key has received before. `processor_requests`: requests to processors, from intents.
  `repeat_call`: a call that never reached the processor, sent again.
- `payment_metrics`: what orders and payments have come to. `processor_metrics`: how calls to processors end.
"""
