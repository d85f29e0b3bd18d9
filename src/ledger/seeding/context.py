"""The context of a run's lines, and one line with the data of its action.

The id of an object that a line creates follows from the scenario alone: the merchant's name, the order's external id,
the line's time. Therefore a scenario that runs a second time changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from enum import Enum
from typing import Final, TypeVar
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.rejections import InvalidField
from ledger.operations.context.inputs import (
    Actor,
    CancelInput,
    CaptureInput,
    DeviceDataInput,
    OrderInput,
    PaymentInput,
    RefundInput,
)
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult
from ledger.operations.pipeline.unit_of_work import find_order
from ledger.security.api_keys import NewKey
from ledger.seeding.due_work import DueWork, ScenarioClock
from ledger.seeding.scenario_file import LineNumber, ScenarioLine

T = TypeVar("T")

_NAMESPACE: Final = UUID("6f0d8a52-5b1e-5d0c-9f3a-0a1c2e4b7d96")
"""The namespace of the ids of merchants in scenarios.

Permanent: with another one every scenario would run a second time.
"""


class LineResult(Enum):
    """The result of running a line."""

    NEW = "new"
    DECLINED = "declined"  # new as well: a payment that failed is a part of the scenario
    KNOWN = "already there"


class BodyParsers(Struct, frozen=True):
    """The parsers of bodies: those of the HTTP interface.

    Each takes the merchant's present time and raises InvalidField.
    """

    create: Callable[[bytes, datetime], OrderInput]
    charge: Callable[[bytes, datetime], PaymentInput]
    payment: Callable[[bytes, datetime], PaymentInput]
    refund: Callable[[bytes], RefundInput]
    cancel: Callable[[bytes], CancelInput]
    capture: Callable[[bytes], CaptureInput]
    device_data: Callable[[bytes], DeviceDataInput]


class RunContext(Struct, frozen=True):
    """The state that the lines of one run share.

    `api_keys` collects the secrets of the keys that the run issued, by merchant id. `claimed` holds the ids of effects,
    one for each line about an order at a time.
    """

    ledger: Ledger
    clock: ScenarioClock
    due_work: DueWork
    parsers: BodyParsers
    new_key: Callable[[], NewKey]
    api_keys: dict[UUID, str] = {}
    merchants: dict[UUID, Merchant] = {}
    claimed: set[UUID] = set()


class RunningLine(Struct, frozen=True):
    """A line while it runs."""

    context: RunContext
    place: LineNumber
    line: ScenarioLine

    @property
    def ledger(self) -> Ledger:
        return self.context.ledger

    @property
    def parsers(self) -> BodyParsers:
        return self.context.parsers

    @property
    def body(self) -> bytes:
        return bytes(self.line.body)

    @property
    def merchant_id(self) -> UUID:
        return merchant_id_of(self.line.merchant)

    @property
    def actor(self) -> Actor:
        """The merchant; the request id names the line, as in `cafe.jsonl:12`."""
        return Actor(merchant_id=self.merchant_id, request_id=f"{self.place.file.name}:{self.place.number}")

    @property
    def local_at(self) -> datetime:
        """The line's time in the merchant's time zone."""
        return self.line.at.astimezone(ZoneInfo(self.context.merchants[self.merchant_id].settings.time_zone))

    @property
    def order(self) -> str:
        """The external id of the order that the line names. Raises InvalidField."""
        if self.line.order is None:
            reason = f'is required: a {self.line.action} names its order, as in "order": "…", by external id'
            raise InvalidField("order", reason)
        return self.line.order

    @property
    def effect_id(self) -> UUID:
        """The id of the line's effect on its order at its time: the same in every run."""
        return uuid5(self.merchant_id, f"{self.line.at.timestamp():.6f} {self.line.action} {self.order}")

    def parse_body(self, shape: type[T]) -> T:
        """Decodes the body of an action that exists only in scenarios. Raises InvalidField."""
        try:
            return msgspec.json.decode(self.line.body, type=shape)
        except msgspec.DecodeError as error:
            raise InvalidField("body", f"cannot be read: {error}") from None

    def with_fixed_id(self, payment: PaymentInput, order: str) -> PaymentInput:
        """Returns the payment with the id that follows from the line.

        Raises InvalidField if another line has the same.
        """
        payment_id = uuid5(self.merchant_id, f"{self.line.at.timestamp():.6f} {order}")
        self._claim(payment_id)
        return replace(payment, payment_id=payment_id)

    def follow(self, order: str) -> None:
        """Has the work done that falls due on an order from now on."""
        self.context.due_work.follow(self.merchant_id, order)

    async def find_unless_done(self, *effects: type[object]) -> Order | None:
        """Follows the line's order and returns it; None if it has one of the events `effects` at the line's time.

        Two lines that do the same to one order at the same time could not be distinguished: the second one is refused.
        Raises InvalidField for it, OrderNotFound, a Fault, ConcurrentUpdate.
        """
        self._claim(self.effect_id)
        self.follow(self.order)
        order = await find_order(self.ledger, self.merchant_id, self.order)
        for event in await self.ledger.journal.reader.stream(self.merchant_id, order.terms.order_id):
            if event.at == self.line.at and isinstance(event, effects):
                return None
        return order

    def _claim(self, effect_id: UUID) -> None:
        if effect_id in self.context.claimed:
            raise InvalidField("at", "must differ: an earlier line does the same to the order at this very moment")
        self.context.claimed.add(effect_id)


def merchant_id_of(name: str) -> UUID:
    """Returns the id of the merchant that has this name in scenarios: the same on every installation."""
    return uuid5(_NAMESPACE, name)


def payment_result(result: OrderResult) -> LineResult:
    """Returns the result of a line about a payment."""
    if result.replayed:
        return LineResult.KNOWN
    failed = result.payment_id is not None and result.order.payment(result.payment_id).status is PaymentStatus.FAILED
    return LineResult.DECLINED if failed else LineResult.NEW


Action = Callable[[RunningLine], Awaitable[LineResult]]
"""Runs a line. Raises Rejected, a Fault, and what a processor raises."""
