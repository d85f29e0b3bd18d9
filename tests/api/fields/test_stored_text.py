"""Card numbers and control characters are refused in every text that would be stored."""

from __future__ import annotations

import hashlib
import json
import timeit
import uuid
from random import Random
from time import process_time
from typing import Any

import pytest
from stdnum import luhn
from tests.api.bodies import (
    ABSENT,
    APPROVED,
    by_card,
    card,
    charge,
    drafted,
    drafted_charge,
    encoded,
    line,
    order,
    paid_order,
    refusal_of,
)

from ledger.processors import bins
from ledger.processors.pan_detection import contains_pan

SPELLINGS = [
    APPROVED,
    "4242 4242 4242 4242",
    "4242-4242-4242-4242",
    "pago con 5555 5555 5555 4444 12/27 gracias",
    "tel. 5512345678 4111 1111 1111 1111",
    "x4111111111111111y",
    "3782 822463 10005",
    "4242\u00a04242\u00a04242\u00a04242",
    "４２４２４２４２４２４２４２４２",
    "+4242424242424242",
    "4242 - 4242 - 4242 - 4242",
    "4111.1111.1111.1111",
    "4111. 1111. 1111. 1111",
    "tel. 55.1234.5678 y 4111.1111.1111.1111.",
    "12.4111.1111.1111.1111.12",
    "4111/1111/1111/1111",
    "4111_1111_1111_1111",
    "4111\u00b71111\u00b71111\u00b71111",
    "3782.822463.10005",
    "3056.930902.5904",
    "6799.9901.0000.0000.019",
    "4222.2222.2222.2",
    "4242\t4242\t4242\t4242",
    "4242\n4242\r\n4242\n4242",
    "4242     4242     4242     4242",
    "4242,4242,4242,4242",
    "4242, 4242, 4242, 4242",
    "4242|4242|4242|4242",
    "4242 | 4242 | 4242 | 4242",
    "4242:4242:4242:4242",
    "4242=4242=4242=4242",
    "4242,4242|4242:4242",
    "4242 ~> 4242 ~> 4242 ~> 4242",
    "4242\u200b4242\u200b4242\u200b4242",
    "4\u200d2\u20604\ufeff2\u00ad424242424242",
    "+378282246310005",
    "+3782 822463 10005",
    "card4242424242424242exp1229",
    "abcdef4242424242424242abcdef",
    "8171999900000018",
    "6200000000000005",
    "9792030394440796",
    "UATP 135412345678911",
    "371449635398431",
    "2200000000000053",
    "6062826786276634",
    "6362970000457013",
    "6521111111111110",
    "4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2",
    "4-2-4-2-4-2-4-2-4-2-4-2-4-2-4-2",
    "4.2.4.2.4.2.4.2.4.2.4.2.4.2.4.2",
    "tarjeta 3 7 8 2 8 2 2 4 6 3 1 0 0 0 5 12/27",
    "4 2 4 2 - 4 2 4 2 - 4 2 4 2 - 4 2 4 2",
    "4 2 4 2  4 2 4 2  4 2 4 2  4 2 4 2",
    "37 82 82 24 63 10 00 5",
    "4242424242424242cad1227",
    "order-4242424242424242",
    "pedido 4222222222222, gracias",
]

INNOCENT = [
    "4242424242424241",
    "1733412345678",
    "1733412345678901234",
    "20260131120000",
    "+52 55 1234 5678",
    "+4915112345678",
    "42424242424242424242",
    "032180000118359719",
    "646180157000000004",
    "192.168.100.200, 10.0.0.1",
    "4242424242.424242",
    "4242.424242424242",
    "4242.4242 4242.4242",
    "55.555.555.555.555.555",
    "30.12.2034 12.30.45",
    "4111.1111.1111.1112",
    "54111.1111.1111.1111",
    "4111.1111.1111.11111",
    "0.4242424242424242",
    "19.4242424242424242, -99.4111111111111111",
    "9811111111111113",
    "7011111111111115",
    "4242,424,242,424,242",
    "9f4242424242424242c0ffee",
    # Ids: the digits have a length and a check digit that fit, but lie in no range of payers' cards.
    "ba30303221964663",
    "76bb9418ba56e372353851433881c5",
    "ba4222222222222c",
    "4222222222222",
    "ORD-4222222222222",
    "gid://shopify/Order/4222222222222",
    "135412345678911",
    "2611251843140019",
    "3005202505251208",
    "702-3600000-0000008",
    "1172452900780-06",
    "1 2 3 4 5 6 7 8 9 0 1 2 8",
    "4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2",
    "4.2 4.2 4.2 4.2 4.2 4.2 4.2 4.2",
    "[4,2,4,2,4,2,4,2,4,2,4,2,4,2,4,2]",
]

# Where a text can be sent that is stored, and the field that a refusal names.
PLACES: dict[str, Any] = {
    "externalId": lambda text: order(externalId=text),
    "description": lambda text: order(description=text),
    "invoiceNumber": lambda text: order(invoiceNumber=text),
    "customer.id": lambda text: order(customer={"id": text}),
    "customer.externalId": lambda text: order(customer={"externalId": text}),
    "customer.firstName": lambda text: order(customer={"externalId": "a", "firstName": text}),
    "customer.lastName": lambda text: order(customer={"externalId": "a", "lastName": text}),
    "customer.phoneNumber": lambda text: order(customer={"externalId": "a", "phoneNumber": "1 " + text}),
    "billingAddress.address": lambda text: order(billingAddress={"address": text}),
    "billingAddress.postalCode": lambda text: order(billingAddress={"postalCode": text}),
    "deviceInformation.userAgent": lambda text: order(deviceInformation={"userAgent": text}),
    "customerFiscalData.legalName": lambda text: order(customerFiscalData={"legalName": text}),
    "customerFiscalData.address.street": lambda text: order(fiscalData={"address": {"street": text}}),
    "lineItems[0].description": lambda text: order(items=[line(description=text)]),
    "lineItems[0].name": lambda text: order(items=[line(name=text)]),
    "lineItems[0].sku": lambda text: order(items=[line(sku=text)]),
    "lineItems[0].metadata": lambda text: order(items=[line(metadata={"a": text})]),
    "metadata": lambda text: order(metadata={"a": {"b": [text]}}),
    "paymentMethod.cardDetails.cardholderName": lambda text: paid_order(
        paymentMethod=by_card(cardDetails=card(cardholderName=text))
    ),
    "paymentMethod.paymentMethodId": lambda text: paid_order(
        paymentMethod={"type": "payment_method_id", "paymentMethodId": text}
    ),
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_card_number_is_found_however_it_is_written(text: str):
    assert contains_pan(text)
    for body in (encoded(order(description=text)), json.dumps(order(description=text)).encode()):
        assert refusal_of(body).code == "CARD_NUMBER_NOT_ALLOWED"


@pytest.mark.parametrize("text", INNOCENT)
def test_other_numbers_are_left_alone(text: str):
    assert not contains_pan(text)


def test_ids_that_machines_make_are_never_taken_for_cards():
    ids = [str(uuid.UUID(bytes=hashlib.md5(b"%d" % n).digest())) for n in range(3000)]
    ids += [hashlib.sha256(b"%d" % n).hexdigest() for n in range(1500)]
    ids += [str(1_700_000_000_000 + 977 * n) for n in range(2000)]
    assert [text for text in ids if contains_pan(text)] == []


def test_the_innocent_ids_are_card_numbers_to_everything_but_the_ranges():
    for text in ("30303221964663", "4222222222222", "135412345678911", "2611251843140019", "3005202505251208"):
        assert luhn.is_valid(text)
        assert bins.is_issued(text)
    assert luhn.is_valid("36000000000008")
    assert luhn.is_valid("117245290078006")


def test_the_sum_of_digits_is_luhns_own():
    for n in range(4_242_424_242_424_200, 4_242_424_242_424_300):
        assert contains_pan(str(n)) == luhn.is_valid(str(n))


CODES = [
    "cvc: 123",
    "12/29 CVV=1234",
    "Cvv2 : 123",
    "securityCode:999",
    "security code: 999",
    "código de seguridad: 123",
]
NAMES = [
    "cvc", "CVV", "cvv2", "CVV_2", "cid", "csc", "cvn", "securityCode", "security_code", "card-security-code", "cardCvc",
    "cardVerificationValue", "card_verification_code", "card[cvc]", "codigoSeguridad", "código_de_seguridad",
]  # fmt: skip


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("place", ["description", "lineItems[0].name", "metadata", "customerFiscalData.legalName"])
def test_a_security_code_is_refused_in_a_text_that_is_stored(place: str, code: str):
    for body in (encoded(PLACES[place](code)), json.dumps(PLACES[place](code)).encode()):
        refusal = refusal_of(body)
        assert (refusal.code, refusal.errors[0].field) == ("SECURITY_CODE_NOT_ALLOWED", place)
        assert code not in refusal.message


@pytest.mark.parametrize("name", NAMES)
def test_a_security_code_is_refused_under_its_name_in_metadata(name: str):
    for value in ("123", "1234", 123, 123.0, ["123"], " 123 ", "1\u200b23"):
        _refuses_code(name, value)


def _refuses_code(name: str, value: Any) -> None:
    for metadata in ({name: value}, {"a": [{"b": {name: value}}]}):
        for body in (order(metadata=metadata), paid_order(lineItems=[line(metadata=metadata)])):
            assert refusal_of(body).code == "SECURITY_CODE_NOT_ALLOWED"


@pytest.mark.parametrize(
    "metadata",
    [
        {"cvc": "no"},
        {"cvv": "12345"},
        {"cid": "GA1.2.123"},
        {"cid": 12},
        {"cvc": True},
        {"acid": "123"},
        {"code": 123},
        {"postalCode": "1234"},
        {"verificationCode": "1234"},
        {"note": "cvc 2 pagos, placido: 123, cid: 123.50"},
    ],
)
def test_other_names_and_values_are_left_alone(metadata: dict[str, Any]):
    assert json.loads(bytes(drafted(order(metadata=metadata)).terms.metadata)) == metadata


def test_the_cards_own_cvc_does_not_hide_another_one():
    assert drafted(paid_order(metadata={"folio": 123})).terms
    assert refusal_of(paid_order(metadata={"cvc": "123"})).code == "SECURITY_CODE_NOT_ALLOWED"
    without = card()
    del without["cvc"]
    unused = {"type": "spei", "cardDetails": without}
    refusal = refusal_of(order(paymentMethod=unused, metadata={"cvc": "123"}))
    assert refusal.code == "SECURITY_CODE_NOT_ALLOWED"


@pytest.mark.parametrize("place", PLACES)
def test_a_card_number_is_refused_in_every_text_that_is_stored(place: str):
    refusal = refusal_of(PLACES[place]("4000 0000 0000 0002"))
    assert refusal.code == "CARD_NUMBER_NOT_ALLOWED"
    assert [error.field for error in refusal.errors] == [place]
    assert "0002" not in refusal.message


@pytest.mark.parametrize("place", [place for place in PLACES if place != "description"])
def test_a_control_character_is_refused_in_every_text_that_is_stored(place: str):
    for character in "\x00\x1b\x7f\x85":
        refusal = refusal_of(PLACES[place](f"a{character}b"))
        assert refusal.errors[0].field == place


@pytest.mark.parametrize("escaped", [True, False])
def test_a_card_number_is_found_behind_escapes_and_accents(escaped: bool):
    body = order(description="señor: 4000-0000-0000-0002", customer={"externalId": "josé"})
    text = json.dumps(body, ensure_ascii=escaped).replace("4000", "\\u0034000") if escaped else json.dumps(body)
    assert refusal_of(text.encode()).code == "CARD_NUMBER_NOT_ALLOWED"


@pytest.mark.parametrize(
    "metadata",
    [
        {"4000000000000002": 1},
        {"a": 4000000000000002},
        {"a": [{"b": "4000 0000 0000 0002"}]},
        {"a": 4000000000000002.0},
    ],
)
def test_a_card_number_is_found_in_keys_and_numbers_of_metadata(metadata: dict[str, Any]):
    assert refusal_of(order(metadata=metadata)).code == "CARD_NUMBER_NOT_ALLOWED"


@pytest.mark.parametrize("sign", ["\t", "\n", ",", "|", ":", "=", "\u200b"])
def test_a_card_number_is_found_in_metadata_whatever_is_between_its_groups(sign: str):
    groups = ["4000", "0000", "0000", "0002"]
    for metadata in ({"a": sign.join(groups)}, {sign.join(groups): 1}, {"a": groups}):
        assert refusal_of(order(metadata=metadata)).code == "CARD_NUMBER_NOT_ALLOWED"


def test_few_random_numbers_are_taken_for_cards():
    """Only a number with a card's first digits, its length and its check digit is one."""
    random = Random(11)
    ids = [str(random.randrange(10**15, 10**20)) for _ in range(20_000)]
    taken = [text for text in ids if contains_pan(text)]
    assert all(luhn.is_valid(text) and bins.is_issued(text) for text in taken)
    assert len(taken) < 200
    assert not any(contains_pan(repr(random.random() * scale)) for scale in (1, 10, 1e3) for _ in range(2_000))


def test_the_cards_own_number_is_found_in_another_field_too():
    for text in (APPROVED, "4242 4242 4242 4242"):
        assert refusal_of(paid_order(description=f"tarjeta {text}")).errors[0].field == "description"
        assert refusal_of(paid_order(customer={"externalId": text})).errors[0].field == "customer.externalId"


def test_a_card_number_behind_a_repeated_key_is_refused_with_it():
    twice = order(metadata={"a": "4000 0000 0000 0002", "b": "\u00e9"})
    body = json.dumps(twice).replace('"b"', '"a"').encode()
    assert refusal_of(body).errors[0].field == "metadata.a"


def test_a_card_number_in_an_ignored_field_is_ignored_with_it():
    assert drafted(order(unknown=APPROVED)) == drafted(order())


def test_the_parts_of_a_charge_are_searched_too():
    for body, field in (
        (charge(externalId=APPROVED), "externalId"),
        (charge(metadata={"a": APPROVED}), "metadata"),
        (charge(billingAddress={"city": APPROVED}), "billingAddress.city"),
        (
            charge(paymentMethod=by_card(cardDetails=card(cardholderName=APPROVED))),
            "paymentMethod.cardDetails.cardholderName",
        ),
    ):
        refusal = refusal_of(body, drafted_charge)
        assert (refusal.code, refusal.errors[0].field) == ("CARD_NUMBER_NOT_ALLOWED", field)


def test_prose_may_have_line_breaks_and_tabs():
    draft = drafted(
        order(description="uno\r\n\tdos", metadata={"nota": "uno\ndos"}, lineItems=[line(description="a\nb")])
    )
    assert draft.terms.description == "uno\r\n\tdos"
    assert refusal_of(order(customer={"externalId": "a", "firstName": "A\nB"})).errors[0].field == "customer.firstName"
    assert refusal_of(order(description="a\x00b")).errors[0].field == "description"


@pytest.mark.parametrize("repeated", ["44 ", "4", "4242 ", "a1", "+1"])
def test_a_long_text_of_digits_is_searched_in_the_time_of_its_length(repeated):
    """Eight times the length takes about eight times as long; a search from each digit on would take 64 times."""

    def fastest(length):
        text = (repeated * length)[:length]
        return min(timeit.repeat(lambda: contains_pan(text), number=1, repeat=5, timer=process_time))

    assert fastest(80_000) < 30 * fastest(10_000)


def test_a_harmless_order_is_parsed_whatever_its_escapes():
    body = order(customer={"externalId": "a", "firstName": 'José "Pepe" \\ Ñ', "phoneNumber": "+5215512345678"})
    assert drafted(json.dumps(body).encode()) == drafted(encoded(body))
    assert drafted(order(customer=ABSENT, customerId="a")).customer.id == "a"
