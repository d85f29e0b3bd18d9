"""What a line of a story can do: register, create, charge. Another action is another row of the table at the end.

The rule a stranger would break: what a line makes has an id that follows from the story alone (the merchant's name, the
order's external id, the line's time). That is why a story can be told twice and changes nothing the second time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ledger.api_keys import NewKey
from ledger.merchants.settings import parse_settings
from ledger.merchants.state import Merchant
from ledger.operations.drafts import Actor, OrderDraft, PaymentDraft
from ledger.operations.ledger import Ledger, OrderReceipt
from ledger.operations.merchants import register_merchant
from ledger.operations.orders import charge_order, create_order
from ledger.orders.status import PaymentStatus
from ledger.rejections import InvalidTerms
from ledger.stories.lines import Line

_STORIES: Final = UUID("6f0d8a52-5b1e-5d0c-9f3a-0a1c2e4b7d96")
"""The namespace of the ids of merchants in stories. Permanent: another one would tell every story a second time."""


class Outcome(Enum):
    """What telling a line came to."""

    NEW = "new"
    DECLINED = "declined"  # new as well: a payment that failed is a part of the story
    KNOWN = "already there"


class Readers(Struct, frozen=True):
    """How bodies are decoded: as over HTTP. Each takes the merchant's present moment and raises InvalidTerms."""

    create: Callable[[bytes, datetime], OrderDraft]
    charge: Callable[[bytes, datetime], PaymentDraft]


class Scene(Struct):
    """What the actions of one telling share. `keys` collects the secrets of the keys that it issued, by merchant id."""

    ledger: Ledger
    readers: Readers
    new_key: Callable[[], NewKey]
    keys: dict[UUID, str]
    payments: set[UUID]


class Step(Struct, frozen=True):
    """A line ready to be told: after every earlier line that shares a key with it; one without keys is told alone."""

    keys: frozenset[str]
    tell: Callable[[], Awaitable[Outcome]]


def merchant_id_of(name: str) -> UUID:
    """The id of the merchant that stories call so: the same on every installation."""
    return uuid5(_STORIES, name)


def _register(scene: Scene, line: Line, merchant: Merchant | None, request_id: str) -> Step:  # noqa: ARG001 - every action's shape
    """A merchant with the settings of the body. One that is there keeps the settings that it has."""
    settings = parse_settings(_texts(line.body))

    async def tell() -> Outcome:
        key = scene.new_key()
        merchant, is_new = await register_merchant(
            scene.ledger, line.merchant, key, settings=settings, merchant_id=merchant_id_of(line.merchant)
        )
        if is_new:
            scene.keys[merchant.merchant_id] = key.secret
        return Outcome.NEW if is_new else Outcome.KNOWN

    return Step(frozenset(), tell)


def _create(scene: Scene, line: Line, merchant: Merchant, request_id: str) -> Step:
    """POST /v2/payment-orders. The same external id again, at a later time, is a further attempt to pay."""
    draft = scene.readers.create(bytes(line.body), _local(line, merchant))
    if draft.payment is not None:
        draft = replace(draft, payment=_fixed(scene, draft.payment, merchant, line, draft.external_id))
    customer = draft.customer.id or draft.customer.external_id
    keys = {f"{merchant.merchant_id} order {draft.external_id}", f"{merchant.merchant_id} customer {customer}"}

    async def tell() -> Outcome:
        return _outcome(await create_order(scene.ledger, _actor(merchant, request_id), draft))

    return Step(frozenset(keys), tell)


def _charge(scene: Scene, line: Line, merchant: Merchant, request_id: str) -> Step:
    """POST /v2/payment-orders/{order}/charge."""
    order = line.order
    if order is None:
        raise InvalidTerms("order", 'A charge names its order: "order": "…", by external id.')
    draft = scene.readers.charge(bytes(line.body), _local(line, merchant))
    draft = _fixed(scene, draft, merchant, line, order)

    async def tell() -> Outcome:
        return _outcome(await charge_order(scene.ledger, _actor(merchant, request_id), order, draft))

    return Step(frozenset({f"{merchant.merchant_id} order {order}"}), tell)


def _fixed(scene: Scene, payment: PaymentDraft, merchant: Merchant, line: Line, order: str) -> PaymentDraft:
    payment_id = uuid5(merchant.merchant_id, f"{line.at.timestamp():.6f} {order}")
    if payment_id in scene.payments:
        raise InvalidTerms("at", "The order is paid by an earlier line at this very moment already.")
    scene.payments.add(payment_id)
    return replace(payment, payment_id=payment_id)


def _outcome(receipt: OrderReceipt) -> Outcome:
    if receipt.replayed:
        return Outcome.KNOWN
    failed = receipt.payment_id is not None and receipt.order.payment(receipt.payment_id).status is PaymentStatus.FAILED
    return Outcome.DECLINED if failed else Outcome.NEW


def _actor(merchant: Merchant, request_id: str) -> Actor:
    return Actor(merchant_id=merchant.merchant_id, request_id=request_id)


def _local(line: Line, merchant: Merchant) -> datetime:
    return line.at.astimezone(ZoneInfo(merchant.time_zone))


def _texts(body: msgspec.Raw) -> dict[str, str]:
    """Settings as an operator would type them on the command line."""
    try:
        settings = msgspec.json.decode(body, type=dict[str, str | int | float | bool | list[str] | None])
    except msgspec.DecodeError as refusal:
        raise InvalidTerms("body", f"The settings cannot be read: {refusal}.") from None
    return {name: ",".join(value) if isinstance(value, list) else _text(value) for name, value in settings.items()}


def _text(value: str | float | bool | None) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)


Action = Callable[[Scene, Line, Any, str], Step]
"""Prepares a line of a merchant (None before it is registered); the text names the request in the log's context."""

ACTIONS: Final[Mapping[str, Action]] = {"register": _register, "create": _create, "charge": _charge}
