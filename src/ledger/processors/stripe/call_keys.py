"""How a call of the ledger is named at Stripe: by idempotency keys, and in the metadata of what it made.

One call can need several requests; each has a key of its own, derived from the call's. Stripe forgets a key no sooner
than after 24 hours. Do not ask by a key that is older than `REMEMBERED`: Stripe would carry the request out again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID, uuid5

from ledger.domain.orders.refund import returned_refund_id
from ledger.processors.contract import LookUpRequest, Request
from ledger.processors.stripe.forms import Form
from ledger.processors.stripe.objects import Refund

REMEMBERED: Final = timedelta(hours=20)
"""How long after a call its keys are used. Source: docs.stripe.com/api/idempotent_requests ("at least 24 hours")."""

_KEY_MAX: Final = 255
"""Source: docs.stripe.com/api/idempotent_requests ("up to 255 characters")."""
_EARLIER: Final = timedelta(minutes=2)
_LATER: Final = timedelta(minutes=10)
"""How far the times of Stripe and of the ledger may differ, with the time that a call may take."""

MERCHANT: Final = "ledger_merchant"
"""The field of the metadata by which an object is known as one of the ledger's."""
_KEY, _ORDER, _PAYMENT = "ledger_key", "ledger_order", "ledger_payment"
_CUSTOMER: Final = "ledger_customer"
CAPTURE_KEY: Final = "ledger_capture"
VOID_KEY: Final = "ledger_void"
FENCED: Final = "ledger_fenced"
WHOLE_AMOUNT: Final = "ledger_amount"
SAVED_AS: Final = "ledger_payment_method"


def key_of(request: Request, step: str) -> str:
    """Returns the idempotency key of one request of a call. Merchants who share an account have different ones."""
    key = f"{request.merchant_id}:{request.idempotency_key}:{step}"
    assert len(key) <= _KEY_MAX, "the ledger's own keys are short"
    return key


def metadata_of(request: Request) -> dict[str, str]:
    """Returns the metadata of what a call makes: the same for a call and for its look-up."""
    return {
        MERCHANT: str(request.merchant_id),
        _KEY: request.idempotency_key,
        **({} if request.order_id is None else {_ORDER: str(request.order_id)}),
        **({} if request.payment_id is None else {_PAYMENT: str(request.payment_id)}),
        **({} if request.customer_id is None else {_CUSTOMER: str(request.customer_id)}),
    }


def is_of(request: Request, metadata: Mapping[str, str] | None) -> bool:
    """Returns whether an object was made by this call."""
    return named_key(metadata) == (request.merchant_id, request.idempotency_key)


def named_key(metadata: Mapping[str, str] | None) -> tuple[UUID, str] | None:
    """Returns the merchant and the key of the call that made an object, None if it was not made by the ledger."""
    found = metadata or {}
    merchant = merchant_of(found)
    return None if merchant is None or _KEY not in found else (merchant, found[_KEY])


def capture_key_of(intent_id: str, metadata: Mapping[str, str]) -> str:
    """Returns the key of the call that has captured an intent; one of its own for a capture on Stripe's own pages."""
    return metadata.get(CAPTURE_KEY) or f"{intent_id}:capture"


def void_key_of(intent_id: str, metadata: Mapping[str, str]) -> str:
    """Returns the key of the call that has cancelled an intent; one of its own for one on Stripe's own pages."""
    return metadata.get(VOID_KEY) or f"{intent_id}:cancel"


def unrequested_refund_id(order_id: UUID, stripe_id: str) -> UUID:
    """Returns the ledger's id of a refund that was made on Stripe's own pages."""
    return uuid5(order_id, f"refund:{stripe_id}")


def is_refund_of(request: Request, refund: Refund) -> bool:
    """Returns whether a refund was made by this call, or is in the log under its key: because no call made it, or
    because the call that made it has failed otherwise.
    """
    if is_of(request, refund.metadata) or request.order_id is None or request.payment_id is None:
        return is_of(request, refund.metadata)
    key, payment_id = named_key(refund.metadata), request.payment_id
    if key is None:
        return request.idempotency_key == f"{unrequested_refund_id(request.order_id, refund.id)}:{payment_id}"
    failed = _refund_id(key[1])
    if failed is None or refund.status != "succeeded" or key[0] != request.merchant_id:
        return False
    return request.idempotency_key == f"{returned_refund_id(failed, payment_id)}:{payment_id}"


def _refund_id(key: str) -> UUID | None:
    """Returns the refund that the key of its call names."""
    try:
        return UUID(key.partition(":")[0])
    except ValueError:
        return None


def merchant_of(metadata: Mapping[str, str] | None) -> UUID | None:
    return _uuid(metadata or {}, MERCHANT)


def _uuid(metadata: Mapping[str, str], name: str) -> UUID | None:
    try:
        return UUID(metadata[name])
    except (KeyError, ValueError):
        return None


def about_of(metadata: Mapping[str, str]) -> dict[str, UUID | None]:
    """Returns the merchant, the order and the payment that the metadata of an object of the ledger's name."""
    return {
        "merchant_id": _uuid(metadata, MERCHANT),
        "order_id": _uuid(metadata, _ORDER),
        "payment_id": _uuid(metadata, _PAYMENT),
    }


def verification_of(metadata: Mapping[str, str]) -> dict[str, UUID | None]:
    """Returns the merchant, the customer and the verification that the metadata of a setup intent name."""
    return {
        "merchant_id": _uuid(metadata, MERCHANT),
        "customer_id": _uuid(metadata, _CUSTOMER),
        "verification_id": _uuid(metadata, _KEY),
    }


def is_remembered(request: LookUpRequest) -> bool:
    """Returns whether Stripe still knows the keys of the call for certain."""
    began = began_at(request)
    return began is not None and datetime.now(UTC) - began < REMEMBERED


def began_at(request: LookUpRequest) -> datetime | None:
    """Returns when the call was first announced (real time): the log's time, else that of its key, if it has one."""
    if request.announced_at is not None:
        return request.announced_at
    try:
        key = UUID(request.idempotency_key)
    except ValueError:
        return None
    return datetime.fromtimestamp((key.int >> 80) / 1000, UTC) if key.version == 7 else None


def made_about(request: LookUpRequest) -> Form:
    """Returns the filter of a list for what the first try of a call has made."""
    began = began_at(request)
    if began is None:
        return {}
    return {"created": {"gte": int((began - _EARLIER).timestamp()), "lte": int((began + _LATER).timestamp())}}


def made_since(request: LookUpRequest) -> Form:
    """Returns the filter of a list for what any try of a call has made."""
    began = began_at(request)
    return {} if began is None else {"created": {"gte": int((began - _EARLIER).timestamp())}}
