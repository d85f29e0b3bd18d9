"""The bodies of what can be done with an order, as drafts.

The rule a stranger would break: `read_…` is the only way in, as for orders. A CLABE is the one long number that may be
stored: it is checked to be one, and left out of the search for card numbers.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final

from msgspec import UnsetType
from msgspec.structs import replace

from api.fields.payment_method import sent_pan
from api.fields.people import device_information
from api.fields.stored_text import check_stored_text
from api.fields.types import PositiveNumber
from api.fields.values import is_given, one_of_aliases, positive_amount, printable
from api.http.decoding import BodyDecoder, bad_input_as_400
from api.http.errors import conflicting, invalid, required
from api.orders import action_schemas as sent
from api.orders.parse_orders import payment_input
from ledger.domain.orders.commands import Allocation
from ledger.domain.orders.terms import Destination
from ledger.operations.inputs import (
    CancelInput,
    CaptureInput,
    DeviceDataInput,
    PaymentInput,
    RefundInput,
    ValidateInput,
)
from ledger.processors.clabe import is_clabe

_decode_payment: Final = BodyDecoder(sent.AddPayment)
_decode_refund: Final = BodyDecoder(sent.RefundPaymentOrder)
_decode_cancel: Final = BodyDecoder(sent.CancelPaymentOrder)
_decode_capture: Final = BodyDecoder(sent.CapturePaymentOrder)
_decode_device_data: Final = BodyDecoder(sent.SubmitDeviceData)
_decode_validate: Final = BodyDecoder(sent.ValidatePayerAuthentication)

_UNSPECIFIED: Final = "unspecified"


def parse_payment(body: bytes, now: datetime) -> PaymentInput:
    """The further payment that a body asks for. `now` is aware, in the merchant's time zone. All of these raise Refusal (400)."""
    request = _decode_payment(body)
    with bad_input_as_400():
        draft = replace(payment_input(request, now), description=request.description)
        check_stored_text(draft, "payment", body, sent_pan(request.payment_method))
    return draft


def parse_refund(body: bytes) -> RefundInput:
    """The refund that a body asks for."""
    request = _decode_refund(body)
    with bad_input_as_400():
        draft = _refund_draft(request)
        check_stored_text(_without_clabe(draft), "", body, None)
    return draft


def parse_cancel(body: bytes) -> CancelInput:
    """The cancellation that a body asks for."""
    request = _decode_cancel(body)
    with bad_input_as_400():
        if request.payment_id is not None:
            _insist_on_alone(request)
        draft = CancelInput(
            reason=request.reason, refund_captured=bool(request.refund_captured), payment_id=request.payment_id
        )
        check_stored_text(draft, "", body, None)
    return draft


def _insist_on_alone(request: sent.CancelPaymentOrder) -> None:
    """A part that is let go holds no money, and its end knows no reason. Raises ApiError."""
    for field, given in (("refundCaptured", request.refund_captured), ("reason", request.reason)):
        if given:
            raise conflicting("paymentId", field, "came together, and what is about the whole order lets no part go")


def parse_capture(body: bytes) -> CaptureInput:
    """The capture that a body asks for."""
    request = _decode_capture(body)
    with bad_input_as_400():
        return CaptureInput(amount=_amount_if_given(request.amount), payment_id=request.payment_id)


def parse_device_data(body: bytes) -> DeviceDataInput:
    """What a body tells of the payer's browser."""
    request = _decode_device_data(body)
    with bad_input_as_400():
        draft = DeviceDataInput(
            reference_id=printable(request.reference_id, "referenceId"),
            device_information=device_information(request.device_information),
        )
        check_stored_text(draft, "", body, None)
    return draft


def parse_validate(body: bytes) -> ValidateInput:
    """The transaction that a body says the payer came back from."""
    request = _decode_validate(body)
    with bad_input_as_400():
        if request.authentication_transaction_id is None:
            raise required("authenticationTransactionId")
        draft = ValidateInput(
            transaction_id=printable(request.authentication_transaction_id, "authenticationTransactionId")
        )
        check_stored_text(draft, "", body, None)
    return draft


def _refund_draft(request: sent.RefundPaymentOrder) -> RefundInput:
    external_id = one_of_aliases(
        "externalId", request.external_id, "externalMerchantReference", request.external_merchant_reference
    )
    return RefundInput(
        amount=positive_amount(request.amount, "amount"),
        reason=request.reason or _UNSPECIFIED,
        payment_id=request.payment_id,
        external_id=printable(external_id, "externalId"),
        allocations=tuple(
            Allocation(payment_id=each.payment_id, amount=positive_amount(each.amount, f"allocations[{at}].amount"))
            for at, each in enumerate(request.allocations or ())
        ),
        destination=_destination(request.destination),
    )


def _destination(destination: sent.Destination | None) -> Destination | None:
    if destination is None:
        return None
    if destination.clabe is None:
        raise required("destination.clabe")
    if not is_clabe(destination.clabe):
        raise invalid("destination.clabe", "must have 18 digits, the last of which checks the others", "INVALID_CLABE")
    return Destination(clabe=destination.clabe, account_holder=destination.account_holder)


def _without_clabe(draft: RefundInput) -> RefundInput:
    return draft if draft.destination is None else replace(draft, destination=replace(draft.destination, clabe=""))


def _amount_if_given(raw: PositiveNumber | UnsetType) -> Decimal | None:
    return positive_amount(raw, "amount") if is_given(raw) else None
