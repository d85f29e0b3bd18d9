"""One HTTP request: its id, its principal, its path, query and body, and how it is answered.

Read the body only after the caller is known to be allowed. Until then none of it has been read, so a caller without a
key cannot make the service hold any.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Mapping
from itertools import count
from time import perf_counter
from typing import Final
from urllib.parse import parse_qsl, unquote
from uuid import UUID

from starlette.types import Message, Receive, Scope, Send

from api.errors import ApiError, ClientGone, invalid, order_not_found
from api.http.auth import Principal
from api.http.idempotency_key import idempotency_key, idempotency_key_of_many
from api.response import ERRORS_PAGE, ApiResponse, Headers
from ledger.asgi import HAS_LEFT, IS_ENDING, RESPOND
from ledger.operations.context.inputs import Actor
from ledger.operations.pipeline.unit_of_work import IdempotencyKey
from ledger.processors.pan_detection import contains_pan
from ledger.slices import Slices

REQUEST_SCOPE_KEY: Final = "ledger.call"
"""The scope's key of the `ApiRequest`."""
REQUEST_ID_HEADER: Final = b"x-request-id"
IDEMPOTENCY_HEADER: Final = b"idempotency-key"

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
_JSON_TYPE: Final = re.compile(rb"\s*application/json\s*(?:;\s*charset\s*=\s*\"?utf-?8\"?\s*)?", re.IGNORECASE)
_FORM_TYPE: Final = re.compile(rb"\s*application/x-www-form-urlencoded\s*(?:;.*)?", re.IGNORECASE)
_FORM_FIELDS_MAX: Final = 20
_ID_MAX: Final = 255

# A new request id is the process, drawn once, and a number. A random id for each request would cost more than checking
# the key.
_PROCESS: Final = f"req-{secrets.token_hex(8)}-"
_COUNTER: Final = count(1)


class ApiRequest:
    """One HTTP request. `principal` is set once the key is checked; `status` is 0 until an answer is begun.

    `is_reading` is true while the body is being received; `rate_headers` are the RateLimit headers of the answer.
    `began` is in seconds of `perf_counter`. `needs_database` is set once an endpoint begins to use the database,
    `has_timed_out` once the request is ended, `lost_database` if the reason is that the database is away, and
    `is_unconfirmed` if it is that the process ends and the database does not confirm what it has committed.
    `errors_url` is the address of the page about errors, `error_code` the code of the answer to a failure, `order_id`
    the id of the order that was found or made.
    """

    __slots__ = (
        "began",
        "error_code",
        "errors_url",
        "has_timed_out",
        "headers",
        "is_reading",
        "is_unconfirmed",
        "lost_database",
        "needs_database",
        "order_id",
        "principal",
        "rate_headers",
        "receive",
        "request_id",
        "scope",
        "status",
    )

    principal: Principal

    def __init__(self, scope: Scope, receive: Receive, errors_url: str = ERRORS_PAGE) -> None:
        self.began = perf_counter()
        self.scope = scope
        self.errors_url = errors_url
        self.receive = receive
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self.request_id = _request_id(self.headers.get(REQUEST_ID_HEADER))
        self.rate_headers: Headers = ()
        self.is_reading = False
        self.needs_database = self.has_timed_out = self.lost_database = self.is_unconfirmed = False
        self.status = 0
        self.error_code: str | None = None
        self.order_id: UUID | str | None = None

    @property
    def actor(self) -> Actor:
        """Returns the merchant, the key and the request on whose behalf an operation is carried out."""
        principal = self.principal
        return Actor(merchant_id=principal.merchant_id, key_id=principal.key_id, request_id=self.request_id)

    @property
    def merchant_id(self) -> UUID | None:
        """Returns the merchant of the request, or None before the key is checked."""
        return self.principal.merchant_id if hasattr(self, "principal") else None

    @property
    def key_id(self) -> UUID | None:
        """Returns the API key of the request, or None before the key is checked."""
        return self.principal.key_id if hasattr(self, "principal") else None

    @property
    def awaits_database(self) -> bool:
        """Returns whether the request cannot go on without the database."""
        return self.needs_database and not self.is_reading and not self.status

    def is_awaited(self) -> bool:
        """Returns whether the request has no answer yet, and its client waits for one as far as the server knows."""
        has_left = self.scope.get(HAS_LEFT)
        return not self.status and (has_left is None or not has_left())

    def may_wait(self) -> bool:
        """Returns whether the request may wait for what comes: its client does, and the process is not to end."""
        is_ending = self.scope.get(IS_ENDING)
        return self.is_awaited() and (is_ending is None or not is_ending())

    @property
    def answer_headers(self) -> Headers:
        """Returns the headers of every answer to this request."""
        return ((REQUEST_ID_HEADER, self.request_id.encode()), *self.rate_headers)

    @property
    def query(self) -> bytes:
        """Returns the query string as it was sent."""
        query: bytes = self.scope["query_string"]
        return query

    def idempotency_key(self, pepper: bytes, body: bytes) -> IdempotencyKey | None:
        """Returns the Idempotency-Key with the request's fingerprint, or None without the header. Raises ApiError
        (400).
        """
        header = self.headers.get(IDEMPOTENCY_HEADER)
        if header is None:
            return None
        return idempotency_key(header, pepper, self.scope["method"], self.scope["path"], body)

    async def idempotency_key_of_many(
        self, pepper: bytes, body: bytes, entries: str, entry_max: int, slices: Slices
    ) -> IdempotencyKey | None:
        """Returns what `idempotency_key` returns, for a body with a long list of `entries`, which is read in slices."""
        header = self.headers.get(IDEMPOTENCY_HEADER)
        if header is None:
            return None
        return await idempotency_key_of_many(
            header, pepper, self.scope["method"], self.scope["path"], body, entries, entry_max, slices
        )

    def path_id(self, name: str) -> str | None:
        """Returns an id of the path, percent-decoded, or None if the text cannot be an id."""
        try:
            text = unquote(self.scope["path_params"][name], errors="strict")
        except UnicodeDecodeError:
            return None
        return text if len(text) <= _ID_MAX and text.isprintable() else None

    def order_reference(self) -> str:
        """Returns the id or external id of the order in the path. Raises OrderNotFound if the text cannot be an
        id.
        """
        reference = self.path_id("id")
        if reference is None:
            raise order_not_found()
        return reference

    def body(self, limit: int) -> Awaitable[bytes]:
        """Returns the JSON body, of at most `limit` bytes.

        Raises ApiError: 415 for another type or an encoding, 413 for a longer body. Raises ClientGone.
        """
        self._check_type()
        return self._read(limit)

    async def optional_body(self, limit: int) -> bytes:
        """Returns what `body` returns, or `{}` if no body was sent."""
        if b"content-type" in self.headers:
            return await self.body(limit) or b"{}"
        if await self._read(limit):
            self._check_type()
        return b"{}"

    async def form(self, limit: int) -> Mapping[str, str]:
        """Returns the fields of an HTML form, of at most `limit` bytes; of two fields with one name the last counts.

        Raises ApiError: 415 for another type, 413 for a longer body, 400 for a body that is not a form. Raises
        ClientGone.
        """
        if not _FORM_TYPE.fullmatch(self.headers.get(b"content-type", b"")):
            raise ApiError(415, "UNSUPPORTED_MEDIA_TYPE", "The body must be sent as application/x-www-form-urlencoded.")
        try:
            return dict(parse_qsl((await self._read(limit)).decode(), max_num_fields=_FORM_FIELDS_MAX))
        except ValueError:
            raise invalid(
                "body", f"must be a form of at most {_FORM_FIELDS_MAX} fields in UTF-8", "INVALID_FORMAT"
            ) from None

    async def respond(self, response: ApiResponse, send: Send) -> None:
        """Sends an answer in one piece, with the headers that every answer to this request has."""
        length = (b"content-length", b"%d" % len(response.body))
        headers = [response.content_type, length, *response.headers, *self.answer_headers]
        respond = self.scope.get(RESPOND)
        if respond is not None and not self.status and respond(response.status, headers, response.body):
            self.status = response.status
            return
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _read(self, limit: int) -> bytes:
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared[:20]) > limit:
            raise _too_large(limit)
        self.is_reading = True
        body, more = _piece(await self.receive())
        if more:
            body = await self._rest(body, limit)
        self.is_reading = False
        if len(body) > limit:
            raise _too_large(limit)
        return body

    def _check_type(self) -> None:
        content_type = self.headers.get(b"content-type", b"")
        if content_type != b"application/json" and not _JSON_TYPE.fullmatch(content_type):
            raise ApiError(
                415,
                "UNSUPPORTED_MEDIA_TYPE",
                "The body must be JSON in UTF-8: send it with the header content-type: application/json.",
            )
        if self.headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise ApiError(415, "UNSUPPORTED_MEDIA_TYPE", "The body must be sent without a content encoding.")

    async def _rest(self, first: bytes, limit: int) -> bytes:
        pieces, size, more = [first], len(first), True
        while more:
            if size > limit:
                raise _too_large(limit)
            piece, more = _piece(await self.receive())
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)


def _piece(message: Message) -> tuple[bytes, bool]:
    """Returns a piece of the body, and whether more follow. Raises ClientGone."""
    if message["type"] != "http.request":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


def _too_large(limit: int) -> ApiError:
    return ApiError(413, "BODY_TOO_LARGE", f"The body must have at most {limit} bytes.")


def _request_id(sent: bytes | None) -> str:
    """Returns the caller's own id of the request if it can be logged and stored, else a new one."""
    if sent is not None and _REQUEST_ID.fullmatch(sent):
        text = sent.decode()
        if not contains_pan(text):
            return text
    return f"{_PROCESS}{next(_COUNTER):08x}"
