"""One path and its operations, as a plain ASGI endpoint of the router.

The rule a stranger would break: the checks come in the contract's order (N72): key, merchant, rate, and only then the body.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from api.answers import Answer, send_answer
from api.auth import Keys
from api.call import Call
from api.edge import CALL
from api.limits import Limiter, SharedLimiter
from api.refusals import method_not_allowed
from ledger import api_keys
from ledger.journal.append import DatabaseUnavailable
from ledger.operations.clocks import ClockMoves
from ledger.operations.inbound import Mail
from ledger.operations.ledger import Ledger
from ledger.operations.payment_names import PaymentNames
from projections.loader import Reader


class Rooms(Struct, frozen=True):
    """What the operations work with, for as long as the application runs."""

    ledger: Ledger
    reader: Reader
    keys: Keys
    limiter: Limiter
    body_limit: int
    fingerprint_key: bytes
    clocks: ClockMoves | None
    """How merchants' clocks are moved: only in the sandbox."""
    mail: Mail | None
    """Where processors' messages are handed over."""
    names: PaymentNames | None
    """Where payments are found by their ids alone: only in the sandbox."""
    shared_limiter: SharedLimiter | None = None
    """Counts instead of `limiter` where several processes serve."""


class House:
    """Where the rooms are once the application has started; routes are laid out before that."""

    rooms: Rooms | None = None

    def opened(self) -> Rooms:
        """The rooms. Raises DatabaseUnavailable before the start and after the end."""
        if self.rooms is None:
            raise DatabaseUnavailable("the application has not started")
        return self.rooms


Operation = Callable[[Rooms, Call], Awaitable[Answer]]


class Allowed(Struct, frozen=True):
    """An operation and what a key must be allowed for it."""

    operation: Operation
    scope: api_keys.Scope


class Resource:
    """The operations of one path, by method; HEAD is GET without the body."""

    def __init__(self, house: House, **operations: Allowed) -> None:
        self._house = house
        self._operations = dict(operations)
        if "GET" in operations:
            self._operations["HEAD"] = operations["GET"]

    @property
    def operations(self) -> Mapping[str, Allowed]:
        """What the path can do, by method, without HEAD."""
        return {method: allowed for method, allowed in self._operations.items() if method != "HEAD"}

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer one request. What it raises is answered at the edge."""
        allowed = self._operations.get(scope["method"])
        if allowed is None:
            raise method_not_allowed(*self._operations)
        call: Call = scope[CALL]
        rooms = self._house.opened()
        call.principal = principal = await rooms.keys.identify(call.headers, allowed.scope)
        if rooms.shared_limiter is None:
            call.rate_headers = rooms.limiter.admit(principal.key_id, principal.per_minute, principal.per_second)
        else:
            call.rate_headers = await rooms.shared_limiter.admit(
                principal.merchant_id, principal.key_id, principal.per_minute, principal.per_second
            )
        await rooms.ledger.clock.look(principal.merchant_id)
        answer = await allowed.operation(rooms, call)
        await send_answer(answer, send, call.answer_headers)
