"""The one way in which a stream is changed.

In reading order:

- `unit_of_work`: the streams that a request has loaded, its plans and its commits. `calls`: what a call to an outside
  system is, and how one is made. `execute`: attempts, commits, calls, outcomes.
- `execute_request`: a request, once under its idempotency key. `execute_stream`: one whose changes announce no call.
  `execute_once`: a sandbox's helper. `idempotency`: what a key has received before.
- `accounts`: the accounts of a merchant with processors, and what those of an order allow.
- `processor_requests`: requests to processors, from intents. `payer`: whom such a request names.
  `session_end`: ends a session whose payer authorises the payment at the processor.
  `repeat_call`: a call that never reached the processor, sent again.
- `payment_metrics`: what orders and payments have come to. `processor_metrics`: how calls to processors end.
"""
