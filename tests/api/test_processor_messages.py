"""The route for processors' messages: they are signed and kept once, and every other caller gets the same error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import psycopg
import pytest
from tests.api.storefront import JSON, Merchant, Storefront, opened
from tests.databases import Databases

from ledger.processors.messages import DepositReceived, NoticeReceived, encode, sign
from ledger.security.secrets import load_processor_keys
from ledger.settings import Settings, SettingWrong

pytestmark = pytest.mark.anyio

OLD, NEW, OTHER = b"o" * 32, b"n" * 32, b"x" * 32
KEYS = f"stp:{OLD.hex()},stp:{NEW.hex()},other:{OTHER.hex()}"


@pytest.fixture(scope="module", params=["sandbox", "production"])
async def signed_store(settings: Settings, databases: Databases, request: Any) -> AsyncIterator[Storefront]:
    with databases.lent() as url:
        own = msgspec.structs.replace(settings, environment=request.param, processor_keys=KEYS, database_url=url)
        async with opened(own) as store:
            yield store


@pytest.fixture
async def merchant(signed_store: Storefront) -> Merchant:
    return await signed_store.register()


ABSENT = Merchant(uuid4(), "", httpx.AsyncClient())


def a_deposit(merchant: Merchant, **changes: Any) -> DepositReceived:
    said: dict[str, Any] = {
        "processor": "stp",
        "message_id": uuid4().hex,
        "merchant_id": merchant.merchant_id,
        "occurred_at": datetime.now(UTC),
        "reference": "646180110400000007",
        "amount": Decimal(5),
        "currency": "MXN",
        "processor_reference": "r",
    }
    return DepositReceived(**(said | changes))


def a_notice() -> NoticeReceived:
    """What only the address of an account takes."""
    about = {"processor": "stp", "message_id": "e", "merchant_id": uuid4(), "occurred_at": datetime.now(UTC)}
    return NoticeReceived(**about, kind="payment", object_id="p", body_hash="h")  # type: ignore[arg-type]


async def tell(
    merchant: Merchant, body: bytes, *keys: bytes, at: datetime | None = None, to: str = "stp", **headers: str
) -> httpx.Response:
    signed = sign(body, keys, at or datetime.now(UTC))
    sent = {"message-timestamp": signed.timestamp, "message-signature": signed.signature}
    return await merchant.client.post(f"/api/processor-messages/{to}", content=body, headers=JSON | sent | headers)


def kept(store: Storefront, message_id: str) -> int:
    assert store.settings.database_url is not None
    with psycopg.connect(store.settings.database_url) as connection:
        count = "select count(*) from processor_message where message_id = %s"
        return connection.execute(count, (message_id,)).fetchall()[0][0]


@pytest.mark.parametrize("keys", [(OLD,), (NEW,), (OLD, NEW), (OTHER, NEW)])
async def test_a_signed_message_is_kept_once(merchant: Merchant, signed_store: Storefront, keys: tuple[bytes, ...]):
    message = a_deposit(merchant)
    first, again = [await tell(merchant, encode(message), *keys) for _ in range(2)]
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json() == again.json() == {"accepted": True, "processorMessageId": message.message_id}
    assert kept(signed_store, message.message_id) == 1


async def test_every_message_that_fails_verification_gets_the_same_answer(merchant: Merchant, signed_store: Storefront):
    message = a_deposit(merchant)
    body, now = encode(message), datetime.now(UTC)
    answers = [
        await tell(merchant, body, OTHER),
        await tell(merchant, body),
        await tell(merchant, body, NEW, at=now - timedelta(minutes=6)),
        await tell(merchant, body, NEW, at=now + timedelta(minutes=6)),
        await tell(merchant, body, NEW, **{"message-timestamp": "now"}),
        await tell(merchant, body + b" ", NEW, **{"message-signature": sign(body, [NEW], now).signature}),
        await tell(merchant, body, OTHER, to="other"),
        await tell(merchant, body, NEW, to="nobody"),
        await tell(merchant, b"{", OTHER),
        await merchant.client.post("/api/processor-messages/stp", content=body, headers=JSON | merchant.key),
    ]
    said = {(a.status_code, a.json()["code"], a.json()["message"]) for a in answers}
    assert said == {
        (
            401,
            "INVALID_SIGNATURE",
            "The message is not signed with a key of its processor, or its timestamp is more than five minutes from the present.",
        )
    }
    assert kept(signed_store, message.message_id) == 0


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b"[]",
        b'{"type":"unknown"}',
        encode(a_deposit(ABSENT, message_id="a\x00")),
        encode(a_deposit(ABSENT, message_id="a" * 256)),
        encode(a_deposit(ABSENT, amount=Decimal(-1))),
        encode(a_deposit(ABSENT, amount=Decimal("1E+5"))),
        encode(a_deposit(ABSENT, message_id="")),
        encode(a_deposit(ABSENT, processor_reference="")),
        encode(a_notice()),
    ],
)
async def test_a_signed_body_that_is_not_a_message_is_a_400(merchant: Merchant, body: bytes):
    answer = await tell(merchant, body, NEW)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "body")


async def test_large_bodies_other_types_and_other_methods_are_refused(merchant: Merchant):
    assert (await tell(merchant, b" " * (16 << 10) + b"{}", NEW)).status_code == 413
    assert (await tell(merchant, b"{}", NEW, **{"content-type": "text/plain"})).status_code == 415
    assert (await merchant.client.get("/api/processor-messages/stp")).status_code == 405


@pytest.mark.parametrize("text", ["stp", "stp:12", "STP:" + "11" * 32, f":{'11' * 32}"])
def test_an_invalid_processor_key_stops_the_start(text: str):
    with pytest.raises(SettingWrong) as caught:
        load_processor_keys(Settings(processor_keys=text))
    assert "LEDGER_PROCESSOR_KEYS" in str(caught.value)
    assert "11" not in str(caught.value)
