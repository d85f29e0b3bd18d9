"""Which operation takes which transition: the words beside the edge tables.

A transition that the core allows and no operation takes stops the generation. So does an operation beside a transition that the
core does not allow.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from ledger.domain.orders.statuses import ORDER_EDGES, PAYMENT_EDGES, OrderStatus, PaymentStatus

S = TypeVar("S", bound=StrEnum)
Takers = tuple[str, ...]

TAKERS: Final[Mapping[str, str]] = {
    "create": "`POST /v2/payment-orders`",
    "charge": "`POST …/{id}/charge`",
    "pay": "`POST …/{id}/payments`",
    "device": "`POST …/{id}/payer-authentication/device-data`",
    "validate": "`POST …/{id}/payer-authentication/validate`",
    "capture": "`POST …/{id}/capture`",
    "release": "`POST …/{id}/release`",
    "cancel": "`POST …/{id}/cancel`",
    "refund": "`POST …/{id}/refund`",
    "deposit": "a deposit (sandbox: `POST /sandbox/deposits`)",
    "dispute": "a dispute (sandbox: `POST /sandbox/disputes`)",
    "settlement": "a settlement batch (sandbox: `POST /sandbox/settlements`)",
    "confirmation": "the confirmation or refusal of a pending refund: the processor's, or the merchant's of what it pays out",
    "due": "a delayed capture or void falls due",
    "expiry": "time: a reference, a session or an authorisation ends",
    "recovery": "the recovery, where a call had no answer",
    "late": "a processor's answer that comes after its call was abandoned",
}
"""What causes transitions of payments and orders, by the names in the tables below."""

_PAYMENTS: Final = """
    -:                     CREATED=create,charge,pay
    CREATED:               PENDING_AUTHORIZATION=create,charge,pay REQUIRES_ACTION=create,charge,pay,recovery
    CREATED:               FAILED=create,charge,pay,recovery CANCELLED=cancel
    PENDING_AUTHORIZATION: AUTHORIZED=create,charge,pay,device,recovery
    PENDING_AUTHORIZATION: PARTIALLY_AUTHORIZED=create,charge,pay,device,validate,recovery
    PENDING_AUTHORIZATION: REQUIRES_ACTION=create,charge,pay,recovery FAILED=create,charge,pay,recovery
    PENDING_AUTHORIZATION: PENDING_CANCELLATION=cancel
    REQUIRES_ACTION:       REQUIRES_ACTION=device,recovery PENDING_AUTHORIZATION=device,validate,recovery
    REQUIRES_ACTION:       AUTHORIZED=validate,cancel,expiry,due,recovery
    REQUIRES_ACTION:       FAILED=device,validate,due,recovery EXPIRED=expiry,recovery
    REQUIRES_ACTION:       CANCELLED=cancel,charge,due,recovery
    REQUIRES_ACTION:       CAPTURED=deposit PARTIALLY_CAPTURED=deposit
    AUTHORIZED:            CAPTURED=create,charge,pay,device,validate,recovery
    AUTHORIZED:            PENDING_CAPTURE=create,charge,pay,device,validate,capture,due,recovery
    AUTHORIZED:            PENDING_CANCELLATION=cancel,due,recovery EXPIRED=expiry
    PARTIALLY_AUTHORIZED:  PARTIALLY_CAPTURED=create,charge,pay,device,validate,recovery
    PARTIALLY_AUTHORIZED:  PENDING_CAPTURE=create,charge,pay,device,validate,capture,recovery
    PARTIALLY_AUTHORIZED:  PENDING_CANCELLATION=cancel,due EXPIRED=expiry
    PENDING_CAPTURE:       CAPTURING=create,charge,pay,device,validate,capture,due,recovery
    PENDING_CAPTURE:       PENDING_CANCELLATION=cancel
    CAPTURING:             CAPTURED=capture,due,recovery
    CAPTURING:             PARTIALLY_CAPTURED=create,charge,pay,device,validate,capture,due,recovery
    CAPTURING:             AUTHORIZED=capture,due,recovery FAILED=capture,due,recovery
    CAPTURED:              PENDING_SETTLEMENT=settlement PENDING_REFUND=refund,cancel DISPUTED=dispute
    PARTIALLY_CAPTURED:    CAPTURED=deposit CAPTURING=capture PENDING_SETTLEMENT=settlement
    PARTIALLY_CAPTURED:    PENDING_REFUND=refund,cancel DISPUTED=dispute
    PENDING_SETTLEMENT:    SETTLED=settlement CAPTURED=settlement PENDING_REFUND=refund,cancel DISPUTED=dispute
    SETTLED:               CAPTURED=settlement PENDING_REFUND=refund,cancel DISPUTED=dispute
    PENDING_CANCELLATION:  CANCELLED=cancel,due,recovery AUTHORIZED=cancel,due,recovery
    PENDING_CANCELLATION:  PARTIALLY_AUTHORIZED=cancel,due,recovery
    PENDING_REFUND:        REFUNDED=refund,cancel,confirmation,recovery
    PENDING_REFUND:        PARTIALLY_REFUNDED=refund,cancel,confirmation,recovery
    PENDING_REFUND:        CAPTURED=refund,cancel,confirmation,recovery
    PENDING_REFUND:        PARTIALLY_CAPTURED=refund,cancel,confirmation,recovery
    PENDING_REFUND:        PENDING_SETTLEMENT=refund,cancel,confirmation,recovery
    PENDING_REFUND:        SETTLED=refund,cancel,confirmation,recovery
    PARTIALLY_REFUNDED:    PENDING_REFUND=refund,cancel DISPUTED=dispute
    DISPUTED:              REFUNDED=dispute CAPTURED=dispute PARTIALLY_CAPTURED=dispute PENDING_SETTLEMENT=dispute
    DISPUTED:              SETTLED=dispute PARTIALLY_REFUNDED=dispute
    EXPIRED:               CAPTURED=deposit,late
    CANCELLED:             CAPTURED=deposit,late
"""

_ORDERS: Final = """
    -:                      PENDING=create PROCESSING=create
    PENDING:                PROCESSING=charge,pay PARTIALLY_PAID=deposit COMPLETED=deposit CANCELLED=cancel
    PROCESSING:             COMPLETED=create,charge,pay,recovery PARTIALLY_PAID=create,charge,pay,recovery
    PROCESSING:             AUTHORIZED=create,charge,pay,recovery PARTIALLY_AUTHORIZED=create,charge,pay,recovery
    PROCESSING:             ACTION_REQUIRED=create,charge,pay,recovery REFERENCE_GENERATED=create,charge,pay,recovery
    PROCESSING:             PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED=create,charge,pay,recovery
    PROCESSING:             PAYER_AUTHENTICATION_CHALLENGE_REQUIRED=create,charge,pay,recovery
    PROCESSING:             FAILED=create,charge,recovery PENDING=charge,pay,recovery CANCELLATION_REQUESTED=cancel
    PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED: PAYER_AUTHENTICATION_CHALLENGE_REQUIRED=device,recovery
    PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED: AUTHORIZED=device,recovery COMPLETED=device,recovery
    PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED: FAILED=device,expiry,recovery PENDING=device,expiry,cancel,recovery
    PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED: PARTIALLY_PAID=device,recovery CANCELLED=cancel PROCESSING=device,pay
    PAYER_AUTHENTICATION_CHALLENGE_REQUIRED:   AUTHORIZED=validate,expiry,recovery FAILED=validate,expiry,recovery
    PAYER_AUTHENTICATION_CHALLENGE_REQUIRED:   PENDING=validate,expiry,cancel,due,recovery
    PAYER_AUTHENTICATION_CHALLENGE_REQUIRED:   PARTIALLY_PAID=validate,cancel,expiry,due,recovery
    PAYER_AUTHENTICATION_CHALLENGE_REQUIRED:   CANCELLED=cancel PROCESSING=validate,pay CANCELLATION_REQUESTED=cancel
    ACTION_REQUIRED:        AUTHORIZED=validate,expiry,recovery COMPLETED=validate,expiry,recovery
    ACTION_REQUIRED:        FAILED=validate,expiry,recovery PENDING=validate,expiry,cancel,due,recovery
    ACTION_REQUIRED:        PARTIALLY_PAID=validate,cancel,expiry,due,recovery CANCELLED=cancel
    ACTION_REQUIRED:        PROCESSING=validate,pay CANCELLATION_REQUESTED=cancel
    REFERENCE_GENERATED:    COMPLETED=deposit PARTIALLY_PAID=deposit FAILED=expiry PENDING=expiry,cancel CANCELLED=cancel
    REFERENCE_GENERATED:    PROCESSING=charge,pay
    AUTHORIZED:             COMPLETED=capture,due,recovery PARTIALLY_PAID=capture,due,recovery
    AUTHORIZED:             CANCELLATION_REQUESTED=cancel,due FAILED=expiry,capture,due,recovery
    AUTHORIZED:             PENDING=expiry,capture,due,recovery
    AUTHORIZED:             PROCESSING=pay
    PARTIALLY_AUTHORIZED:   COMPLETED=deposit PARTIALLY_PAID=capture,due,recovery
    PARTIALLY_AUTHORIZED:   CANCELLATION_REQUESTED=cancel,due FAILED=expiry,capture,due,recovery
    PARTIALLY_AUTHORIZED:   PENDING=expiry,capture,due,recovery
    PARTIALLY_AUTHORIZED:   PROCESSING=pay
    PARTIALLY_PAID:         PARTIALLY_PAID=pay,capture,deposit,refund,dispute
    PARTIALLY_PAID:         COMPLETED=charge,pay,capture,deposit,due,recovery REFUND_PROCESSING=refund
    PARTIALLY_PAID:         PARTIALLY_REFUNDED=refund,dispute REFUNDED=refund,cancel,dispute
    PARTIALLY_PAID:         CANCELLATION_REQUESTED=cancel
    COMPLETED:              REFUND_PROCESSING=refund PARTIALLY_REFUNDED=refund,dispute REFUNDED=refund,dispute
    COMPLETED:              PARTIALLY_PAID=refund,dispute
    REFUND_PROCESSING:      COMPLETED=refund,confirmation,recovery PARTIALLY_REFUNDED=refund,confirmation,recovery
    REFUND_PROCESSING:      REFUNDED=refund,confirmation,recovery PARTIALLY_PAID=refund,confirmation,recovery
    PARTIALLY_REFUNDED:     PARTIALLY_REFUNDED=refund,dispute REFUND_PROCESSING=refund REFUNDED=refund,dispute
    CANCELLATION_REQUESTED: CANCELLED=cancel,due,recovery REFUNDED=cancel,confirmation,recovery
    CANCELLATION_REQUESTED: AUTHORIZED=cancel,due,recovery PARTIALLY_AUTHORIZED=cancel,due,recovery
    CANCELLATION_REQUESTED: PENDING=cancel,due,recovery PARTIALLY_PAID=cancel,confirmation,recovery
    CANCELLATION_REQUESTED: COMPLETED=cancel,confirmation,recovery
    FAILED:                 PROCESSING=create,charge COMPLETED=deposit,late PARTIALLY_PAID=deposit,late
    CANCELLED:              COMPLETED=deposit,late PARTIALLY_PAID=deposit,late
"""


def _takers(statuses: type[S], table: str, edges: frozenset[tuple[S | None, S]]) -> Mapping[tuple[S | None, S], Takers]:
    """Returns the takers of every transition, from lines of `origin: target=taker,taker`."""
    found: dict[tuple[S | None, S], Takers] = {}
    for line in table.strip().splitlines():
        origin, _, targets = line.partition(":")
        for move in targets.split():
            target, _, takers = move.partition("=")
            known = tuple(takers.split(","))
            assert set(known) <= TAKERS.keys(), f"unknown takers in {line}"
            found[None if origin.strip() == "-" else statuses(origin.strip()), statuses(target)] = known
    differ = sorted(f"{origin} -> {target}" for origin, target in found.keys() ^ edges)
    assert not differ, f"moves and takers differ: {differ}"
    return found


PAYMENT_TAKERS: Final = _takers(PaymentStatus, _PAYMENTS, PAYMENT_EDGES)
ORDER_TAKERS: Final = _takers(OrderStatus, _ORDERS, ORDER_EDGES)
