"""The header Idempotency-Key over HTTP: the same answer again, byte by byte, and nothing done twice."""

from __future__ import annotations

import json

import pytest
from tests.api.bodies import DECLINED, by_card, card, charge, order, paid_order
from tests.api.storefront import ORDERS, Merchant

from api.http.idempotency_key import idempotency_key, idempotency_key_of_many
from ledger.slices import Slices

pytestmark = pytest.mark.anyio

KEY = {"idempotency-key": "5e0f-charge-1"}


async def test_a_created_order_is_answered_alike(merchant: Merchant) -> None:
    first = await merchant.post(ORDERS, paid_order(), **KEY)
    again = await merchant.post(ORDERS, paid_order(), **KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"


async def test_a_charge_that_was_declined_is_declined_again_without_asking_the_issuer(merchant: Merchant) -> None:
    await merchant.create(order())
    body = charge(paymentMethod=by_card(cardDetails=card(number=DECLINED)))
    first = await merchant.post(f"{ORDERS}/order-1/charge", body, **KEY)
    again = await merchant.post(f"{ORDERS}/order-1/charge", body, **KEY)
    assert (first.status_code, again.status_code) == (422, 422)
    told, told_again = first.json(), again.json()
    assert told.pop("requestId") != told_again.pop("requestId")
    assert told_again == told
    assert len(told["paymentOrder"]["payments"]) == 1


async def test_the_cvc_and_the_order_of_members_make_no_other_request(merchant: Merchant) -> None:
    body = paid_order()
    first = await merchant.post(ORDERS, body, **KEY)
    body["paymentMethod"]["cardDetails"]["cvc"] = "999"
    again = await merchant.post(ORDERS, json.dumps(dict(reversed(body.items())), indent=2).encode(), **KEY)
    assert again.content == first.content


def test_a_security_code_of_any_form_is_left_out_of_the_fingerprint() -> None:
    bodies = [json.dumps({"amount": 1, "cvc": cvc}).encode() for cvc in ("123", "12345", "1 2 3", 7, None)]
    keys = [idempotency_key(b"key", b"p" * 32, "POST", ORDERS, body) for body in bodies]
    assert len({key.fingerprint for key in keys}) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"amount": 150001},
        {"externalId": "order-2"},
        {"description": "another"},
        {"paymentMethod": by_card(cardDetails=card(number=DECLINED))},
    ],
)
async def test_another_body_under_the_same_key_is_a_conflict(merchant: Merchant, other: dict[str, object]) -> None:
    await merchant.post(ORDERS, paid_order(), **KEY)
    answer = await merchant.post(ORDERS, paid_order(**other), **KEY)
    assert answer.status_code == 409
    assert answer.json()["code"] == "IDEMPOTENCY_KEY_REUSED"


async def test_another_path_under_the_same_key_is_a_conflict(merchant: Merchant) -> None:
    for name in ("order-1", "order-2"):
        await merchant.create(order(externalId=name))
    await merchant.post(f"{ORDERS}/order-1/charge", charge(), **KEY)
    answer = await merchant.post(f"{ORDERS}/order-2/charge", charge(), **KEY)
    assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")


async def test_a_body_that_was_refused_leaves_the_key_free(merchant: Merchant) -> None:
    wrong = await merchant.post(ORDERS, paid_order(amount=-1), **KEY)
    right = await merchant.post(ORDERS, paid_order(), **KEY)
    assert (wrong.status_code, right.status_code) == (400, 201)
    assert "idempotent-replayed" not in right.headers


async def test_a_rejection_is_repeated_under_the_same_key(merchant: Merchant) -> None:
    await merchant.create(order(allowPartials=True))
    first = await merchant.post(f"{ORDERS}/order-1/charge", charge(amount=150001), **KEY)
    again = await merchant.post(f"{ORDERS}/order-1/charge", charge(amount=150001), **KEY)
    assert (first.status_code, again.status_code) == (422, 422)
    assert again.json()["amountPending"] == first.json()["amountPending"] == 150000
    assert again.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("key", ["", "x" * 256, "schlüssel", "a\tb"])
async def test_a_key_is_one_to_255_printable_ascii_characters(merchant: Merchant, key: str) -> None:
    headers = merchant.key | {"content-type": "application/json"}
    answer = await merchant.client.post(
        ORDERS,
        content=json.dumps(order()).encode(),
        headers=[
            *((name.encode(), value.encode()) for name, value in headers.items()),
            (b"Idempotency-Key", key.encode()),
        ],
    )
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "Idempotency-Key"


async def test_an_unrepresentable_number_in_an_ignored_member_is_a_400(merchant: Merchant) -> None:
    body = json.dumps(order())[:-1].encode() + b',"ignored":1e400}'
    answer = await merchant.post(ORDERS, body, **KEY)
    assert answer.status_code == 400


@pytest.mark.parametrize("key", ["4242424242424242", "pago 4242-4242-4242-4242", "4242.4242.4242.4242"])
async def test_a_card_number_is_no_key_and_is_kept_nowhere(
    merchant: Merchant, key: str, capfd: pytest.CaptureFixture[str]
) -> None:
    created = (await merchant.create(order())).json()
    for path, body in ((ORDERS, order(externalId="order-2")), (f"{ORDERS}/{created['id']}/cancel", {})):
        refused = await merchant.post(path, body, **{"idempotency-key": key})
        assert (refused.status_code, refused.json()["code"]) == (400, "CARD_NUMBER_NOT_ALLOWED")
        assert [error["field"] for error in refused.json()["errors"]] == ["Idempotency-Key"]
        assert "4242" not in refused.text
    assert (await merchant.get(f"{ORDERS}/order-2")).status_code == 404
    assert (await merchant.get(f"{ORDERS}/{created['id']}")).json()["status"] == "PENDING"
    assert "4242" not in "".join(capfd.readouterr())


async def test_keys_as_programs_generate_them_are_accepted(merchant: Merchant) -> None:
    for n, key in enumerate(("0198b2f6-7e29-7000-8000-000000000000", "2026-01-31T12:00:00.000Z", "1733412345678")):
        answer = await merchant.post(ORDERS, order(externalId=f"order-{n}"), **{"idempotency-key": key})
        assert answer.status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        b'{"products": []}',
        b'{"products": [{"b": 1, "a": [1.50, {"cvc": "123", "x": "\xc3\xa9"}]}, 7, null, "x"]}',
        b'{"zeta": {"b": 1, "a": 2}, "products": [{"id": "1"}], "alpha": "x", "cvc": "999"}',
        b'{"products": [{"id": "1"}], "products": [{"id": "2"}, {"id": "3", "price": 1e2}]}',
    ],
)
async def test_a_body_with_a_long_list_has_the_same_fingerprint_in_slices(body: bytes) -> None:
    expected = idempotency_key(b"key", b"pepper", "POST", "/lps/products/bulk-import", body)
    made = await idempotency_key_of_many(
        b"key", b"pepper", "POST", "/lps/products/bulk-import", body, "products", 1_000, Slices()
    )
    assert made == expected


async def test_an_entry_that_is_too_long_is_not_read_for_the_fingerprint() -> None:
    async def made(entry: bytes) -> str:
        body = b'{"products": [%b]}' % entry
        key = await idempotency_key_of_many(b"key", b"pepper", "POST", "/lps", body, "products", 20, Slices())
        return key.fingerprint

    number = b"1e" + b"9" * 20  # Python cannot represent it
    assert await made(number) == await made(b"2" + number[1:])
    assert await made(number) != await made(number + b"9")
