"""A page of a history as JSON: each event with its sentence, its actor, and the status and the money after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from ledger.domain.customers.state import Customer
from ledger.domain.invoices.self_invoicing import PAYER_REQUEST
from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.state import Order
from ledger.domain.subscriptions.state import InvoiceStatus, Subscription
from projections.formats import Moment, moment
from projections.histories.sentences import sentence
from projections.histories.steps import Step

ActorType = Literal["API_KEY", "WORKER", "PROCESSOR", "OPERATOR", "PAYER"]
_MESSAGE: Final = "message"
"""What the log has as the request of an event that a processor's message caused."""

_PAYERS: Final = (PAYER_REQUEST, "req-")
"""How the requests of payers begin. Those of earlier releases are the ids that the service made."""

_Amount = Annotated[Decimal | UnsetType, Meta(description="In minor units (cents). Absent for a customer.")]


class ActorDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Who caused an event."""

    type: Annotated[
        ActorType,
        Meta(
            description="API_KEY: a request with this key. WORKER: the service itself, for what had become due. "
            "PROCESSOR: a message of a payment processor. OPERATOR: a command of the installation's operator. PAYER: a "
            "form of the order's payer."
        ),
    ]
    key_id: Annotated[UUID | None, Meta(description="The API key; null for another actor.")] = None
    name: Annotated[
        str | None,
        Meta(
            description="The name of the key, the part of the worker, such as due or recovery, or the operator; null where "
            "none is known."
        ),
    ] = None


class HistoryStateDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The status and the money after an event. Of a subscription, the sums are those of its invoices."""

    status: Annotated[
        str,
        Meta(
            description="The status. REQUESTED or REFUSED for a subscription that has not started; ACTIVE or ERASED for "
            "a customer."
        ),
    ]
    amount: _Amount = UNSET
    amount_paid: _Amount = UNSET
    amount_refunded: _Amount = UNSET
    amount_pending: _Amount = UNSET


class HistoryEventDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """An event of the log."""

    version: Annotated[int, Meta(description="The number of the event among those of the resource.")]
    position: Annotated[int, Meta(description="The number of the event in the merchant's log.")]
    recorded_at: Annotated[Moment, Meta(description="When it was recorded, by the merchant's clock.")]
    topic: Annotated[str, Meta(description="The kind of the event, permanent.", examples=["payment-captured.v1"])]
    sentence: Annotated[
        str, Meta(description="What happened, for people.", examples=["Card payment of 150.00 MXN captured"])
    ]
    actor: ActorDocument
    request_id: Annotated[
        str | None,
        Meta(description="The `x-request-id` of the request of an API key or a payer; null for another actor."),
    ]
    causation: Annotated[UUID | None, Meta(description="What led to it: an earlier command, a payment or a document.")]
    event: Annotated[
        Annotated[Raw, Meta(extra_json_schema={"type": "object"})],
        Meta(description="What the log holds of it, without what was erased. Amounts are decimal strings."),
    ]
    state: HistoryStateDocument
    sealed: Annotated[
        bool,
        Meta(description="Whether `GET /v1/log/entries/{position}/proof` proves the event yet."),
    ]


class HistoryPagination(Struct, frozen=True, kw_only=True, rename="camel"):
    """The position of a page in a history."""

    limit: Annotated[int, Meta(description="The greatest number of events on a page.")]
    total: Annotated[int, Meta(description="The number of events of the resource, which is its version.")]
    count: Annotated[int, Meta(description="The number of events on this page.")]
    has_more: Annotated[bool, Meta(description="Whether there are later events.")]
    last_version: Annotated[int, Meta(description="The `afterVersion` of the next page.")]


class HistoryPage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of what happened to a resource, oldest first."""

    data: Annotated[list[HistoryEventDocument], Meta(description="The events.")]
    pagination: HistoryPagination


def page_of(
    steps: Sequence[Step],
    after_version: int,
    limit: int,
    total: int,
    key_names: Mapping[UUID, str | None],
    sealed_to: int,
) -> HistoryPage:
    """Returns the steps after a version, of a stream with `total` of them, with the names of API keys. The log is
    sealed to the position `sealed_to`.
    """
    last = min(after_version, total) + len(steps)
    return HistoryPage(
        data=[event_document(step, key_names, sealed_to) for step in steps],
        pagination=HistoryPagination(
            limit=limit, total=total, count=len(steps), has_more=last < total, last_version=last
        ),
    )


def event_document(step: Step, key_names: Mapping[UUID, str | None], sealed_to: int) -> HistoryEventDocument:
    """Returns an event as it is answered."""
    recorded, context = step.recorded, step.context
    causation = context.get("causation")
    return HistoryEventDocument(
        version=recorded.version,
        position=recorded.position,
        recorded_at=moment(recorded.recorded_at),
        topic=recorded.topic,
        sentence=sentence(recorded.topic, recorded.event, step.state),
        actor=_actor(context, key_names),
        request_id=_request_id(context),
        causation=None if causation is None else UUID(causation),
        event=Raw(msgspec.json.encode(recorded.event)),
        state=state_document(step.state),
        sealed=recorded.position <= sealed_to,
    )


def _request_id(context: Mapping[str, Any]) -> str | None:
    request: str | None = context.get("request")
    if "actor" in context:
        return request
    return request.removeprefix(PAYER_REQUEST) if request is not None and request.startswith(_PAYERS) else None


def _actor(context: Mapping[str, Any], key_names: Mapping[UUID, str | None]) -> ActorDocument:
    if operator := context.get("operator"):
        return ActorDocument(type="OPERATOR", name=operator["name"])
    if key := context.get("actor"):
        key_id = UUID(key)
        return ActorDocument(type="API_KEY", key_id=key_id, name=key_names.get(key_id))
    request = context.get("request")
    if request == _MESSAGE:
        return ActorDocument(type="PROCESSOR")
    is_payer = request is not None and request.startswith(_PAYERS)
    return ActorDocument(type="PAYER") if is_payer else ActorDocument(type="WORKER", name=request)


def state_document(state: Order | Customer | Subscription) -> HistoryStateDocument:
    """Returns the status and the money of a state."""
    match state:
        case Customer():
            return HistoryStateDocument(status="ERASED" if state.erased else "ACTIVE")
        case Order():
            amounts = (state.amount, state.amount_paid, state.amount_refunded, state.amount_pending)
            return _with_amounts(state.status.value, *amounts)
        case Subscription():
            return _with_amounts(_status_of(state), *_sums_of(state))


def _with_amounts(
    status: str, amount: Decimal, paid: Decimal, refunded: Decimal, pending: Decimal
) -> HistoryStateDocument:
    return HistoryStateDocument(
        status=status,
        amount=shortest(amount),
        amount_paid=shortest(paid),
        amount_refunded=shortest(refunded),
        amount_pending=shortest(pending),
    )


def _status_of(subscription: Subscription) -> str:
    if subscription.status is not None:
        return subscription.status.value
    return "REQUESTED" if subscription.refusal is None else "REFUSED"


def _sums_of(subscription: Subscription) -> tuple[Decimal, Decimal, Decimal, Decimal]:
    """Returns what the invoices ask for, and what of it was paid, refunded and is open."""
    invoices = subscription.invoices
    return (
        sum((each.amount for each in invoices), ZERO),
        sum((each.amount for each in invoices if each.status is InvoiceStatus.PAID), ZERO),
        sum((each.amount_refunded for each in invoices), ZERO),
        sum((each.amount for each in invoices if each.is_collectable), ZERO),
    )
