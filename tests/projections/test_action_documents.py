"""The documents of actions on an order: a payment's history, references, a payer's authentication, refunds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain import evolve_rows as steps
from tests.domain.builders import (
    NOON,
    ORDER,
    SESSION,
    SPLIT_WITH_SURCHARGE,
    created,
    deposited,
    folded,
    method,
    paid,
    payer_action_required,
    payment_id,
    reference_issued,
    reference_requested,
    refund_id,
    refund_requested,
    refunded,
    started,
)
from tests.domain.evolve_rows import (
    CAPTURING,
    CHALLENGED,
    DISPUTED,
    GRANTED,
    LISTED,
    ONE,
    OPEN,
    PAID,
    REFUNDING,
    VOIDING,
)

from ledger.domain.ids import entry_id
from ledger.domain.orders import events as e
from ledger.domain.orders.statuses import NextAction
from ledger.domain.orders.terms import MethodType, Reference
from projections.orders.head import render_head
from projections.orders.payer_actions import payer_authentication
from projections.orders.payments import render_payments
from projections.orders.refunds import render_refund, render_refunds

AT = "2026-01-31T12:00:00.000Z"
IN_72_HOURS = "2026-02-03T12:00:00.000Z"


def history(*events: Any) -> list[str]:
    """The steps of the first payment behind its creation, each in a line."""
    payment = json.loads(render_payments(folded(events)))[0]
    said = [(event["action"], event["status"], event["amount"], event["reason"]) for event in payment["paymentEvents"]]
    assert said[0] == ("CREATION", "SUCCESS", "10000", None)
    return [" ".join(map(str, filter(None, step))) for step in said[1:]]


BOUGHT = ["AUTHORIZATION SUCCESS 10000", "CAPTURE SUCCESS 10000"]
SILENT_CAPTURE = e.CallUnanswered(payment_id=ONE, call=e.ProcessorCall.CAPTURE, reason="no answer", at=NOON)
EXPIRED = e.PaymentExpired(payment_id=ONE, because=e.ExpiredBecause.REFERENCE, at=NOON)
CHALLENGE_FAILED = e.PayerAuthenticationFailed(payment_id=ONE, code="AUTHENTICATION_FAILED", at=NOON, eci="07")


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        (CHALLENGED, ["AUTHORIZATION PENDING 10000", "AUTHENTICATION PENDING 10000"]),
        (
            (*CHALLENGED[:-1], payer_action_required(1, NextAction.DEVICE_DATA)),
            ["AUTHORIZATION PENDING 10000", "DEVICE_DATA PENDING 10000"],
        ),
        (
            (*CHALLENGED, CHALLENGE_FAILED),
            ["AUTHORIZATION FAILED 10000 AUTHENTICATION_FAILED", "AUTHENTICATION FAILED 10000 AUTHENTICATION_FAILED"],
        ),
        (CAPTURING, ["AUTHORIZATION SUCCESS 10000", "CAPTURE PENDING 10000"]),
        ((*CAPTURING, SILENT_CAPTURE), ["AUTHORIZATION SUCCESS 10000", "CAPTURE UNKNOWN 10000 no answer"]),
        (
            (*CAPTURING, e.CaptureRefused(payment_id=ONE, code="X", retryable=True, at=NOON)),
            ["AUTHORIZATION SUCCESS 10000", "CAPTURE FAILED 10000 X"],
        ),
        (VOIDING, ["AUTHORIZATION SUCCESS 10000", "CANCELLATION PENDING 10000"]),
        (
            (*VOIDING, e.VoidRefused(payment_id=ONE, code="X", message="Not now.", at=NOON)),
            ["AUTHORIZATION SUCCESS 10000", "CANCELLATION FAILED 10000 Not now."],
        ),
        (OPEN[:3], ["REFERENCE PENDING 10000"]),
        (OPEN, ["REFERENCE SUCCESS 10000"]),
        ((*OPEN, deposited(1, 9999)), ["REFERENCE SUCCESS 10000", "DEPOSIT SUCCESS 9999"]),
        (
            (*OPEN, replace(deposited(1, 9999, is_late=True), amount_differs=True)),
            [
                "REFERENCE SUCCESS 10000",
                "DEPOSIT SUCCESS 9999 Received after the payment had ended. The store took another amount than it was to take.",
            ],
        ),
        ((*OPEN, EXPIRED), ["REFERENCE SUCCESS 10000", "EXPIRATION SUCCESS"]),
        (REFUNDING, [*BOUGHT, "REFUND PENDING 4000"]),
        ((*REFUNDING, refunded(1, 4000)), [*BOUGHT, "REFUND SUCCESS 4000"]),
        (
            (*REFUNDING, steps.REFUSED, refund_requested(1, 500, 2)),
            [*BOUGHT, "REFUND FAILED 4000 GENERIC_DECLINE", "REFUND PENDING 500"],
        ),
        (LISTED, [*BOUGHT, "SETTLEMENT PENDING 10000"]),
        (
            (*LISTED, e.SettlementMatched(payment_id=ONE, batch_id="lote-1", at=NOON)),
            [*BOUGHT, "SETTLEMENT SUCCESS 10000"],
        ),
        (
            (*DISPUTED, e.DisputeWon(payment_id=ONE, dispute_id="dsp-1", at=NOON)),
            [*BOUGHT, "DISPUTE SUCCESS 10000"],
        ),
        (
            (*DISPUTED, e.DisputeLost(payment_id=ONE, dispute_id="dsp-1", amount=DISPUTED[-1].amount, at=NOON)),
            [*BOUGHT, "DISPUTE FAILED 10000", "CHARGEBACK SUCCESS 10000"],
        ),
    ],
)
def test_each_step_of_a_payment_is_shown_once_with_its_outcome(events: tuple[Any, ...], shown: list[str]) -> None:
    assert history(*events) == shown


def with_reference(type_: MethodType, reference: Reference) -> tuple[Any, ...]:
    return (
        created(),
        started(1, 10000, 0, type_),
        reference_requested(1, 10000),
        replace(reference_issued(1), reference=reference),
    )


FULL = Reference(clabe="646180157000000004", reference="99000000001", convenio="1234567")
VOUCHER = Reference(reference="98000000021234567890", channel="OXXO", voucher_url="https://vouchers.example/1")


@pytest.mark.parametrize(
    ("type_", "place", "shown"),
    [
        (MethodType.SPEI, "speiDetails", {"clabe": "646180157000000004"}),
        (
            MethodType.PAYCASH,
            "cieDetails",
            {
                "reference": "99000000001",
                "convenio": None,
                "clabe": None,
                "channel": "PAYCASH",
                "voucherUrl": None,
            },
        ),
        (
            MethodType.CIE_CASH_NET,
            "cieDetails",
            {
                "reference": "99000000001",
                "convenio": "1234567",
                "clabe": "646180157000000004",
                "channel": None,
                "voucherUrl": None,
            },
        ),
    ],
)
def test_a_payment_shows_its_reference_once_it_is_issued(
    type_: MethodType, place: str, shown: dict[str, str | None]
) -> None:
    events = with_reference(type_, FULL)
    other = {"speiDetails": "cieDetails", "cieDetails": "speiDetails"}[place]
    (asked,) = json.loads(render_payments(folded(events[:-1])))
    assert (asked["speiDetails"], asked["cieDetails"]) == (None, None)
    (payment,) = json.loads(render_payments(folded(events)))
    times = {"expiresAt": IN_72_HOURS, "createdAt": AT, "updatedAt": AT}
    assert payment[place] == {"id": str(method(type_).method_id)} | shown | times
    assert payment[other] is None
    assert payment["paymentMethodId"] == (shown["clabe"] if type_ is MethodType.SPEI else "99000000001")
    assert json.loads(render_head(folded(events)))["paymentMethod"][place] == payment[place]


def test_a_voucher_of_another_network_shows_it_and_its_page() -> None:
    events = with_reference(MethodType.PAYCASH, VOUCHER)
    (payment,) = json.loads(render_payments(folded(events)))
    shown = payment["cieDetails"]
    assert (shown["channel"], shown["voucherUrl"]) == ("OXXO", "https://vouchers.example/1")


AUTHENTICATED = e.PayerAuthenticated(payment_id=ONE, at=NOON, eci="05")
SESSION_OVER = e.PaymentExpired(payment_id=ONE, because=e.ExpiredBecause.SESSION, at=NOON)


@pytest.mark.parametrize(
    ("events", "status", "eci", "waits"),
    [
        ((*CHALLENGED[:-1], payer_action_required(1, NextAction.DEVICE_DATA)), "DEVICE_DATA_REQUIRED", None, True),
        (CHALLENGED, "CHALLENGE_REQUIRED", None, True),
        ((*CHALLENGED[:-1], payer_action_required(1, NextAction.REDIRECT)), "CHALLENGE_REQUIRED", None, True),
        ((*CHALLENGED, AUTHENTICATED, GRANTED[-1]), "AUTHENTICATED", "05", False),
        ((*CHALLENGED, CHALLENGE_FAILED), "FAILED", "07", False),
        ((*CHALLENGED, SESSION_OVER), "EXPIRED", None, False),
    ],
)
def test_a_payers_authentication_shows_its_status(
    events: tuple[Any, ...], status: str, eci: str | None, waits: bool
) -> None:
    document = payer_authentication(folded(events).payments[0])
    assert document is not None
    assert (document.status, document.eci, document.expires_at is not None) == (status, eci, waits)
    assert (document.payment_id, document.authentication_transaction_id) == (ONE, SESSION.transaction_id)


def test_a_payment_without_a_session_has_no_authentication() -> None:
    assert payer_authentication(folded(PAID).payments[0]) is None


def test_a_refund_shows_what_each_payment_gives_back_and_its_surcharge() -> None:
    both = (SPLIT_WITH_SURCHARGE, *paid(1, 4000, 120), *paid(2, 6000, 180))
    asked = (
        refund_requested(2, 6180, external_id="dev-1", reason="Taza rota"),
        refund_requested(1, 1000, external_id="dev-1"),
    )
    order = folded((*both, *asked, refunded(2, 6180)))
    assert [json.loads(refund) for refund in render_refunds(order)] == [
        {
            "id": str(refund_id(1)),
            "paymentOrderId": str(ORDER),
            "amount": 7180,
            "subtotalAmount": 6971,
            "surchargeAmount": 209,
            "currency": "MXN",
            "reason": "Taza rota",
            "status": "PENDING",
            "externalId": "dev-1",
            "destination": None,
            "paidAt": None,
            "payoutReference": None,
            "allocations": [
                {
                    "paymentId": str(payment_id(2)),
                    "paymentEventId": str(entry_id(payment_id(2), 4)),
                    "amount": 6180,
                    "subtotalAmount": 6000,
                    "surchargeAmount": 180,
                    "status": "SUCCEEDED",
                    "destination": None,
                },
                {
                    "paymentId": str(ONE),
                    "paymentEventId": str(entry_id(ONE, 4)),
                    "amount": 1000,
                    "subtotalAmount": 971,
                    "surchargeAmount": 29,
                    "status": "PENDING",
                    "destination": None,
                },
            ],
            "createdAt": AT,
        }
    ]
    assert str(entry_id(ONE, 4)) == json.loads(render_payments(order))[0]["paymentEvents"][3]["id"]


def test_a_later_refund_of_a_payment_gives_back_the_rest_of_its_surcharge() -> None:
    order = folded(
        (SPLIT_WITH_SURCHARGE, *paid(1, 4000, 120), refund_requested(1, 1000), refunded(1, 1000), refund_requested(1, 3120, 2),
         e.RefundRefused(refund_id=refund_id(2), payment_id=ONE, code="X", at=NOON))
    )  # fmt: skip
    second = json.loads(render_refund(order, order.refunds[1]))
    assert (second["subtotalAmount"], second["surchargeAmount"], second["status"]) == (3029, 91, "FAILED")
