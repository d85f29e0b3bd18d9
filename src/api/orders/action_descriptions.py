"""What can be done with an order, and the reading of its parts: what each operation takes and answers.

The rule a stranger would break: as in `operations`, of which this is a part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.http.endpoint import Operation
from api.openapi import examples, response_schemas
from api.openapi.operation import ANY, BODY, DECLINED, KEYED, PAYMENT, OperationSpec, codes_of
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID, PAYMENT_ID, REFUND_ID
from api.orders import actions, payments_and_refunds
from api.orders.action_schemas import (
    AddPayment,
    CancelPaymentOrder,
    CapturePaymentOrder,
    RefundPaymentOrder,
    SubmitDeviceData,
    ValidatePayerAuthentication,
)
from projections.orders.authentication import ValidationDocument
from projections.orders.documents import OrderDocument
from projections.orders.payments import PaymentDocument
from projections.orders.refunds import RefundDocument

OPERATIONS: Final[Mapping[Operation, OperationSpec]] = {
    actions.pay: OperationSpec(
        name="addPayment",
        summary="Add a payment to a split order",
        description="""
Pays a part of an order that was created with `allowPartials`, or all that is unpaid. Other parts may be on their way: what
card authorisations may still take is reserved, references and payer authentications reserve nothing. A surcharge comes on top.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=AddPayment,
        examples=examples.PAY,
        answers={
            201: ("The order with its new payment.", OrderDocument),
            200: ("The order with the payment that was there under this `externalId`.", OrderDocument),
        },
        codes=codes_of(
            ANY,
            BODY,
            PAYMENT,
            {
                404: ("ORDER_NOT_FOUND",),
                409: ("PARTIALS_NOT_ALLOWED", "ORDER_NOT_PAYABLE"),
                422: ("AMOUNT_EXCEEDS_PENDING",),
            },
        ),
        replays=True,
    ),
    actions.refund: OperationSpec(
        name="refundPaymentOrder",
        summary="Refund a payment order",
        description="""
Gives money back, surcharge included: of the payments that are named, else of the newest ones first. A card gets its money back
the way it came; a transfer or cash payment is paid out, by preference to `destination`, and stays PENDING until that is
confirmed. `externalId` names the refund within the order: sent again, it is answered as it stands.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=RefundPaymentOrder,
        examples=examples.REFUND,
        answers={
            200: (
                "The order, and the refund: done, pending, or refused by the processor.",
                response_schemas.OrderWithRefund,
            )
        },
        codes=codes_of(
            ANY,
            BODY,
            KEYED,
            {
                404: ("PAYMENT_NOT_FOUND",),
                409: ("INVALID_ORDER_STATE", "ORDER_NOT_REFUNDABLE", "REFUND_IN_PROGRESS", "IDEMPOTENCY_MISMATCH"),
                422: ("REFUND_AMOUNT_EXCEEDS_BALANCE", "REFUND_WINDOW_EXPIRED"),
            },
        ),
        replays=True,
    ),
    actions.cancel: OperationSpec(
        name="cancelPaymentOrder",
        summary="Cancel a payment order",
        description="""
Closes an order that is not paid: what is authorised is let go, sessions and references end. Where money is held it takes
`refundCaptured`; an order that is paid is refunded instead. Needs no body. With `paymentId` one part of a split order is let
go, and the order stays open.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=CancelPaymentOrder,
        optional=True,
        examples=examples.CANCEL,
        answers={200: ("The order: cancelled, or waiting for the processor to let go.", OrderDocument)},
        codes=codes_of(
            ANY,
            BODY,
            KEYED,
            {404: ("PAYMENT_NOT_FOUND",), 409: ("INVALID_ORDER_STATE", "ORDER_HAS_CAPTURED_FUNDS")},
        ),
        replays=True,
    ),
    actions.capture: OperationSpec(
        name="capturePaymentOrder",
        summary="Capture an authorisation",
        description="""
Takes what was authorised for an order with `captureMethod: MANUAL`, all that is left of it or a part, surcharge included. Needs
no body.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=CapturePaymentOrder,
        optional=True,
        examples=examples.CAPTURE,
        answers={200: ("The order with the payment.", OrderDocument)},
        codes=codes_of(
            ANY,
            BODY,
            KEYED,
            DECLINED,
            {
                404: ("PAYMENT_NOT_FOUND",),
                409: ("INVALID_ORDER_STATE",),
                422: ("CAPTURE_EXCEEDS_AUTHORIZED", "AMOUNT_EXCEEDS_PENDING"),
            },
        ),
        replays=True,
    ),
    actions.send_device_data: OperationSpec(
        name="submitDeviceData",
        summary="Go on after the payer's device was looked at",
        description="""
For an order in PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED, once the payer's browser has been at
`payerAuthentication.deviceDataCollectionUrl`. A challenge follows, or the bank's word without one. Needs no body.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=SubmitDeviceData,
        optional=True,
        examples=examples.DEVICE_DATA,
        answers={200: ("The order: it waits for a challenge, or goes on.", OrderDocument)},
        codes=codes_of(
            ANY,
            BODY,
            KEYED,
            DECLINED,
            {409: ("INVALID_ORDER_STATE",), 422: ("PAYER_AUTHENTICATION_FAILED", "AMOUNT_EXCEEDS_PENDING")},
        ),
        replays=True,
    ),
    actions.validate_payer: OperationSpec(
        name="validatePayerAuthentication",
        summary="Go on after the payer's challenge",
        description="""
For an order in PAYER_AUTHENTICATION_CHALLENGE_REQUIRED, or ACTION_REQUIRED, once the payer has been at
`payerAuthentication.stepUpUrl`. What was granted is captured by itself, a few seconds later. In the sandbox an id that contains
`fail` fails the challenge.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=ValidatePayerAuthentication,
        examples=examples.VALIDATE,
        answers={200: ("What the order came to.", ValidationDocument)},
        codes=codes_of(
            ANY,
            BODY,
            KEYED,
            DECLINED,
            {409: ("INVALID_ORDER_STATE",), 422: ("PAYER_AUTHENTICATION_FAILED", "AMOUNT_EXCEEDS_PENDING")},
        ),
        replays=True,
    ),
    payments_and_refunds.show_payments: OperationSpec(
        name="listPayments",
        summary="List an order's payments",
        description="All payments of the order, oldest first, each with its history. One page holds them all.",
        parameters=(ORDER_ID,),
        answers={200: ("The payments.", response_schemas.PaymentPage)},
        codes=codes_of(ANY, {404: ("ORDER_NOT_FOUND",)}),
    ),
    payments_and_refunds.show_payment: OperationSpec(
        name="getPayment",
        summary="Get a payment",
        description="One payment of the order with its history.",
        parameters=(ORDER_ID, PAYMENT_ID),
        answers={200: ("The payment.", PaymentDocument)},
        codes=codes_of(ANY, {404: ("ORDER_NOT_FOUND", "PAYMENT_NOT_FOUND")}),
    ),
    payments_and_refunds.show_refunds: OperationSpec(
        name="listRefunds",
        summary="List an order's refunds",
        description="All refunds of the order, oldest first. One page holds them all.",
        parameters=(ORDER_ID,),
        answers={200: ("The refunds.", response_schemas.RefundPage)},
        codes=codes_of(ANY, {404: ("ORDER_NOT_FOUND",)}),
    ),
    payments_and_refunds.show_refund: OperationSpec(
        name="getRefund",
        summary="Get a refund",
        description="One refund of the order, and what each payment gives back of it.",
        parameters=(ORDER_ID, REFUND_ID),
        answers={200: ("The refund.", RefundDocument)},
        codes=codes_of(ANY, {404: ("ORDER_NOT_FOUND", "REFUND_NOT_FOUND")}),
    ),
}
"""The operations on an order, by what carries them out."""
