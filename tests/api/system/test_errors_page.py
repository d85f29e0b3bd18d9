"""The page about errors: every refusal leads to the row of its code."""

from __future__ import annotations

import re

import pytest
from docs.generation.errors import known_codes
from tests.api.bodies import DECLINED, by_card, card, order, paid_order
from tests.api.storefront import ORDERS, Storefront

from ledger.service.http.http_messages import error_response_bytes

pytestmark = pytest.mark.anyio

PAGE = "http://127.0.0.1:8000/docs/errors"


async def test_every_code_has_a_row_with_its_statuses(store: Storefront):
    answer = await store.client.get("/docs/errors")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    rows = re.findall(r'<tr id="(\w+)"><td data-column="status">(.*?)</td>', answer.text)
    assert {code: tuple(map(int, statuses.split("<br>"))) for code, statuses in rows} == known_codes()
    assert "<code>REFUND_<wbr>AMOUNT_<wbr>EXCEEDS_<wbr>BALANCE</code>" in answer.text, "a code breaks between its words"


async def test_every_refusal_has_the_address_of_its_code(store: Storefront):
    merchant = await store.register()
    limited = await store.register(requests_per_minute=1)
    await limited.get(ORDERS)
    refusals = [
        await merchant.create(order(amount=0)),
        await merchant.create(paid_order(externalId="d", paymentMethod=by_card(cardDetails=card(number=DECLINED)))),
        await merchant.get(f"{ORDERS}/none"),
        await merchant.get("/nowhere"),
        await merchant.delete(ORDERS),
        await limited.get(ORDERS),
        await store.client.get(ORDERS),
        await merchant.post(ORDERS, b"x" * (300 << 10)),
        await merchant.post(ORDERS, b"{}", **{"content-type": "text/plain"}),
        await merchant.get(f"/{'x' * 9000}"),
    ]
    assert (await merchant.post("/api/sandbox/processor", {"mode": "DOWN"})).status_code == 200
    refusals.append(await merchant.create(paid_order(externalId="down")))
    assert [each.status_code for each in refusals] == [400, 422, 404, 404, 405, 429, 401, 413, 415, 414, 503]
    for each in refusals:
        assert each.json()["docUrl"] == f"{PAGE}#{each.json()['code']}"
    assert f'"docUrl":"{PAGE}#BAD_REQUEST"'.encode() in error_response_bytes(400, [], PAGE)
