"""What the lines of one telling share: the ledger, how bodies are read, and what a line comes to.

The rule a stranger would break: what a line makes has an id that follows from the story alone (the merchant's name, the
order's external id, the line's time). That is why a story can be told twice and changes nothing the second time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from enum import Enum
from typing import Any, Final
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.rejections import InvalidField
from ledger.operations.inputs import (
    Actor,
    CancelInput,
    CaptureInput,
    DeviceDataInput,
    OrderInput,
    PaymentInput,
    RefundInput,
)
from ledger.operations.ledger import Ledger
from ledger.operations.results import OrderResult
from ledger.security.api_keys import NewKey
from ledger.seeding.due_work import MessageDelivery
from ledger.seeding.scenario_file import ScenarioLine

_STORIES: Final = UUID("6f0d8a52-5b1e-5d0c-9f3a-0a1c2e4b7d96")
"""The namespace of the ids of merchants in stories. Permanent: another one would tell every story a second time."""


class LineResult(Enum):
    """What telling a line came to."""

    NEW = "new"
    DECLINED = "declined"  # new as well: a payment that failed is a part of the story
    KNOWN = "already there"


class BodyParsers(Struct, frozen=True):
    """How bodies are decoded: as over HTTP. Each takes the merchant's present moment and raises InvalidField."""

    create: Callable[[bytes, datetime], OrderInput]
    charge: Callable[[bytes, datetime], PaymentInput]
    payment: Callable[[bytes, datetime], PaymentInput]
    refund: Callable[[bytes], RefundInput]
    cancel: Callable[[bytes], CancelInput]
    capture: Callable[[bytes], CaptureInput]
    device_data: Callable[[bytes], DeviceDataInput]


class RunContext(Struct):
    """What the actions of one telling share. `keys` collects the secrets of the keys that it issued, by merchant id.

    `moments` are the ids of what lines have claimed to do to an order at a moment.
    """

    ledger: Ledger
    readers: BodyParsers
    new_key: Callable[[], NewKey]
    keys: dict[UUID, str]
    moments: set[UUID]
    mail: MessageDelivery

    def claim(self, moment: UUID) -> None:
        """Raises InvalidField where an earlier line does the same to the order at the same moment."""
        if moment in self.moments:
            raise InvalidField("at", "must differ: an earlier line does the same to the order at this very moment")
        self.moments.add(moment)


class PlannedLine(Struct, frozen=True):
    """A line ready to be told: after every earlier line that shares a key with it; one without keys is told alone."""

    keys: frozenset[str]
    tell: Callable[[], Awaitable[LineResult]]
    order: str | None = None
    """The external id of the order that the line is about."""


def merchant_id_of(name: str) -> UUID:
    """The id of the merchant that stories call so: the same on every installation."""
    return uuid5(_STORIES, name)


def with_fixed_id(
    scene: RunContext, payment: PaymentInput, merchant: Merchant, line: ScenarioLine, order: str
) -> PaymentInput:
    """The payment with the id that follows from its line. Raises InvalidField where another line has the same."""
    payment_id = uuid5(merchant.merchant_id, f"{line.at.timestamp():.6f} {order}")
    scene.claim(payment_id)
    return replace(payment, payment_id=payment_id)


def outcome(receipt: OrderResult) -> LineResult:
    """What a line about a payment came to."""
    if receipt.replayed:
        return LineResult.KNOWN
    failed = receipt.payment_id is not None and receipt.order.payment(receipt.payment_id).status is PaymentStatus.FAILED
    return LineResult.DECLINED if failed else LineResult.NEW


def actor(merchant: Merchant, request_id: str) -> Actor:
    """On whose word a line happens."""
    return Actor(merchant_id=merchant.merchant_id, request_id=request_id)


def local(line: ScenarioLine, merchant: Merchant) -> datetime:
    """The line's moment by the clock on the merchant's wall."""
    return line.at.astimezone(ZoneInfo(merchant.time_zone))


def named_order(line: ScenarioLine) -> str:
    """The external id of the order that the line names. Raises InvalidField."""
    if line.order is None:
        raise InvalidField("order", f'is required: a {line.action} names its order, as in "order": "…", by external id')
    return line.order


def moment_id(merchant: Merchant, line: ScenarioLine, order: str) -> UUID:
    """What a line does to an order at its moment, as an id that is the same at every telling."""
    return uuid5(merchant.merchant_id, f"{line.at.timestamp():.6f} {line.action} {order}")


Action = Callable[[RunContext, ScenarioLine, Any, str], PlannedLine]
"""Prepares a line of a merchant (None before it is registered); the text names the request in the log's context."""
