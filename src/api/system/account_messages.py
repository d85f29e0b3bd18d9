"""POST {base}/processor-messages/{merchantId}/{account}: a message that a processor signs in its own form, about one
account of a merchant.

Only what it is about is kept: the worker asks the processor for that. Give a caller without the secret no information:
an unknown merchant or account, an account without secrets, a wrong signature, an old one and another account's get the
same answer after the same check. 200 means that the message is on disk.
"""

from __future__ import annotations

import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any, Final
from uuid import UUID

import structlog
from msgspec import Meta, Struct
from starlette.types import Receive, Scope, Send

from api.errors import ApiError, invalid, method_not_allowed
from api.http.dependencies import DependencyHolder, not_started
from api.http.request import REQUEST_SCOPE_KEY, ApiRequest
from api.operation import ANY, OperationSpec
from api.processor_accounts.fields import ACCOUNT_NAME
from api.response import json_response
from api.system.processor_messages import MessageKept
from ledger.domain.ids import parse_uuid
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.processors.merchant_accounts import MerchantAccounts
from ledger.processors.messages import InvalidSignature, MessageNotice, MessageUnreadable, NoticeReceived
from ledger.processors.registry import AccountKind, Kinds

_log: Final = structlog.get_logger()

_BODY_MAX: Final = 32 << 10
"""More than an object of the ledger's has with its metadata. A longer message is fetched from the processor's list."""
_NAME: Final = re.compile(ACCOUNT_NAME["schema"]["pattern"], re.ASCII)
_NO_SECRETS: Final = (secrets.token_hex(32),)
"""Used in place of the secrets of an account that has none, so that the check takes the same time. No message is signed
with it.
"""


class AccountMessage(Struct, kw_only=True):
    """A message in the form of the account's processor: of Stripe's, what is read of it."""

    id: Annotated[str, Meta(description="The message's id. A message with the same id is a repetition.")]
    type: Annotated[str, Meta(description="What happened, in the processor's words.")]
    created: Annotated[int, Meta(description="When it happened, in seconds of Unix time.")]
    data: Annotated[dict[str, Any], Meta(description="The object that it is about, of which only the id is read.")]


class AccountMessages:
    """The endpoint. The merchants' accounts have the secrets."""

    def __init__(self, holder: DependencyHolder) -> None:
        self._holder = holder

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers 200 to a signed message, new or repeated. Raises ApiError (400, 401, 405, 413, 415), a Fault, and
        TooManyRequests.
        """
        request: ApiRequest = scope[REQUEST_SCOPE_KEY]
        if scope["method"] != "POST":
            raise method_not_allowed("POST")
        body = await request.body(_BODY_MAX)
        deps = self._holder.deps
        if deps is None or deps.ledger.accounts is None:
            raise not_started()
        request.needs_database = True
        merchant_id, name = parse_uuid(request.path_id("merchantId") or ""), request.path_id("account") or ""
        account, kept = await _account(deps.ledger.accounts, merchant_id, name)
        notice = _read(_kind(deps.ledger.accounts.kinds, account), request.headers, body, kept)
        if merchant_id is None or account is None:
            raise _wrong()
        deps.limiter.admit_account_message(account.account_id)  # signed: others cannot use up the account's rate
        message = NoticeReceived(
            processor=account.processor,
            account=None if name == account.processor else name,
            merchant_id=merchant_id,
            message_id=notice.message_id,
            occurred_at=notice.occurred_at,
            kind=notice.kind,
            object_id=notice.object_id,
            body_hash=urlsafe_b64encode(sha256(body).digest()).decode().rstrip("="),
        )
        await deps.delivery.keep(message)
        content = MessageKept(accepted=True, processor_message_id=message.message_id)
        await request.respond(json_response(200, content), send)


async def _account(
    accounts: MerchantAccounts, merchant_id: UUID | None, name: str
) -> tuple[ProcessorAccount | None, Sequence[str]]:
    """Returns a merchant's account and its secrets. Without both, there is no account, and no message is signed."""
    if merchant_id is None or not _NAME.fullmatch(name):
        return None, _NO_SECRETS
    stored = (each for each in await accounts.stored(merchant_id) if each.name == name)
    account = next(stored, None)
    if account is None or account.terms.secret_id is None:
        return None, _NO_SECRETS
    try:
        keys = await accounts.keys.open(merchant_id, account.terms.secret_id)
    except (KeyUnavailable, SealBroken):
        ids = {"merchant_id": str(merchant_id), "account": name}
        _log.error("processor_account_not_opened", processor=account.processor, **ids)
        keys = None
    return (account, keys.webhook_secrets) if keys is not None and keys.webhook_secrets else (None, _NO_SECRETS)


def _kind(kinds: Kinds, account: ProcessorAccount | None) -> AccountKind | None:
    """Returns what checks a message: for an unknown account the first processor that signs, as for a known one."""
    if account is not None:
        return kinds.get(account.processor)
    return next((kind for kind in kinds.values() if kind.takes_keys), None)


def _read(kind: AccountKind | None, headers: Mapping[bytes, bytes], body: bytes, kept: Sequence[str]) -> MessageNotice:
    if kind is None:
        raise _wrong()
    try:
        return kind.read_message(headers, body, kept, datetime.now(UTC))
    except InvalidSignature:
        raise _wrong() from None
    except MessageUnreadable:
        raise invalid("body", "must be a message of the account's processor") from None


def _wrong() -> ApiError:
    return ApiError(
        401,
        "INVALID_SIGNATURE",
        "The message is not signed with a secret of this account, or its signature is more than five minutes old.",
    )


_MERCHANT: Final[dict[str, Any]] = {
    "name": "merchantId",
    "in": "path",
    "required": True,
    "description": "The merchant's id.",
    "schema": {"type": "string", "format": "uuid"},
}
_ACCOUNT: Final[dict[str, Any]] = {**ACCOUNT_NAME, "name": "account"}

KEEP_ACCOUNT_MESSAGE: Final = OperationSpec(
    name="tellAccountMessage",
    summary="Report an event at an account's processor",
    description="""
For payment processors, not for merchants: the address of one account, `messagesUrl` in its document, for the messages
of its processor in the processor's own form. Stripe signs with `Stripe-Signature`. The service stores which object a
message is about, and asks the processor for it. Messages may come repeatedly, late and in any order; kinds that are not
used are taken too. A disconnected account takes messages as before.
""",
    parameters=(_MERCHANT, _ACCOUNT),
    takes=AccountMessage,
    examples={
        "paid": {
            "summary": "A payment at Stripe has succeeded",
            "value": {
                "id": "evt_1Q2w3E4r5T6y7U8i",
                "object": "event",
                "type": "payment_intent.succeeded",
                "created": 1772380800,
                "data": {"object": {"id": "pi_3Q2w3E4r5T6y7U8i", "object": "payment_intent"}},
            },
        },
    },
    answers={200: ("The message is stored on disk.", MessageKept)},
    codes={
        400: ("VALIDATION_ERROR",),
        401: ("INVALID_SIGNATURE",),
        408: ("REQUEST_TIMEOUT",),
        413: ("BODY_TOO_LARGE",),
        414: ANY[414],
        415: ("UNSUPPORTED_MEDIA_TYPE",),
        429: ANY[429],
        431: ANY[431],
        500: ANY[500],
        503: ANY[503],
    },
)
"""The operation that needs the signature of an account's processor instead of a key."""
