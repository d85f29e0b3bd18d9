"""POST /v2/payment-orders/{id}/refund: gives money of an order back.

A CLABE is the one long number that may be stored: it is validated as a CLABE and left out of the search for card
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.field_warnings import WarningCode, warn
from api.decoding.stored_text import check_texts
from api.decoding.types import ALLOCATIONS_MAX, Clabe, Id, PositiveNumber, alias_of
from api.errors import invalid
from api.fields.values import external_id, positive_amount, require_whole
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, BODY, KEYED, OperationSpec, codes_of
from api.response import REPLAYED, ApiResponse
from ledger.domain.orders import commands, terms
from ledger.operations.context.inputs import RefundInput
from ledger.operations.context.results import OrderResult
from ledger.operations.orders.refund import refund_order
from ledger.processors.clabe import is_clabe
from projections.orders import documents
from projections.orders.documents import OrderDocument
from projections.orders.refunds import RefundDocument, render_refund

_UNSPECIFIED: Final = "unspecified"
ACCOUNT_HOLDER: Final = (
    "The holder of the account, if it is known. Without it the payout names none, and the answer has null: a bank may return "
    "such a payout, which makes the refund FAILED."
)


class Allocation(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The part of a refund that one payment gives back."""

    payment_id: Annotated[UUID, Meta(description="The service's id of the payment.")]
    amount: Annotated[
        PositiveNumber | UnsetType, Meta(description="Required. In minor units, surcharge included.", examples=[4120])
    ] = UNSET


class Destination(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The account that receives the refund of a transfer or of a cash payment."""

    clabe: Annotated[Clabe | None, Meta(description="Required. 18 digits, the last of which is a check digit.")] = None
    account_holder: Annotated[Id | None, Meta(description=ACCOUNT_HOLDER)] = None


class RefundPaymentOrder(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request for a refund: of the newest payments first, unless it names payments."""

    amount: Annotated[
        PositiveNumber | UnsetType,
        Meta(
            description="Required. In minor units, surcharge included; for a full refund all that can be refunded.",
            examples=[4120],
        ),
    ] = UNSET
    reason: Annotated[
        Id | None, Meta(description="The reason, in the merchant's words; `unspecified` where absent.")
    ] = None
    payment_id: Annotated[UUID | None, Meta(description="The one payment to refund.")] = None
    external_id: Annotated[Id | None, Meta(description="The merchant's id of the refund, unique within the order.")] = (
        None
    )
    external_merchant_reference: Annotated[Id | None, alias_of("externalId")] = None
    allocations: Annotated[
        Annotated[list[Allocation], Meta(max_length=ALLOCATIONS_MAX)] | None,
        Meta(description="The amount that each payment gives back; their sum must be `amount`."),
    ] = None
    destination: Annotated[
        Destination | None, Meta(description="The account for money that cannot be returned the way it was paid.")
    ] = None


_decode: Final = BodyDecoder(RefundPaymentOrder)


def parse_refund(body: bytes) -> RefundInput:
    """Returns the refund that a body asks for. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode.gather(body)
    with BAD_INPUT_AS_400:
        amount = errors.check(positive_amount, sent.amount, "amount")
        refund_id = errors.check(external_id, sent.external_id, sent.external_merchant_reference)
        allocations = _allocations(sent.allocations, errors)
        destination = errors.check(_destination, sent.destination)
        check_texts(sent, body, errors)
    errors.refuse()
    assert amount is not None, "what is wrong was refused"
    return RefundInput(
        amount=amount,
        reason=sent.reason or _UNSPECIFIED,
        payment_id=sent.payment_id,
        external_id=refund_id,
        allocations=allocations,
        destination=destination,
    )


def _allocations(sent: Sequence[Allocation | None] | None, errors: FieldErrors) -> tuple[commands.Allocation, ...]:
    """Returns the parts of the refund. Adds their errors. An entry that cannot be decoded is None."""
    parts = []
    for at, each in enumerate(sent or ()):
        if each is not None:
            amount = errors.check(positive_amount, each.amount, f"allocations[{at}].amount")
            if amount is not None:
                parts.append(commands.Allocation(payment_id=each.payment_id, amount=amount))
    return tuple(parts)


def _destination(sent: Destination | None) -> terms.Destination | None:
    return None if sent is None else account_of(sent, "destination.clabe")


def account_of(sent: Destination, field: str) -> terms.Destination:
    """Returns the account of a payout, whose CLABE is in `field`. Raises ApiError (400)."""
    if sent.clabe is None:
        raise invalid(field, "is required: the 18 digits of the account, as a string", "REQUIRED")
    if not is_clabe(sent.clabe):
        raise invalid(field, "must have 18 digits, the last of which is the correct check digit", "INVALID_CLABE")
    return terms.Destination(clabe=sent.clabe, account_holder=sent.account_holder)


class OrderWithRefund(OrderDocument, frozen=True, kw_only=True, rename="camel"):
    """The answer to a refund: the payment order, with the requested refund."""

    refund: RefundDocument


# The answer is the order's bytes with the one member that OrderWithRefund adds to OrderDocument.
(_ADDED,) = OrderWithRefund.__struct_encode_fields__[len(OrderDocument.__struct_encode_fields__) :]
_REFUND_MEMBER: Final = f',"{_ADDED}":'.encode()


async def refund(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/refund: 200 with the order and the refund, which may be pending or have failed."""
    body = await request.body(deps.body_limit)
    parsed = parse_refund(body)
    parts = [(f"allocations[{at}].amount", each.amount) for at, each in enumerate(parsed.allocations)]
    require_whole(request.principal.settings, ("amount", parsed.amount), *parts)
    reference = request.order_reference()
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await refund_order(deps.ledger, request.actor, reference, parsed, key)
    if parsed.destination is not None:
        _warn_of_unused_destination(result, parsed.destination)
    return refund_response(result, deps, request)


def _warn_of_unused_destination(result: OrderResult, named: terms.Destination) -> None:
    made = None if result.refund_id is None else result.order.refund(result.refund_id)
    if made is not None and all(part.destination != named for part in made.parts):
        problem = "was not used: money of a card goes back to the card, and a refund that exists keeps its account"
        warn("destination", WarningCode.DESTINATION_NOT_USED, problem)


def refund_response(result: OrderResult, deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """Returns the order with the refund that the request is about."""
    assert result.refund_id is not None, "a refund returns its own id"
    made = result.order.refund(result.refund_id)
    assert made is not None, "the result of a refund is about a refund of its order"
    now = deps.ledger.clock.now(request.principal.merchant_id)
    document = documents.answer(result.order, result.customer, None, now)
    content = document[:-1] + _REFUND_MEMBER + render_refund(result.order, made) + b"}"
    return ApiResponse(200, content, REPLAYED if result.replayed or result.repeated else ())


REFUND: Final = ScopedOperation(
    refund,
    WRITE,
    OperationSpec(
        name="refundPaymentOrder",
        summary="Refund a payment order",
        description="""
Refunds money, surcharge included: of the payments that the request names, otherwise of the newest ones first. Money
paid by card is returned to the card. Money paid by transfer or in cash is paid out: to `destination`, else to the account
that paid, if its bank named it. Otherwise the refund's destination is MANUAL: pay it out, and confirm that. The refund
stays PENDING until then; the sandbox confirms it by itself. `externalId` names the refund within the order: a repeated
request is answered with the same refund.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=RefundPaymentOrder,
        examples={
            "part": {
                "summary": "A part of the money",
                "value": {"amount": 38900, "reason": "Un kilo de café llegó abierto", "externalId": "devolucion-184-1"},
            },
            "payout": {
                "summary": "To an account, for money paid by transfer or in cash",
                "value": {
                    "amount": 10000,
                    "reason": "Pedido incompleto",
                    "destination": {"clabe": "032180000118359719", "accountHolder": "María Fernanda Hernández Ochoa"},
                },
            },
        },
        answers={
            200: ("The order, and the refund: completed, pending, or refused by the processor.", OrderWithRefund),
        },
        codes=codes_of(
            ANY,
            BODY,
            KEYED,
            {
                404: ("PAYMENT_NOT_FOUND",),
                409: (
                    "INVALID_ORDER_STATE",
                    "ORDER_NOT_REFUNDABLE",
                    "REFUND_IN_PROGRESS",
                    "IDEMPOTENCY_MISMATCH",
                    "PROCESSOR_ACCOUNT_KEYS_ERASED",
                ),
                422: ("REFUND_AMOUNT_EXCEEDS_BALANCE", "REFUND_WINDOW_EXPIRED", "AMOUNT_NOT_CHARGEABLE"),
            },
        ),
        replays=True,
    ),
)
