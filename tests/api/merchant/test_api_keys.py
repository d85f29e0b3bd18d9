"""API keys over HTTP: listed, created, rotated and revoked by a key that may, and effective in every process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from tests.api.openapi.description import assert_described
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront, opened

from api.http.auth import Authenticator
from api.merchant.create_key import CREATE_KEY
from api.merchant.rotate_key import ROTATE_KEY
from ledger.operations.context.inputs import Actor
from ledger.operations.merchants.api_keys import revoke_key
from ledger.operations.merchants.registration import close_merchant
from ledger.security.api_keys import Scope, new_key
from ledger.settings import Settings
from projections.queries import Queries

pytestmark = pytest.mark.anyio

KEYS = "/api/v1/api-keys"
META = "/api/v1/meta"
ONE = f"{KEYS}/{{id}}"
TOGETHER = {"idempotency-key": "rotation-1"}


async def delete(merchant: Merchant, key_id: str, **headers: str) -> httpx.Response:
    return await merchant.client.delete(f"{KEYS}/{key_id}", headers=merchant.key | headers)


def holder(merchant: Merchant, answer: httpx.Response) -> Merchant:
    """The merchant with the key that an answer shows."""
    return Merchant(merchant.merchant_id, answer.json()["secret"], merchant.client)


async def code_of(merchant: Merchant) -> tuple[int, str | None]:
    answer = await merchant.get(META)
    return answer.status_code, answer.json().get("code")


async def test_a_new_key_is_shown_once_and_works(merchant: Merchant):
    created = await merchant.post(KEYS, {"name": "reports", "scopes": ["ORDERS:READ", "keys"]})
    assert created.status_code == 201
    assert_described(created, "post", KEYS)
    document = created.json()
    secret = document.pop("secret")
    assert document["scopes"] == ["keys", "orders:read"]
    assert (document["name"], document["hint"], document["status"]) == ("reports", secret[-4:], "ACTIVE")
    limited = holder(merchant, created)
    listed = await limited.get(KEYS)
    assert_described(listed, "get", KEYS)
    assert secret not in listed.text
    first, second = listed.json()["data"]
    assert second == document
    assert (first["scopes"], first["name"]) == (None, None)
    assert (await limited.get(f"{KEYS}/{second['id']}")).json() == document
    assert (await limited.get(ORDERS)).status_code == 200
    refused = await limited.post(ORDERS, {})
    assert (refused.status_code, refused.json()["code"]) == (401, "INSUFFICIENT_SCOPE")


async def test_a_key_without_the_scope_manages_no_keys(store: Storefront, merchant: Merchant):
    others = await store.another_key(merchant, scopes=[scope for scope in Scope if scope is not Scope.KEYS])
    key_id = (await merchant.get(KEYS)).json()["data"][0]["id"]
    for answer in (
        await others.get(KEYS),
        await others.get(f"{KEYS}/{key_id}"),
        await others.post(KEYS, {}),
        await others.post(f"{KEYS}/{key_id}/rotate", {}),
        await delete(others, key_id),
    ):
        assert (answer.status_code, answer.json()["code"]) == (401, "INSUFFICIENT_SCOPE")


async def test_no_key_gives_what_it_does_not_have(store: Storefront, merchant: Merchant):
    soon = datetime.now(UTC) + timedelta(hours=1)
    limited = await store.another_key(merchant, scopes=["keys", "orders:read"], expires_at=soon)
    whole = (await merchant.get(KEYS)).json()["data"][0]["id"]
    inside = {"scopes": ["orders:read"], "expiresAt": soon.isoformat()}
    assert (await limited.post(KEYS, inside)).status_code == 201
    for body, status, code in (
        (inside | {"scopes": ["orders:read", "settings"]}, 401, "INSUFFICIENT_SCOPE"),
        ({"expiresAt": soon.isoformat()}, 401, "INSUFFICIENT_SCOPE"),
        (inside | {"expiresAt": (soon + timedelta(seconds=1)).isoformat()}, 400, "VALIDATION_ERROR"),
        ({"scopes": ["orders:read"]}, 400, "VALIDATION_ERROR"),
        (inside | {"permissions": ["orders:read"]}, 400, "UNKNOWN_FIELD"),
    ):
        answer = await limited.post(KEYS, body)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert_described(answer, "post", KEYS)
    rotated = await limited.post(f"{KEYS}/{whole}/rotate", {})
    assert (rotated.status_code, rotated.json()["code"]) == (401, "INSUFFICIENT_SCOPE")
    assert len((await merchant.get(KEYS)).json()["data"]) == 3


async def test_a_rotated_key_works_until_its_time_is_over(merchant: Merchant):
    old_id = (await merchant.get(META)).json()["apiKey"]["id"]
    rotated = await merchant.post(f"{KEYS}/{old_id}/rotate", b"")
    assert rotated.status_code == 201
    assert_described(rotated, "post", f"{ONE}/rotate")
    document = rotated.json()
    assert (document["replaced"]["id"], document["replaced"]["replacedBy"]) == (old_id, document["id"])
    left = datetime.fromisoformat(document["replaced"]["expiresAt"]) - datetime.now(UTC)
    assert timedelta(hours=23) < left < timedelta(hours=25)
    new = holder(merchant, rotated)
    assert (await code_of(merchant), await code_of(new)) == ((200, None), (200, None))
    again = await new.post(f"{KEYS}/{old_id}/rotate", {"overlapSeconds": 0, "name": "again"})
    assert again.json()["name"] == "again"
    assert await code_of(merchant) == (401, "KEY_EXPIRED")
    ended = await new.post(f"{KEYS}/{old_id}/rotate", {})
    assert (ended.status_code, ended.json()["code"]) == (409, "API_KEY_NOT_ACTIVE")
    assert_described(ended, "post", f"{ONE}/rotate")


async def test_a_revoked_key_stays_so_and_the_last_one_stays(merchant: Merchant):
    own = (await merchant.get(META)).json()["apiKey"]["id"]
    last = await delete(merchant, own)
    assert (last.status_code, last.json()["code"]) == (409, "LAST_API_KEY")
    assert_described(last, "delete", ONE)
    lesser = holder(merchant, await merchant.post(KEYS, {"scopes": ["keys"]}))
    assert (await delete(lesser, own)).json()["code"] == "LAST_API_KEY"
    new = holder(merchant, await merchant.post(KEYS, {}))
    revoked = await delete(new, own)
    assert revoked.status_code == 200
    assert_described(revoked, "delete", ONE)
    assert (revoked.json()["deleted"], revoked.json()["status"]) == (True, "REVOKED")
    assert await code_of(merchant) == (401, "INVALID_API_KEY")
    again = await delete(new, own)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert again.content == revoked.content


@pytest.mark.parametrize("key_id", ["x", "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44", "%00", "%F0%28"])
async def test_an_unknown_key_is_not_found(merchant: Merchant, key_id: str):
    for answer in (
        await merchant.get(f"{KEYS}/{key_id}"),
        await delete(merchant, key_id),
        await merchant.post(f"{KEYS}/{key_id}/rotate", {}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "API_KEY_NOT_FOUND")


async def test_a_repeated_creation_makes_no_second_key_and_shows_no_secret(merchant: Merchant):
    body = {"name": "shop"}
    first = await merchant.post(KEYS, body, **TOGETHER)
    again = await merchant.post(KEYS, body, **TOGETHER)
    assert (first.status_code, again.status_code) == (201, 201)
    assert_described(again, "post", KEYS)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json() | {"secret": None}
    other = await merchant.post(KEYS, {"name": "another"}, **TOGETHER)
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert len((await merchant.get(KEYS)).json()["data"]) == 2


async def test_a_repeated_rotation_and_revocation_answer_alike(merchant: Merchant):
    old_id = (await merchant.get(META)).json()["apiKey"]["id"]
    first = await merchant.post(f"{KEYS}/{old_id}/rotate", {}, **TOGETHER)
    again = await merchant.post(f"{KEYS}/{old_id}/rotate", {}, **TOGETHER)
    assert again.json() == first.json() | {"secret": None}
    new_id, spare_id = first.json()["id"], (await holder(merchant, first).post(KEYS, {})).json()["id"]
    key = {"idempotency-key": "revocation-1"}
    revoked = await delete(merchant, new_id, **key)
    assert (revoked.status_code, (await delete(merchant, new_id, **key)).content) == (200, revoked.content)
    assert [entry["id"] for entry in (await merchant.get(KEYS)).json()["data"]] == [old_id, new_id, spare_id]


async def test_the_same_creation_at_once_makes_one_key(merchant: Merchant):
    answers = await asyncio.gather(*[merchant.post(KEYS, {"name": "shop"}, **TOGETHER) for _ in range(8)])
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert len([answer for answer in answers if answer.status_code == 201 and answer.json()["secret"]]) == 1
    assert len((await merchant.get(KEYS)).json()["data"]) == 2


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"name": 1, "scopes": ["orders:eat", "keys", "x"], "expiresAt": "soon"},
         ["name", "scopes[0]", "scopes[2]", "expiresAt"]),
        ({"name": "", "scopes": []}, ["name", "scopes"]),
        ({"name": "a\nb", "scopes": "keys", "expiresAt": "2020-01-01T00:00:00Z"}, ["name", "scopes", "expiresAt"]),
        ({"name": "x" * 256, "scopes": [1]}, ["name", "scopes[0]"]),
        ({"expiresAt": "9999-12-31T23:59:59-14:00"}, ["expiresAt"]),
        ([], ["body"]),
    ],
)  # fmt: skip
async def test_every_wrong_field_is_named(merchant: Merchant, body: Any, fields: list[str]):
    answer = await merchant.post(KEYS, body)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert [error["field"] for error in answer.json()["errors"]] == fields
    assert_described(answer, "post", KEYS)


async def test_a_key_is_not_named_by_a_card_number(merchant: Merchant):
    answer = await merchant.post(KEYS, {"name": "4242 4242 4242 4242", "scopes": ["x"]})
    assert (answer.status_code, answer.json()["code"]) == (400, "CARD_NUMBER_NOT_ALLOWED")
    assert [error["field"] for error in answer.json()["errors"]] == ["name", "scopes[0]"]


async def test_every_wrong_field_of_a_rotation_is_named(merchant: Merchant):
    key_id = (await merchant.get(META)).json()["apiKey"]["id"]
    body = {"overlapSeconds": 604801, "name": [], "expiresAt": "2020-01-01T00:00:00Z"}
    answer = await merchant.post(f"{KEYS}/{key_id}/rotate", body)
    assert [error["field"] for error in answer.json()["errors"]] == ["overlapSeconds", "name", "expiresAt"]


async def test_the_examples_work(merchant: Merchant):
    for example in CREATE_KEY.spec.examples.values():
        created = await merchant.post(KEYS, example["value"])
        assert created.status_code == 201
        for rotation in ROTATE_KEY.spec.examples.values():
            path = f"{KEYS}/{created.json()['id']}/rotate"
            assert (await merchant.post(path, rotation["value"])).status_code == 201


@pytest.fixture
async def second(settings: Settings, store: Storefront) -> AsyncIterator[Storefront]:
    """Another instance of the application, as another process has it, over the same database."""
    async with opened(settings) as storefront:
        yield storefront


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - the condition is a request
            await asyncio.sleep(0.01)


@pytest.fixture
def believing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are cached for an hour: what ends before, ends by the notification."""
    monkeypatch.setattr("api.http.auth._TTL_S", 3600.0)


async def test_a_revoked_key_is_refused_by_every_instance(merchant: Merchant, second: Storefront, believing: None):
    new = holder(merchant, await merchant.post(KEYS, {}))
    there = Merchant(merchant.merchant_id, new.secret, second.client)
    assert (await code_of(new), await code_of(there)) == ((200, None), (200, None))
    assert (await delete(merchant, (await new.get(META)).json()["apiKey"]["id"])).status_code == 200
    assert await code_of(new) == (401, "INVALID_API_KEY")  # this instance knows at once

    async def refused() -> bool:
        return await code_of(there) == (401, "INVALID_API_KEY")

    await until(refused)


async def test_a_rotation_and_a_setting_reach_every_instance(merchant: Merchant, second: Storefront, believing: None):
    there = Merchant(merchant.merchant_id, merchant.secret, second.client)
    assert await code_of(there) == (200, None)
    settings = {"settings": {"requireMerchantHeader": True}}
    changed = await merchant.client.put("/api/v1/merchant", json=settings, headers=merchant.key)
    assert changed.status_code == 200

    async def requires() -> bool:
        return (await code_of(there))[0] == 400

    await until(requires)
    named = {"x-merchant-id": str(merchant.merchant_id)}
    own = (await there.get(META, **named)).json()["apiKey"]["id"]
    assert (await merchant.post(f"{KEYS}/{own}/rotate", {"overlapSeconds": 0}, **named)).status_code == 201

    async def expired() -> bool:
        return (await there.get(META, **named)).json().get("code") == "KEY_EXPIRED"

    await until(expired)


async def test_an_operators_command_reaches_the_service(store: Storefront, merchant: Merchant, believing: None):
    assert await code_of(merchant) == (200, None)
    (key,) = (await store.ledger.merchant(merchant.merchant_id)).keys
    await revoke_key(store.ledger, Actor(merchant_id=merchant.merchant_id), key.key_id)

    async def refused() -> bool:
        return await code_of(merchant) == (401, "INVALID_API_KEY")

    await until(refused)


async def test_the_keys_of_a_closed_merchant_are_refused(store: Storefront, merchant: Merchant, believing: None):
    assert await code_of(merchant) == (200, None)
    await close_merchant(store.ledger, Actor(merchant_id=merchant.merchant_id))

    async def refused() -> bool:
        return await code_of(merchant) == (401, "INVALID_API_KEY")

    await until(refused)


async def test_a_key_that_was_revoked_meanwhile_makes_no_other(
    store: Storefront, merchant: Merchant, monkeypatch: pytest.MonkeyPatch
):
    """Even a process that was not notified: the commit decides."""
    monkeypatch.setattr(Authenticator, "forget", lambda *_: None)
    assert await code_of(merchant) == (200, None)
    (key,) = (await store.ledger.merchant(merchant.merchant_id)).keys
    await revoke_key(store.ledger, Actor(merchant_id=merchant.merchant_id), key.key_id)
    answer = await merchant.client.post(KEYS, content=b"{}", headers=merchant.key | JSON)
    assert (answer.status_code, answer.json()["code"]) == (401, "INVALID_API_KEY")


def test_a_new_key_belongs_to_the_environment():
    assert new_key("production", b"p" * 32).secret.startswith("sk_live_")


async def test_the_last_use_of_a_key_is_shown_and_never_moves_back(store: Storefront, settings: Settings):
    merchant = await store.register()
    created = await merchant.post(KEYS, {"name": "reports"})
    assert created.json()["lastUsedAt"] is None
    key_id, at = UUID(created.json()["id"]), datetime(2026, 1, 2, tzinfo=UTC)
    assert settings.database_url is not None
    queries = Queries(settings.database_url)
    await queries.start()
    for days in (0, 1, -1):
        await queries.write_key_uses({key_id: at + timedelta(days=days)})
    await queries.stop()
    shown = await merchant.get(f"{KEYS}/{key_id}")
    assert shown.json()["lastUsedAt"] == "2026-01-03T00:00:00.000Z"
    assert_described(shown, "get", ONE)
    revoked = await delete(merchant, str(key_id))
    assert "lastUsedAt" not in revoked.json()


async def test_a_process_writes_the_uses_that_it_has_seen_before_it_ends(store: Storefront, settings: Settings):
    merchant = await store.register()
    async with opened(settings) as other:
        used = Merchant(merchant.merchant_id, merchant.secret, other.client)
        before = datetime.now(UTC).isoformat()
        assert (await used.get(META)).status_code == 200
    (key,) = (await merchant.get(KEYS)).json()["data"]
    assert before[:19] <= key["lastUsedAt"]


async def test_a_creation_that_makes_no_key_does_not_use_up_the_rate_of_new_keys(merchant: Merchant):
    for _ in range(70):
        assert (await merchant.post(f"{KEYS}/{uuid4()}/rotate", {})).status_code == 404
        assert (await merchant.post(KEYS, {"name": "shop"}, **TOGETHER)).status_code == 201
    assert (await merchant.post(KEYS, {"name": "another"})).status_code == 201
