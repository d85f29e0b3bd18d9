"""The document of an order, field by field."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.domain.builders import (
    CUSTOMER,
    NOON,
    ORDER,
    SPLIT_WITH_SURCHARGE,
    THREE_PERCENT,
    VISA,
    authorization_requested,
    authorized_and_captured,
    created,
    declined,
    folded,
    method,
    paid,
    payment_id,
    started,
    unanswered,
)

from ledger.domain.customers.state import Customer
from ledger.domain.ids import entry_id
from ledger.domain.orders.events import SettlementListed, SettlementRefused
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import BillingAddress, FiscalAddress, FiscalData, LineItem, MethodType, Tax
from projections.formats import for_people, moment
from projections.orders.documents import answer, document, is_overdue
from projections.orders.head import OrderHead, render_head
from projections.orders.payments import PaymentDocument, render_payment, render_payments

AT = "2026-01-31T12:00:00.000Z"


def head(*events: Any) -> dict[str, Any]:
    return json.loads(render_head(folded(events)), parse_float=Decimal)  # type: ignore[no-any-return]


def payments(*events: Any) -> list[dict[str, Any]]:
    return json.loads(render_payments(folded(events)))  # type: ignore[no-any-return]


def test_an_order_that_waits_for_its_payment() -> None:
    assert head(created(10_000)) == {
        "id": str(ORDER),
        "externalId": "pedido-1",
        "externalMerchantReference": "pedido-1",
        "subscriptionId": None,
        "orderNumber": "PO0000000001",
        "invoiceNumber": None,
        "status": "PENDING",
        "currency": "MXN",
        "amount": 10_000,
        "amountFormatted": "$100.00 MXN",
        "subtotalAmount": 10_000,
        "surchargeAmount": None,
        "surchargeRate": None,
        "amountPaid": 0,
        "amountPending": 10_000,
        "overpaidAmount": 0,
        "amountRefunded": 0,
        "refundedAmount": 0,
        "amountReleased": 0,
        "lateDeposit": False,
        "allowPartials": False,
        "captureMethod": "AUTOMATIC",
        "virtualTerminal": False,
        "description": None,
        "metadata": None,
        "dueDate": None,
        "billingAddressLine": None,
        "billingCity": None,
        "billingState": None,
        "billingPostalCode": None,
        "billingCountry": None,
        "paymentMethod": None,
        "payerAuthentication": None,
        "lineItems": [],
        "customerFiscalData": None,
        "invoiceType": None,
        "invoiceStatus": None,
        "fiscalUuid": None,
        "complements": [],
        "creditNotes": [],
        "createdAt": AT,
        "updatedAt": AT,
    }
    assert payments(created(10_000)) == []


def test_an_order_paid_by_card_shows_the_card_in_both_spellings_and_never_its_number() -> None:
    shown = head(created(10_000, pending=False), *paid(1, 10_000))
    assert (shown["status"], shown["amountPaid"], shown["amountPending"]) == ("COMPLETED", 10_000, 0)
    assert shown["paymentMethod"] == {
        "id": str(UUID(int=7)),
        "type": "CARD",
        "channel": None,
        "cardDetails": {
            "id": str(UUID(int=7)),
            "type": "CREDIT",
            "bin": "424242",
            "last4": "4242",
            "brand": "VISA",
            "country": "US",
            "issuerBank": None,
            "expMonth": 12,
            "expYear": 2030,
            "expiryMonth": "12",
            "expiryYear": "2030",
            "cardholderName": None,
            "createdAt": AT,
            "updatedAt": AT,
        },
        "speiDetails": None,
        "cieDetails": None,
    }


def test_a_month_before_october_has_two_digits() -> None:
    march = replace(method(), card=replace(VISA, exp_month=3))
    start = replace(started(1, 10_000), method=march)
    card = head(created(10_000), start)["paymentMethod"]["cardDetails"]
    assert (card["expMonth"], card["expiryMonth"]) == (3, "03")


def test_a_paycash_reference_has_a_kind_of_the_interface_and_names_its_channel() -> None:
    events = (created(10_000), started(1, 10_000, type_=MethodType.PAYCASH))
    shown = head(*events)["paymentMethod"]
    assert (shown["type"], shown["channel"], shown["cardDetails"]) == ("CIE_CASH_NET", "PAYCASH", None)
    assert payments(*events)[0]["paymentMethodType"] == "CIE_CASH_NET"


def test_a_captured_payment_shows_its_amounts_as_decimal_strings_and_its_history() -> None:
    [payment] = payments(created(10_000, pending=False), *paid(1, 10_000))
    steps = [(1, "CREATION"), (2, "AUTHORIZATION"), (3, "CAPTURE")]
    events = [
        {
            "id": str(entry_id(payment_id(1), ordinal)),
            "action": action,
            "status": "SUCCESS",
            "amount": "10000",
            "currency": "MXN",
            "createdAt": AT,
            "reason": None,
        }
        for ordinal, action in steps
    ]
    nulls = dict.fromkeys(
        [
            "externalId",
            "nextAction",
            "speiDetails",
            "cieDetails",
            "lastFailedEventReason",
            "lastFailedEventAt",
            "declineCode",
            "payerMessage",
            "billingFirstName",
            "billingLastName",
            "billingPhoneNumber",
            "billingEmail",
            "billingAddressLine1",
            "billingAddressLine2",
            "billingCity",
            "billingState",
            "billingPostalCode",
            "billingCountry",
            "settlement",
            "description",
            "metadata",
        ]
    )
    assert payment == {
        "id": str(payment_id(1)),
        "status": "CAPTURED",
        "amount": "10000",
        "amountFormatted": "$100.00 MXN",
        "subtotalAmount": "10000",
        "surchargeAmount": "0",
        "authorizedAmount": "10000",
        "capturedAmount": "10000",
        "refundedAmount": "0",
        "amountReleased": "0",
        "currency": "MXN",
        "paymentMethodType": "CARD",
        "paymentMethodId": str(UUID(int=7)),
        "late": False,
        "lateDeposit": False,
        "virtualTerminal": False,
        "processor": "sandbox",
        "processorAccount": "sandbox",
        "processorReference": "ref",
        "installments": None,
        "createdAt": AT,
        "updatedAt": AT,
        "paymentEvents": events,
        **nulls,
    }


def test_a_settlement_batch_is_shown_with_its_fee() -> None:
    sale = (created(10_000, pending=False), *paid(1, 10_000))
    fee = {"fee": Decimal("4.87"), "fee_tax": Decimal("0.67")}
    listed = SettlementListed(payment_id=payment_id(1), batch_id="po_1", at=NOON, **fee)
    [payment] = payments(*sale, listed)
    shown = {"batchId": "po_1", "status": "LISTED", "fee": "4.87", "feeTax": "0.67", "feeCurrency": "MXN"}
    assert payment["settlement"] == shown
    refused = SettlementRefused(payment_id=payment_id(1), batch_id="po_2", at=NOON)
    [payment] = payments(*sale, listed, refused)
    nothing = {"fee": None, "feeTax": None, "feeCurrency": None}
    assert payment["settlement"] == {"batchId": "po_2", "status": "REFUSED", **nothing}


def test_a_declined_payment_shows_the_reason() -> None:
    events = (created(10_000, pending=False), started(1, 10_000), authorization_requested(1, 10_000), declined(1))
    assert head(*events)["status"] == "FAILED"
    [payment] = payments(*events)
    told = "The card has insufficient funds."
    assert payment["status"] == "FAILED"
    assert payment["lastFailedEventReason"] == told
    assert payment["lastFailedEventAt"] == AT
    assert payment["declineCode"] == "INSUFFICIENT_FUNDS"
    assert payment["paymentEvents"][-1]["status"] == "FAILED"
    assert payment["paymentEvents"][-1]["reason"] == told


def test_a_payment_without_an_answer_is_unknown_and_not_failed() -> None:
    events = (created(10_000, pending=False), started(1, 10_000), authorization_requested(1, 10_000), unanswered(1))
    assert head(*events)["status"] == "PROCESSING"
    [payment] = payments(*events)
    assert payment["status"] == "PENDING_AUTHORIZATION"
    assert payment["paymentEvents"][-1]["status"] == "UNKNOWN"
    assert payment["lastFailedEventAt"] is None


def test_a_split_order_shows_its_payments_oldest_first_and_the_captured_surcharge() -> None:
    events = (SPLIT_WITH_SURCHARGE, *paid(1, 4_000, 120), started(2, 6_000, type_=MethodType.SPEI))
    shown = head(*events)
    assert shown["allowPartials"] is True
    assert (shown["amount"], shown["subtotalAmount"], shown["surchargeAmount"]) == (10_120, 10_000, 120)
    assert (shown["surchargeRate"], shown["amountPaid"], shown["amountPending"]) == (3, 4_120, 6_000)
    assert shown["paymentMethod"]["type"] == "SPEI", "that of the newest payment"
    first, second = payments(*events)
    assert (first["id"], first["amount"], first["subtotalAmount"], first["surchargeAmount"]) == (
        str(payment_id(1)),
        "4120",
        "4000",
        "120",
    )
    assert (second["id"], second["status"], second["capturedAmount"]) == (str(payment_id(2)), "CREATED", "0")


def test_a_partial_approval_shows_the_asked_authorised_and_captured_amounts() -> None:
    [payment] = payments(
        created(10_000, pending=False),
        started(1, 10_000),
        authorization_requested(1, 10_000),
        *authorized_and_captured(1, 5_000),
    )
    assert (payment["amount"], payment["authorizedAmount"], payment["capturedAmount"]) == ("10000", "5000", "5000")


@pytest.mark.parametrize(
    ("amount", "number", "text", "people"),
    [
        ("10000", b"10000", "10000", "$100.00 MXN"),
        ("1E+4", b"10000", "10000", "$100.00 MXN"),
        ("150.50", b"150.5", "150.5", "$1.505 MXN"),
        ("150.75", b"150.75", "150.75", "$1.5075 MXN"),
        ("0.0001", b"0.0001", "0.0001", "$0.000001 MXN"),
        ("7", b"7", "7", "$0.07 MXN"),
        ("999999999999", b"999999999999", "999999999999", "$9,999,999,999.99 MXN"),
    ],
)
def test_an_amount_has_one_spelling_everywhere(amount: str, number: bytes, text: str, people: str) -> None:
    order = folded((created(amount), started(1, amount)))
    rendered = render_head(order)
    for name in (b"amount", b"subtotalAmount", b"amountPending"):
        assert b'"%b":%b,' % (name, number) in rendered
    payment = json.loads(render_payment(order, order.payments[0]))
    assert (payment["amount"], payment["paymentEvents"][0]["amount"]) == (text, text)
    assert payment["amountFormatted"] == json.loads(rendered)["amountFormatted"] == people


def test_a_surcharge_rate_is_a_number() -> None:
    policy = replace(THREE_PERCENT, rate=Decimal("3.50"))
    assert head(created(10_000, surcharge=policy))["surchargeRate"] == Decimal("3.5")


def test_metadata_is_returned_byte_for_byte() -> None:
    sent = b'{ "b":1.0,\n"a":[1e3,"\xc3\xa9\\u00e9"], "b" : 2}'
    order = folded((created(metadata=Raw(sent)), started(1, 10_000, metadata=Raw(b"[ ]"))))
    assert b'"metadata":' + sent + b"," in render_head(order)
    assert b'"metadata":[ ],' in render_payments(order)


def test_fiscal_data_and_line_items_are_echoed_under_the_interfaces_names() -> None:
    fiscal = FiscalData(
        tax_id="XAXX010101000",
        cfdi_use="S01",
        zip_code="03940",
        address=FiscalAddress(street="Insurgentes", exterior="1602"),
    )
    line = LineItem(
        description="Playera",
        quantity=Decimal("2.5"),
        unit_price=Decimal(4_000),
        sku="PLA-M",
        product_key="53101500",
        tax_included=False,
        taxes=(Tax(type="IVA", rate=Decimal("0.16"), factor="Tasa", withholding=False),),
        metadata=Raw(b'{"talla": "M"}'),
    )
    shown = head(
        created(
            10_000,
            fiscal=fiscal,
            line_items=(
                line,
                LineItem(description="Envío", quantity=Decimal(1), unit_price=Decimal(0), tax_included=True),
            ),
        )
    )
    assert shown["customerFiscalData"] == {
        "taxId": "XAXX010101000",
        "cfdiUse": "S01",
        "zipCode": "03940",
        "address": {"street": "Insurgentes", "exterior": "1602"},
    }
    assert shown["lineItems"] == [
        {
            "description": "Playera",
            "quantity": Decimal("2.5"),
            "unitPrice": 4_000,
            "taxIncluded": False,
            "sku": "PLA-M",
            "productKey": "53101500",
            "taxes": [{"type": "IVA", "rate": Decimal("0.16"), "factor": "Tasa", "withholding": False}],
            "metadata": {"talla": "M"},
        },
        {"description": "Envío", "quantity": 1, "unitPrice": 0, "taxIncluded": True},
    ]


@pytest.mark.parametrize(
    ("fiscal", "split", "invoice"),
    [(False, False, None), (False, True, None), (True, False, "PUE"), (True, True, "PPD")],
)
def test_an_invoice_has_a_type_only_with_fiscal_data(fiscal: bool, split: bool, invoice: str | None) -> None:
    terms = {"fiscal": FiscalData(zip_code="03940")} if fiscal else {}
    assert head(created(allow_partials=split, **terms))["invoiceType"] == invoice


def test_an_order_and_its_payment_show_each_others_billing_address_if_they_have_none() -> None:
    home, work = BillingAddress(address="Casa 1", city="Puebla"), BillingAddress(address="Torre 2", country="MX")
    [payment] = payments(created(billing_address=home), started(1, 10_000))
    assert (payment["billingAddressLine1"], payment["billingCity"]) == ("Casa 1", "Puebla")
    [payment] = payments(created(billing_address=home), started(1, 10_000, billing_address=work))
    assert (payment["billingAddressLine1"], payment["billingCity"], payment["billingCountry"]) == (
        "Torre 2",
        None,
        "MX",
    )
    attempts = (started(1, 10_000, billing_address=home), started(2, 10_000, billing_address=work), started(3, 10_000))
    shown = head(created(), *attempts)
    assert (shown["billingAddressLine"], shown["billingCountry"]) == ("Torre 2", "MX"), "that of the newest with one"


def test_a_time_is_cut_off_to_the_millisecond_in_utc() -> None:
    assert moment(NOON) == AT
    assert moment(NOON.replace(microsecond=123_999)) == "2026-01-31T12:00:00.123Z"
    assert moment(NOON.replace(microsecond=120_000)) == "2026-01-31T12:00:00.120Z"
    assert moment(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00.000Z"
    with pytest.raises(AssertionError):
        moment(NOON.astimezone(timezone(timedelta(hours=-6))))


def test_an_amount_below_a_peso_keeps_its_zeros() -> None:
    assert [for_people(amount, "USD") for amount in ("0", "5", "50", "500", "0.5")] == [
        "$0.00 USD",
        "$0.05 USD",
        "$0.50 USD",
        "$5.00 USD",
        "$0.005 USD",
    ]


def ana() -> Customer:
    return Customer(customer_id=CUSTOMER, external_id="ana", created_at=NOON, updated_at=NOON, first_name="Ana")


def test_an_answer_has_the_customer_all_payments_and_the_payment_of_its_request() -> None:
    order = folded((created(allow_partials=True), *paid(1, 4_000), *paid(2, 1_000)))
    shown = json.loads(answer(order, ana(), payment_id(2), NOON))
    assert shown["customer"] == {
        "id": str(CUSTOMER),
        "externalId": "ana",
        "firstName": "Ana",
        "lastName": None,
        "email": None,
        "phoneNumber": None,
        "active": True,
        "sourceId": None,
        "createdAt": AT,
        "updatedAt": AT,
    }
    assert [payment["id"] for payment in shown["payments"]] == [str(payment_id(1)), str(payment_id(2))]
    assert shown["payment"] == shown["payments"][1]
    assert shown["isOverdue"] is False
    assert "payment" not in json.loads(answer(order, ana(), None, NOON))


def test_a_list_row_lacks_only_the_payments() -> None:
    order = folded((created(), *paid(1, 10_000)))
    shown = json.loads(document(render_head(order), b"{}", None, overdue=True))
    assert (shown["payments"], shown["customer"], shown["isOverdue"]) == ([], {}, True)
    assert shown["amountPaid"] == 10_000


@pytest.mark.parametrize(
    ("status", "overdue"),
    [
        ("PENDING", True),
        ("PARTIALLY_PAID", True),
        ("FAILED", True),
        ("REFERENCE_GENERATED", True),
        ("AUTHORIZED", True),
        ("PROCESSING", True),
        ("COMPLETED", False),
        ("CANCELLATION_REQUESTED", False),
        ("CANCELLED", False),
        ("REFUND_PROCESSING", False),
        ("PARTIALLY_REFUNDED", False),
        ("REFUNDED", False),
    ],
)
def test_an_order_is_overdue_when_its_due_date_has_passed_and_money_is_owed(status: str, overdue: bool) -> None:
    due = NOON
    assert is_overdue(status, due, due + timedelta(microseconds=1)) is overdue
    assert is_overdue(status, due, due) is False
    assert is_overdue(status, None, NOON) is False


def test_rendering_twice_gives_the_same_bytes_and_so_does_an_equal_order() -> None:
    events = (created(metadata=Raw(b'{"a": 1}')), *paid(1, 10_000))
    one, other = folded(events), folded(events)
    assert one is not other
    for render in (render_head, render_payments):
        assert render(one) == render(one) == render(other)


def test_the_fields_that_the_interface_requires_are_never_left_out() -> None:
    required = {"id", "externalId", "amount", "currency", "status", "refundedAmount"}
    assert required <= set(OrderHead.__struct_encode_fields__)
    assert {"id", "status", "paymentMethodType"} <= set(PaymentDocument.__struct_encode_fields__)
    assert isinstance(folded((created(),)), Order)
