"""Why an amount or the status of an order is what it is: its formula with the values in it, and every event that moved
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final

from msgspec import Meta, Raw, Struct

from ledger.domain.money import shortest
from ledger.domain.orders.state import Order
from ledger.journal.reader import RecordedEvent
from projections.formats import Moment, encode, moment
from projections.histories.sentences import sentence
from projections.histories.steps import Step

Value = Decimal | str | bool | None
"""An amount in minor units, a status, or a fact."""

_ValueDocument = Annotated[
    Raw,
    Meta(
        description="An amount in minor units (cents), a status, true or false; null for none.",
        extra_json_schema={"type": ["number", "string", "boolean", "null"]},
    ),
]


class TermDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A value in a formula."""

    name: Annotated[
        str, Meta(description="What it is: mostly where the order has it.", examples=["payments[0].capturedAmount"])
    ]
    value: _ValueDocument


_MOVE_NAMES: Final = {"before": "from", "after": "to", "recorded_at": "recordedAt"}


class MoveDocument(Struct, frozen=True, kw_only=True, rename=_MOVE_NAMES.get, gc=False):
    """An event that changed the value."""

    version: Annotated[int, Meta(description="The number of the event among those of the order.")]
    position: Annotated[int, Meta(description="The number of the event in the merchant's log.")]
    recorded_at: Annotated[Moment, Meta(description="When it was recorded, by the merchant's clock.")]
    topic: Annotated[str, Meta(description="The kind of the event, permanent.", examples=["payment-captured.v1"])]
    sentence: Annotated[
        str, Meta(description="What happened, for people.", examples=["Card payment of 150.00 MXN captured"])
    ]
    before: _ValueDocument
    after: _ValueDocument


class ExplanationDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a field of an order is what it is."""

    field: Annotated[str, Meta(description="The field.", examples=["amountPending"])]
    value: _ValueDocument
    formula: Annotated[
        str, Meta(description="How it follows from the terms.", examples=["Σ payments[].capturedAmount"])
    ]
    terms: Annotated[list[TermDocument], Meta(description="The values in the formula.")]
    moves: Annotated[list[MoveDocument], Meta(description="The events that changed the value, oldest first.")]


class Term(Struct, frozen=True):
    """A value in a formula, before it is rendered."""

    name: str
    value: Value


class _Explained(Struct, frozen=True):
    """How a field follows from an order: its value, the formula, and the values in that."""

    value: Callable[[Order], Value]
    formula: Callable[[Order], str]
    terms: Callable[[Order], Sequence[Term]]


_STATUS: Final = (
    "the first that applies. The order is closed and holds no money: REFUNDED after money was given back, else "
    "CANCELLED. A cancellation is pending: CANCELLATION_REQUESTED. A refund is pending: REFUND_PROCESSING. An order of "
    "one tender has refunds: REFUNDED if it holds no money, else PARTIALLY_REFUNDED. It has captured money: COMPLETED "
    "if amountPaid − amountRefunded covers amount, else PARTIALLY_PAID. A payment can still bring money: the step of "
    "the newest one. Otherwise FAILED if its payment failed; PENDING without a payment, on a split order, and after "
    "the expiry of the payment of an order that was created pending"
)
_SPLIT: Final = "Σ of the surcharge in each payment's captured money, minus that in what was refunded of it"
_ONE_TENDER: Final = "Σ of the surcharge in the money that covers the order, and in the newest payment's open rest while it is not covered"


def _surcharge_formula(order: Order) -> str:
    if order.surcharge_amount is None:
        return "null: no payment bears a surcharge"
    return _SPLIT if order.terms.allow_partials else _ONE_TENDER


def _surcharge_terms(order: Order) -> list[Term]:
    if order.surcharge_amount is None:
        return []
    places = {payment.started.payment_id: n for n, payment in enumerate(order.payments)}
    parts = order.surcharge_parts()
    return [Term(f"payments[{places[payment.started.payment_id]}], surcharge", part) for payment, part in parts]


def _status_terms(order: Order) -> list[Term]:
    return [
        Term("closed", order.closed),
        Term("cancellation is pending", order.cancel_requested),
        Term("split", order.terms.allow_partials),
        Term("created pending", order.terms.pending),
        *(Term(name, EXPLAINED[name].value(order)) for name in ("amount", "amountPaid", "amountRefunded")),
        *(Term(f"payments[{n}].status", payment.status.value) for n, payment in enumerate(order.payments)),
    ]


def _fields(*names: str) -> Callable[[Order], list[Term]]:
    return lambda order: [Term(name, EXPLAINED[name].value(order)) for name in names]


def _sum_of(name: str, value: Callable[[Any], Decimal]) -> Callable[[Order], list[Term]]:
    return lambda order: [Term(f"payments[{n}].{name}", value(payment)) for n, payment in enumerate(order.payments)]


EXPLAINED: Final[Mapping[str, _Explained]] = {
    "status": _Explained(lambda order: order.status.value, lambda _: _STATUS, _status_terms),
    "amount": _Explained(
        lambda order: order.amount,
        lambda _: "subtotalAmount + surchargeAmount",
        _fields("subtotalAmount", "surchargeAmount"),
    ),
    "subtotalAmount": _Explained(
        lambda order: order.subtotal_amount, lambda _: "what the merchant asked for", _fields("subtotalAmount")
    ),
    "surchargeAmount": _Explained(lambda order: order.surcharge_amount, _surcharge_formula, _surcharge_terms),
    "amountPaid": _Explained(
        lambda order: order.amount_paid,
        lambda _: "Σ payments[].capturedAmount",
        _sum_of("capturedAmount", lambda payment: payment.captured),
    ),
    "amountRefunded": _Explained(
        lambda order: order.amount_refunded,
        lambda _: "Σ payments[].refundedAmount",
        _sum_of("refundedAmount", lambda payment: payment.refunded),
    ),
    "amountPending": _Explained(
        lambda order: order.amount_pending,
        lambda _: "max(0, amount − (amountPaid − amountRefunded))",
        _fields("amount", "amountPaid", "amountRefunded"),
    ),
}
"""The fields of an order that are explained."""


class Move(Struct, frozen=True):
    """An event that changed a value, with the value before it, None at first, and after it."""

    recorded: RecordedEvent
    sentence: str
    before: Value
    after: Value


class Explanation:
    """Why a field of an order is what it is after the last of the steps that were added, oldest first.

    Only the steps that moved the field are kept, without their states.
    """

    def __init__(self, field: str) -> None:
        self.field, self.explained = field, EXPLAINED[field]
        self.moves: list[Move] = []
        self.order: Order | None = None
        self._value: Value = None

    def add(self, steps: Sequence[Step]) -> None:
        """Adds the next steps."""
        for step in steps:
            before, after = self._value, self.explained.value(step.state)
            if self.order is None or after != before:
                what = sentence(step.recorded.topic, step.recorded.event, step.state)
                self.moves.append(Move(step.recorded, what, before, after))
            self.order, self._value = step.state, after

    def document(self) -> ExplanationDocument:
        """Returns the explanation as it is answered."""
        assert self.order is not None, "an order has a first event"
        return ExplanationDocument(
            field=self.field,
            value=_rendered(self._value),
            formula=self.explained.formula(self.order),
            terms=[
                TermDocument(name=each.name, value=_rendered(each.value)) for each in self.explained.terms(self.order)
            ],
            moves=[
                MoveDocument(
                    version=move.recorded.version,
                    position=move.recorded.position,
                    recorded_at=moment(move.recorded.recorded_at),
                    topic=move.recorded.topic,
                    sentence=move.sentence,
                    before=_rendered(move.before),
                    after=_rendered(move.after),
                )
                for move in self.moves
            ],
        )


def _rendered(value: Value) -> Raw:
    return Raw(encode(shortest(value) if isinstance(value, Decimal) else value))
