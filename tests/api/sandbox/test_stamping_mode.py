"""The sandbox's stamping provider, set to refuse or to fail for one merchant alone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.storefront import Merchant, Storefront
from tests.invoicing.conftest import to_stamp

from ledger.invoicing.contract import ProviderUnavailable, Refused
from ledger.invoicing.providers.sandbox import REFUSAL

pytestmark = pytest.mark.anyio

MODE = "/api/sandbox/stamping"
WORDS = {"code": "CFDI40999", "message": "Palabras del proveedor."}


async def test_a_provider_refuses_with_the_words_it_was_given_or_its_own_or_is_down(
    store: Storefront, merchant: Merchant
):
    assert store.ledger.invoicing
    provider = store.ledger.invoicing.provider
    assert provider
    asked = to_stamp(b"not read in these modes", merchant_id=merchant.merchant_id)
    answer = await merchant.post(MODE, {"mode": "REFUSE", "times": 1, **WORDS})
    assert (answer.status_code, answer.json()) == (200, {"mode": "REFUSE", "times": 1, **WORDS})
    assert await provider.stamp(asked) == Refused(**WORDS)
    answer = await merchant.post(MODE, {"mode": "REFUSE"})
    own = {"code": REFUSAL.code, "message": REFUSAL.message}
    assert answer.json() == {"mode": "REFUSE", "times": None, **own}
    assert await provider.stamp(asked) == REFUSAL
    await merchant.post(MODE, {"mode": "DOWN"})
    with pytest.raises(ProviderUnavailable):
        await provider.stamp(asked)
    answer = await merchant.post(MODE, {"mode": "OK"})
    assert answer.json() == {"mode": "OK", "times": None, "code": None, "message": None}
    assert await provider.stamp(asked) == Refused(code="301", message="XML mal formado.")


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["mode"]),
        ({"mode": "SLOW"}, ["mode"]),
        ({"mode": "REFUSE", "times": 0}, ["times"]),
        ({"mode": "OK", **WORDS}, ["mode", "code", "message"]),
        ({"mode": "REFUSE", "code": "x" * 256}, ["code"]),
        ({"mode": "REFUSE", "code": "a\nb", "message": "4242 4242 4242 4242"}, ["code", "message"]),
    ],
)
async def test_an_invalid_mode_is_refused_with_every_wrong_field(merchant: Merchant, body: Any, fields: list[str]):
    answer = await merchant.post(MODE, body)
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["errors"]] == fields
