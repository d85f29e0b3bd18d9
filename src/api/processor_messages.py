"""POST {base}/processor-messages/{processor}: what a payment processor tells, signed, kept before anything is made of it.

The rule a stranger would break: whoever is not the processor learns nothing. An unknown processor, a wrong signature, an old
one and somebody else's message get the same answer. And 202 means on disk, not done: a worker takes it to its order.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from starlette.types import Receive, Scope, Send

from api.dependencies import DependencyHolder
from api.http.errors import ApiError, invalid, method_not_allowed
from api.http.middleware import REQUEST_SCOPE_KEY
from api.http.request import ApiRequest
from api.http.response import json_response, send_response
from ledger.processors.messages import InvalidSignature, Message, MessageUnreadable, Signed, verify

TIMESTAMP: Final = b"message-timestamp"
SIGNATURE: Final = b"message-signature"

_BODY_MAX: Final = 16 << 10
_NOBODYS: Final = secrets.token_bytes(32)
"""Stands for the key of a processor that there is not: checking takes as long, and nothing is signed with it."""


class ProcessorMessages:
    """The route. `keys` are the processors' own, by name; two while one is replaced by the other."""

    def __init__(self, house: DependencyHolder, keys: Mapping[str, Sequence[bytes]]) -> None:
        self._house = house
        self._keys = keys

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """202 for a message that is new, 200 for one that is known. Raises Refusal (400, 401, 405, 413, 415), a Fault."""
        call: ApiRequest = scope[REQUEST_SCOPE_KEY]
        if scope["method"] != "POST":
            raise method_not_allowed("POST")
        message = self._verified(call, await call.body(_BODY_MAX))
        rooms = self._house.opened()
        assert rooms.mail is not None, "it is opened with the application"
        receipt = await rooms.mail.keep(message)
        content = {"accepted": True, "processorMessageId": message.message_id}
        await send_response(json_response(202 if receipt.is_new else 200, content), send, call.answer_headers)

    def _verified(self, call: ApiRequest, body: bytes) -> Message:
        processor = call.path_id("processor") or ""
        signed = Signed(
            body=body,
            timestamp=call.headers.get(TIMESTAMP, b"").decode("latin-1"),
            signature=call.headers.get(SIGNATURE, b"").decode("latin-1"),
        )
        try:
            message = verify(signed, self._keys.get(processor, (_NOBODYS,)), datetime.now(UTC))
        except MessageUnreadable:
            raise invalid("body", "must be a message of a kind that is known") from None
        except InvalidSignature:
            raise _wrong() from None
        if message.processor != processor:
            raise _wrong()
        return message


def _wrong() -> ApiError:
    return ApiError(
        401,
        "INVALID_SIGNATURE",
        "The message is not signed with a key of its processor, or its timestamp is too far from the present.",
    )
