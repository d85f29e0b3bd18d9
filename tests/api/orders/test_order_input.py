"""How the body of a create is parsed: names, aliases, limits."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec import UNSET
from tests.api.bodies import (
    ABSENT,
    by_card,
    charge,
    drafted,
    drafted_charge,
    field_of,
    line,
    order,
    paid_order,
    refusal_of,
)

from api.fields.people import BillingAddress
from ledger.domain.orders.terms import CaptureMethod, MethodType

FISCAL = {
    "taxId": "XAXX010101000",
    "legalName": "Público en general",
    "taxSystem": "616",
    "cfdiUse": "S01",
    "zipCode": "06600",
    "email": "facturas@example.com",
    "paymentForm": "04",
    "address": {"street": "Reforma", "exterior": "222", "neighborhood": "Juárez", "country": "MEX"},
}


def test_the_smallest_order_is_drafted_with_the_defaults_of_the_interface():
    draft = drafted(order())
    assert (draft.terms.external_id, draft.terms.amount, draft.terms.currency) == ("order-1", Decimal(150000), "MXN")
    assert draft.payment is None
    assert draft.terms.capture_method is CaptureMethod.AUTOMATIC
    assert not draft.terms.allow_partials
    assert not draft.terms.virtual_terminal
    assert draft.terms.metadata is UNSET


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (b"1", "1"),
        (b"150.75", "150.75"),
        (b"0.0001", "0.0001"),
        (b"150.7500000", "150.75"),
        (b"10000.0", "10000"),
        (b"999999999999", "999999999999"),
    ],
)
def test_an_amount_is_taken_exactly_as_it_is_written(sent: bytes, meant: str):
    body = b'{"amount":%s,"currency":"MXN","externalId":"a","customerId":"ana","pending":true}' % sent
    assert str(drafted(body).terms.amount) == meant


@pytest.mark.parametrize(
    "sent",
    [b"0", b"0.0", b"-0.0", b"-1", b"1e3", b"1E+4", b"1e3000000", b"0.00001", b"1000000000000", b"999999999999.0001",
     b'"100"', b'"NaN"', b"true", b"null", b"[1]", b"{}", b"9" * 100_000],
)  # fmt: skip
def test_an_invalid_amount_is_refused_on_the_field_amount(sent: bytes):
    body = b'{"amount":%s,"currency":"MXN","externalId":"a","customerId":"ana","pending":true}' % sent
    assert field_of(body) == "amount"


@pytest.mark.parametrize(
    ("field", "longest", "too_long"),
    [
        ("description", "d" * 1000, "d" * 1001),
        ("invoiceNumber", "i" * 64, "i" * 65),
        ("externalId", "e" * 255, "e" * 256),
        ("externalId", "é" * 255, "é" * 256),
    ],
)
def test_a_text_may_be_as_long_as_its_limit_and_no_longer(field: str, longest: str, too_long: str):
    assert drafted(order(**{field: longest}))
    refusal = refusal_of(order(**{field: too_long}))
    assert refusal.errors[0].field == field
    assert refusal.errors[0].code == "INVALID_LENGTH"


@pytest.mark.parametrize(
    ("place", "name"),
    [("customer", "firstName"), ("billingAddress", "city"), ("deviceInformation", "userAgent"),
     ("customerFiscalData", "legalName")],
)  # fmt: skip
def test_a_string_holds_255_characters(place: str, name: str):
    known = {"externalId": "ana"} if place == "customer" else {}
    assert drafted(order(**{place: known | {name: "x" * 255}}))
    assert field_of(order(**{place: known | {name: "x" * 256}})) == f"{place}.{name}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (order(externalId=""), "externalId must not be empty."),
        (order(externalId="  "), "externalId must not be blank."),
        (order(dueDate="9999-12-31"), "dueDate must lie in the years 1970 to 2999."),
        (order(dueDate="0000-01-01"), "dueDate must be a date or an ISO 8601 date-time."),
        (order(amount=-5), "amount must not be negative."),
        (order(billingAddress={"country": "MEX"}), "billingAddress.country must be a country code of two letters such as MX."),
        (paid_order(billingAddress=ABSENT), "billingAddress is required."),
        (paid_order(billingAddress={}), "billingAddress must not be empty."),
    ],
)  # fmt: skip
def test_a_validation_message_names_the_accepted_values(body: dict[str, Any], message: str):
    assert refusal_of(body).message == message


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (order(amount=ABSENT), "amount"),
        (order(currency=ABSENT), "currency"),
        (order(currency="EUR"), "currency"),
        (order(currency="MX"), "currency"),
        (order(externalId=ABSENT), "externalId"),
        (order(externalId=""), "externalId"),
        (order(externalId="a\u200bb"), "externalId"),
        (order(externalId="  "), "externalId"),
        (order(customer={"externalId": " "}), "customer.externalId"),
        (order(customer={"externalId": "ana", "phoneNumber": "none"}), "customer.phoneNumber"),
        (order(customer=ABSENT), "customer"),
        (order(customer={}), "customer"),
        (order(customer={"firstName": "Ana"}), "customer"),
        (order(customer={"email": None}), "customer"),
        (order(customer={"email": "ana"}), "customer.email"),
        (order(customer={"email": "ana@tienda.test"}), "customer.email"),
        (order(customer={"externalId": 7}), "customer.externalId"),
        (order(pending="true"), "pending"),
        (order(pending=False), "paymentMethod"),
        (order(pending=ABSENT), "paymentMethod"),
        (order(captureMethod="LATER"), "captureMethod"),
        (order(metadata=[1]), "metadata"),
        (order(metadata="{}"), "metadata"),
        (order(dueDate="tomorrow"), "dueDate"),
        (order(dueDate="9999-12-31T23:59:59-14:00"), "dueDate"),
        (order(dueDate="0000-01-01T00:00:00Z"), "dueDate"),
        (order(dueDate="2026-02-30"), "dueDate"),
        (order(dueDate="9999-12-31"), "dueDate"),
        (order(dueDate="9999-12-31T23:59:59Z"), "dueDate"),
        (order(dueDate="3000-01-01T00:00:00Z"), "dueDate"),
        (order(dueDate="0001-01-01"), "dueDate"),
        (order(dueDate="1969-12-31T23:59:59Z"), "dueDate"),
        (order(dueDate=1767225600), "dueDate"),
        (order(customerFiscalData={"taxId": "XAXX01010100"}), "customerFiscalData.taxId"),
        (order(customerFiscalData={"taxId": "ABC991332AB1"}), "customerFiscalData.taxId"),
        (order(customerFiscalData={"taxId": "CACX760510"}), "customerFiscalData.taxId"),
        (order(customerFiscalData={"email": "@"}), "customerFiscalData.email"),
        (order(billingAddress={"country": "MEX"}), "billingAddress.country"),
        (order(billingAddress={"country": "M1"}), "billingAddress.country"),
        (paid_order(billingAddress=ABSENT), "billingAddress"),
        (paid_order(billingAddress={}), "billingAddress"),
        (paid_order(paymentMethod={"type": "cash"}), "paymentMethod.type"),
        (paid_order(paymentMethod={}), "paymentMethod.type"),
        (paid_order(paymentMethod={"type": "payment_method_id"}), "paymentMethod.paymentMethodId"),
        (paid_order(paymentMethod={"type": "card", "paymentMethodId": "pm-1"}), "paymentMethod.type"),
    ],
)
def test_a_wrong_field_is_named(body: dict[str, Any], field: str):
    assert field_of(body) == field


@pytest.mark.parametrize(
    ("canonical", "aliased", "drop"),
    [
        ({"externalId": "a"}, {"externalMerchantReference": "a"}, "externalId"),
        ({"virtualTerminal": True}, {"isVirtualTerminal": True}, None),
        ({"customerFiscalData": FISCAL}, {"fiscalData": FISCAL}, None),
        ({"customerFiscalData": FISCAL}, {"fiscalConfig": FISCAL}, None),
        ({"lineItems": [line()]}, {"items": [line()]}, None),
        ({"customer": {"id": "ana"}}, {"customer": {"customerId": "ana"}}, "customer"),
        ({"customer": {"id": "ana"}}, {"customerId": "ana"}, "customer"),
    ],
)
def test_an_alias_means_the_same_as_the_canonical_name(
    canonical: dict[str, Any], aliased: dict[str, Any], drop: str | None
):
    base = order() if drop is None else order(**{drop: ABSENT})
    assert drafted(base | aliased) == drafted(base | canonical)


@pytest.mark.parametrize(
    ("both", "names"),
    [
        ({"externalMerchantReference": "order-2"}, ("externalId", "externalMerchantReference")),
        ({"virtualTerminal": True, "isVirtualTerminal": False}, ("virtualTerminal", "isVirtualTerminal")),
        (
            {"customerFiscalData": FISCAL, "fiscalData": {"taxId": "XEXX010101000"}},
            ("customerFiscalData", "fiscalData"),
        ),
        ({"fiscalData": FISCAL, "fiscalConfig": {"zipCode": "06700"}}, ("customerFiscalData", "fiscalConfig")),
        ({"lineItems": [line()], "items": [line(quantity=3)]}, ("lineItems", "items")),
        ({"customer": {"id": "ana", "customerId": "eva"}}, ("customer.id", "customer.customerId")),
        ({"customer": {"id": "ana"}, "customerId": "eva"}, ("customer.id", "customerId")),
    ],
)
def test_two_spellings_with_different_values_conflict(both: dict[str, Any], names: tuple[str, str]):
    refusal = refusal_of(order(**both))
    assert refusal.code == "CONFLICTING_FIELDS"
    assert tuple(error.field for error in refusal.errors) == names


@pytest.mark.parametrize(
    "both",
    [
        {"externalMerchantReference": "order-1"},
        {"customerFiscalData": FISCAL, "fiscalData": FISCAL, "fiscalConfig": FISCAL},
        {"lineItems": [line(metadata={"a": 1})], "items": [line(metadata={"a": 1})]},
        {"customer": {"id": "ana", "customerId": "ana"}, "customerId": "ana"},
    ],
)
def test_two_spellings_with_one_value_agree(both: dict[str, Any]):
    assert drafted(order(**both))


def test_null_is_absent_but_clears_a_detail_of_the_customer():
    draft = drafted(order(description=None, dueDate=None, metadata=None, lineItems=None, billingAddress=None))
    assert draft == drafted(order())
    customer = drafted(order(customer={"externalId": "ana", "firstName": None})).customer
    assert customer.first_name is None
    assert customer.last_name is UNSET


def test_unknown_fields_are_ignored():
    assert drafted(order(status="COMPLETED", amountPaid=1, merchantId="x", nested={"deep": [1]})) == drafted(order())


def test_a_customer_may_be_new_by_email_alone():
    assert drafted(order(customer={"email": "ana@example.com"})).customer.external_id is None


def test_partial_payments_are_honoured_on_pending_orders_only():
    assert drafted(order(allowPartials=True)).terms.allow_partials
    assert not drafted(paid_order(allowPartials=True)).terms.allow_partials


def test_a_pending_order_drops_the_method_but_checks_it():
    assert drafted(order(paymentMethod=by_card())).payment is None
    assert field_of(order(paymentMethod={"type": "card"})) == "paymentMethod.cardTokens"


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("2026-12-31T23:59:59Z", datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("2026-12-31T17:00:00-06:00", datetime(2026, 12, 31, 23, tzinfo=UTC)),
        ("2026-12-31T17:00:00", datetime(2026, 12, 31, 23, tzinfo=UTC)),
        ("2026-12-31", datetime(2027, 1, 1, 5, 59, 59, 999_999, tzinfo=UTC)),
    ],
)
def test_a_due_date_without_an_offset_is_in_the_merchants_time_zone(sent: str, meant: datetime):
    assert drafted(order(dueDate=sent)).terms.due_date == meant


def test_a_country_code_is_kept_in_capitals():
    assert drafted(order(billingAddress={"country": "mx"})).terms.billing_address == BillingAddress(country="MX")


def test_fiscal_data_is_carried_whole_and_the_tax_id_and_use_in_capitals():
    company = {"taxId": "eku9003173c9", "taxSystem": "601", "cfdiUse": "g03"}
    fiscal = drafted(order(customerFiscalData=FISCAL | company)).terms.fiscal
    assert fiscal is not None
    assert (fiscal.tax_id, fiscal.cfdi_use) == ("EKU9003173C9", "G03")
    assert fiscal.address is not None
    assert fiscal.address.country == "MEX"


@pytest.mark.parametrize("kind", ["spei", "paycash", "cie_cash_net"])
def test_the_other_methods_need_nothing_more(kind: str):
    payment = drafted(paid_order(paymentMethod={"type": kind}, billingAddress=ABSENT)).payment
    assert payment is not None
    assert payment.type is MethodType(kind.upper())


def test_a_saved_card_needs_its_id_and_may_bring_a_cvc():
    saved = {"type": "payment_method_id", "paymentMethodId": "pm-1"}
    payment = drafted(paid_order(paymentMethod=saved, billingAddress=ABSENT)).payment
    assert payment is not None
    assert payment.saved_method_id == "pm-1"
    assert field_of(paid_order(paymentMethod=saved | {"cvc": "12"})) == "paymentMethod.cvc"


def test_a_charge_carries_what_belongs_to_the_payment():
    draft = drafted_charge(charge(amount=50.5, externalId="p-1", metadata={"a": 1}, isVirtualTerminal=True))
    assert (draft.amount, draft.external_id, draft.virtual_terminal) == (Decimal("50.5"), "p-1", True)
    assert draft.billing_address == BillingAddress(city="Puebla")
    assert bytes(draft.metadata) == b'{"a":1}'
    assert drafted_charge(charge()).amount is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (charge(paymentMethod=ABSENT), "paymentMethod"),
        (charge(billingAddress=ABSENT), "billingAddress"),
        (charge(amount=0), "amount"),
        (charge(amount="5"), "amount"),
        (charge(externalId=""), "externalId"),
        (charge(externalId="a", externalMerchantReference="b"), "externalId"),
        (charge(metadata=[]), "metadata"),
    ],
)
def test_a_wrong_field_of_a_charge_is_named(body: dict[str, Any], field: str):
    assert field_of(body, drafted_charge) == field


# ------------------------------------------------------------------ line items


def test_lines_are_exact_and_complete():
    tax = {"type": "ISR", "rate": 0.106667, "withholding": True}
    sent = line(sku="S", productKey="50201706", unitKey="KGM", discount=10.5, taxIncluded=False, taxes=[tax])
    item = drafted(order(lineItems=[sent])).terms.line_items[0]
    assert (item.quantity, item.unit_price, item.discount) == (Decimal(2), Decimal(75000), Decimal("10.5"))
    assert (item.tax_included, item.taxes[0].rate, item.taxes[0].factor) == (False, Decimal("0.106667"), "Tasa")


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"productKey": "1234"}, "productKey", "c_ClaveProdServ"),
        ({"productKey": "99999999"}, "productKey", "c_ClaveProdServ"),
        ({"unitKey": "h87"}, "unitKey", "c_ClaveUnidad"),
        ({"taxes": [{"type": "IVA", "rate": 0}, {"type": "IVA", "rate": 16}]}, "taxes[1].rate", "did you mean 0.16?"),
        ({"taxes": [{"type": "ISR", "rate": 0.1, "factor": "Cuota"}]}, "taxes[0].factor", "must be Tasa"),
    ],
)
def test_an_order_that_is_invoiced_has_keys_and_rates_of_sats_catalogues(
    changes: dict[str, Any], field: str, problem: str
):
    lines = [line(**changes)]
    for name in ("customerFiscalData", "fiscalData", "fiscalConfig"):
        (error,) = refusal_of(order(lineItems=lines, **{name: FISCAL})).errors
        assert (error.field, error.code) == (f"lineItems[0].{field}", "INVALID_VALUE")
        assert problem in error.message
    assert drafted(order(lineItems=lines)).terms.line_items, "without a receiver, nothing is invoiced yet"


@pytest.mark.parametrize(
    ("lines", "adds_up"),
    [
        ([line(quantity=1, unitPrice=150000)], True),
        ([line(quantity=3, unitPrice=50000)], True),
        ([line(quantity=0.3, unitPrice=500000)], True),
        ([line(quantity=1, unitPrice=150000.001)], True),
        ([line(quantity=1, unitPrice=150000.0011)], False),
        ([line(quantity=1, unitPrice=149999)], False),
        ([line(), line()], False),
    ],
)
def test_lines_must_add_up_to_the_amount_within_a_thousandth(lines: list[dict[str, Any]], adds_up: bool):
    if adds_up:
        assert len(drafted(order(lineItems=lines)).terms.line_items) == len(lines)
    else:
        assert field_of(order(lineItems=lines)) == "lineItems"


def test_no_lines_need_not_add_up():
    assert drafted(order(lineItems=[])).terms.line_items == ()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"description": ABSENT}, "description"),
        ({"description": ""}, "description"),
        ({"quantity": ABSENT}, "quantity"),
        ({"quantity": 0}, "quantity"),
        ({"quantity": "2"}, "quantity"),
        ({"quantity": 0.0000001}, "quantity"),
        ({"unitPrice": ABSENT}, "unitPrice"),
        ({"unitPrice": -1}, "unitPrice"),
        ({"discount": "1"}, "discount"),
        ({"taxes": [{"type": "IVA"}]}, "taxes[0].rate"),
        ({"taxes": [{"type": "VAT", "rate": 0.16}]}, "taxes[0].type"),
        ({"taxes": [{"type": "IVA", "rate": 0.16}] * 21}, "taxes"),
        ({"metadata": "x"}, "metadata"),
    ],
)
def test_a_wrong_field_of_a_line_is_named_with_its_place(change: dict[str, Any], field: str):
    assert field_of(order(lineItems=[line(), line(**change)])) == f"lineItems[1].{field}"


def test_the_name_of_a_line_replaces_a_missing_description():
    item = drafted(order(lineItems=[line(description=ABSENT, name="Café")])).terms.line_items[0]
    assert (item.description, item.name) == ("Café", "Café")
    both = drafted(order(lineItems=[line(name="Molido")])).terms.line_items[0]
    assert (both.description, both.name) == ("Café", "Molido")


def test_an_exempt_line_needs_no_rate():
    sent = line(taxes=[{"type": "IVA", "factor": "Exento"}])
    assert drafted(order(lineItems=[sent])).terms.line_items[0].taxes[0].rate == 0


def test_an_order_has_at_most_a_thousand_lines():
    assert len(drafted(order(amount=1000, lineItems=[line(quantity=1, unitPrice=1)] * 1000)).terms.line_items) == 1000
    assert field_of(order(amount=1001, lineItems=[line(quantity=1, unitPrice=1)] * 1001)) == "lineItems"


# ------------------------------------------------------------------ metadata


def _deep(levels: int) -> Any:
    return {"a": _deep(levels - 1)} if levels > 1 else {}


def test_metadata_is_kept_as_it_was_written_but_for_whitespace():
    body = b'{"amount":1,"currency":"MXN","externalId":"a","customerId":"c","pending":true,"metadata":{ "b" : 1.50, "a": [ 1e2 ] }}'
    assert bytes(drafted(body).terms.metadata) == b'{"b":1.50,"a":[1e2]}'


def test_metadata_may_be_ten_levels_deep_counting_itself():
    assert drafted(order(metadata=_deep(10)))
    assert field_of(order(metadata=_deep(11))) == "metadata"
    assert drafted(order(metadata={str(n): [n] for n in range(50)}))
    assert field_of(order(metadata={"a": [[[[[[[[[[1]]]]]]]]]]})) == "metadata"


def test_metadata_holds_32768_bytes_as_compact_json():
    fits = {"a": "x" * (32768 - len('{"a":""}'))}
    assert drafted(order(metadata=fits))
    assert field_of(order(metadata={"a": fits["a"] + "x"})) == "metadata"


def test_an_unrepresentable_number_in_metadata_is_refused():
    body = b'{"amount":1,"currency":"MXN","externalId":"a","customerId":"c","pending":true,"metadata":{"a":1e999}}'
    assert field_of(body) == "metadata"


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@pytest.mark.parametrize(
    ("member", "twice", "named"),
    [
        ("amount", '"amount": 1', "amount"),
        ("firstName", '"firstName": "Eva"', "customer.firstName"),
        ("quantity", '"quantity": 1', "lineItems[0].quantity"),
        ("gift", '"gift": false', "lineItems[0].metadata.gift"),
        ("channel", '"channel": "web"', "metadata.channel"),
    ],
)
def test_a_name_that_an_order_has_twice_is_named(separators: tuple[str, str], member: str, twice: str, named: str):
    content = order(lineItems=[line(metadata={"gift": True})], metadata={"channel": "shop"})
    written = json.dumps(content, separators=separators)
    body = written.replace(f'"{member}"', twice.replace(": ", separators[1]) + separators[0] + f'"{member}"')
    problem = refusal_of(body.encode()).errors[0]
    assert (problem.field, problem.code) == (named, "DUPLICATE_FIELD")
    drafted(written.encode())


def test_a_key_that_metadata_has_twice_is_named():
    body = b'{"amount":1,"currency":"MXN","externalId":"a","customerId":"c","pending":true,"metadata":%s}'
    refusal = refusal_of(body % rb'{"a":1.0,"b":{"c":1,"c":2},"\u0061":"\u00e9"}')
    assert [(each.field, each.code) for each in refusal.errors] == [
        ("metadata.a", "DUPLICATE_FIELD"),
        ("metadata.b.c", "DUPLICATE_FIELD"),
    ]
    once = rb'{"a":"b\":1","c":1.50,"\u0064":"\\\""}'
    assert bytes(drafted(body % once).terms.metadata) == once
