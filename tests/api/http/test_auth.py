"""Authentication: keys, merchants, scopes, and the order in which they are checked."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from tests.api.bodies import charge, order
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront
from tests.sources import nodes
from uuid_utils.compat import uuid7

from api.app import routes
from api.errors import ApiError
from api.http.auth import Authenticator
from api.http.dependencies import DependencyHolder
from api.http.endpoint import READ, WRITE, Endpoint
from ledger.domain.merchants.settings import MerchantSettings
from ledger.operations.context.inputs import Actor
from ledger.operations.merchants.api_keys import revoke_key
from ledger.operations.merchants.registration import change_settings
from ledger.postgres.faults import DatabaseUnavailable
from ledger.security.api_keys import PREFIXES, Scope, hash_key, new_key
from ledger.settings import Settings
from projections.merchants import FoundKey

PEPPER = b"p" * 32
NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)


class Shelf:
    """Keys as the read model would find them, and a clock."""

    def __init__(self) -> None:
        self.keys: dict[bytes, FoundKey] = {}
        self.questions = 0
        self.seconds = 0.0

    async def find(self, key_hash: bytes) -> FoundKey | None:
        self.questions += 1
        return self.keys.get(key_hash)

    def issue(self, environment: str = "sandbox", **changes: object) -> bytes:
        key = new_key(environment, PEPPER)
        self.keys[bytes.fromhex(key.key_hash)] = found(**changes)
        return key.secret.encode()

    def doorkeeper(self) -> Authenticator:
        return Authenticator(
            self.find,
            PEPPER,
            "sandbox",
            per_minute=100,
            per_second=10,
            now=lambda: NOON + timedelta(seconds=self.seconds),
            monotonic=lambda: self.seconds,
        )


def found(**changes: object) -> FoundKey:
    settings = MerchantSettings(
        require_merchant_header=bool(changes.pop("require_merchant_header", False)),
        requests_per_minute=0,
        requests_per_second=0,
    )
    fields = {
        "merchant_id": uuid7(),
        "key_id": uuid7(),
        "scopes": (),
        "expires_at": None,
        "revoked_at": None,
        "settings": settings,
    }
    return FoundKey(**(fields | changes))  # type: ignore[arg-type]


async def refusal(
    keys: Authenticator, headers: dict[bytes, bytes], scope: Scope = Scope.ORDERS_READ
) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        await keys.identify(headers, scope)
    return caught.value.status, caught.value.code


pytestmark = pytest.mark.anyio


def test_a_key_shows_its_environment_and_is_stored_as_a_keyed_hash():
    key = new_key("production", PEPPER)
    assert key.secret.startswith("sk_live_")
    assert key.secret.endswith(key.hint)
    assert key.key_hash == hash_key(key.secret, PEPPER) != hash_key(key.secret, b"q" * 32)
    assert key.secret not in key.key_hash
    assert len({new_key("sandbox", PEPPER).secret for _ in range(100)}) == 100


async def test_a_key_identifies_its_merchant():
    shelf = Shelf()
    merchant_id = uuid7()
    secret = shelf.issue(merchant_id=merchant_id)
    principal = await shelf.doorkeeper().identify({b"x-api-key": secret}, Scope.ORDERS_WRITE)
    assert principal.merchant_id == merchant_id
    assert str(principal.zone) == "America/Mexico_City"


@pytest.mark.parametrize(
    ("secret", "code"),
    [
        (None, "INVALID_API_KEY"),
        (b"", "INVALID_API_KEY"),
        (b"sk_test_nobody", "INVALID_API_KEY"),
        (b"sk_test_" + b"x" * 10_000, "INVALID_API_KEY"),
        (b"sk_test_\xff\x00", "INVALID_API_KEY"),
        (b"pk_test_abc", "INVALID_API_KEY"),
        (b"sk_live_abc", "KEY_ENVIRONMENT_MISMATCH"),
    ],
)
async def test_an_invalid_key_is_a_401(secret: bytes | None, code: str):
    headers = {} if secret is None else {b"x-api-key": secret}
    assert await refusal(Shelf().doorkeeper(), headers) == (401, code)


async def test_a_key_of_the_other_environment_is_not_even_looked_up():
    shelf = Shelf()
    secret = shelf.issue("production")
    assert await refusal(shelf.doorkeeper(), {b"x-api-key": secret}) == (401, "KEY_ENVIRONMENT_MISMATCH")
    assert shelf.questions == 0


async def test_a_key_ends_when_it_expires_even_while_it_is_remembered():
    shelf = Shelf()
    keys = shelf.doorkeeper()
    secret = shelf.issue(expires_at=NOON + timedelta(seconds=1))
    assert await keys.identify({b"x-api-key": secret}, Scope.ORDERS_READ)
    shelf.seconds = 1
    assert await refusal(keys, {b"x-api-key": secret}) == (401, "KEY_EXPIRED")
    assert shelf.questions == 1


async def test_a_revoked_key_works_for_at_most_three_more_seconds():
    shelf = Shelf()
    keys = shelf.doorkeeper()
    secret = shelf.issue()
    assert await keys.identify({b"x-api-key": secret}, Scope.ORDERS_READ)
    shelf.keys[bytes.fromhex(hash_key(secret.decode(), PEPPER))] = found(revoked_at=NOON)
    shelf.seconds = 3
    assert await refusal(keys, {b"x-api-key": secret}) == (401, "INVALID_API_KEY")


async def test_a_found_key_is_looked_up_once():
    shelf = Shelf()
    keys = shelf.doorkeeper()
    secret = shelf.issue()
    for _ in range(5):
        await keys.identify({b"x-api-key": secret}, Scope.ORDERS_READ)
        await refusal(keys, {b"x-api-key": b"sk_test_wrong"})
    assert shelf.questions == 2


async def test_so_many_keys_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("api.http.auth._CACHED_MAX", 3)
    shelf = Shelf()
    keys = shelf.doorkeeper()
    for n in range(10):
        await refusal(keys, {b"x-api-key": b"sk_test_wrong-%d" % n})
        assert len(keys._cached) <= 3
    assert shelf.questions == 10
    await refusal(keys, {b"x-api-key": b"sk_test_wrong-9"})
    assert shelf.questions == 10, "the latest are remembered"


async def test_a_key_does_only_what_it_was_issued_for():
    shelf = Shelf()
    keys = shelf.doorkeeper()
    secret = shelf.issue(scopes=("orders:read",))
    assert await keys.identify({b"x-api-key": secret}, Scope.ORDERS_READ)
    assert await refusal(keys, {b"x-api-key": secret}, Scope.ORDERS_WRITE) == (401, "INSUFFICIENT_SCOPE")


async def test_the_merchant_header_has_to_agree_with_the_key():
    shelf = Shelf()
    keys = shelf.doorkeeper()
    merchant_id = uuid7()
    key = {b"x-api-key": shelf.issue(merchant_id=merchant_id)}
    for spelled in (str(merchant_id), str(merchant_id).upper(), f" {merchant_id} "):
        assert await keys.identify(key | {b"x-merchant-id": spelled.encode()}, Scope.ORDERS_READ)
    for wrong in (str(uuid4()), "", "\xff", str(merchant_id)[:-1]):
        headers = key | {b"x-merchant-id": wrong.encode("latin-1")}
        assert await refusal(keys, headers) == (404, "MERCHANT_NOT_FOUND")


async def test_a_merchant_may_insist_on_the_header():
    shelf = Shelf()
    secret = shelf.issue(require_merchant_header=True)
    assert await refusal(shelf.doorkeeper(), {b"x-api-key": secret}) == (400, "VALIDATION_ERROR")


SECRETS = {"api_key", "fingerprint", "key_hash", "mac", "password", "pepper", "secret", "signature", "token"}


def test_secrets_are_never_compared_with_an_equals_sign():
    """Anywhere in the program: the time of such a comparison shows how much of a guess is right."""
    for path, node in nodes(*SECRETS):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            compared = [getattr(each, "id", getattr(each, "attr", "")) for each in (node.left, *node.comparators)]
            assert not SECRETS.intersection(compared), f"{path}:{node.lineno} {ast.unparse(node)}"


async def test_what_was_found_before_a_change_is_not_cached():
    shelf = Shelf()
    secret = shelf.issue()

    class Slow(Shelf):
        async def find(self, key_hash: bytes) -> FoundKey | None:
            found = await shelf.find(key_hash)
            keys.forget(found.merchant_id if found else None)  # the notification comes while the answer is under way
            return found

    slow = Slow()
    keys = slow.doorkeeper()
    assert await keys.identify({b"x-api-key": secret}, Scope.ORDERS_READ)
    shelf.keys[bytes.fromhex(hash_key(secret.decode(), PEPPER))] = found(revoked_at=NOON)
    assert await refusal(keys, {b"x-api-key": secret}) == (401, "INVALID_API_KEY")


def test_the_prefixes_differ():
    assert sorted(PREFIXES.values()) == ["sk_live_", "sk_test_"]


# ------------------------------------------------------------------ over HTTP


async def test_the_checks_come_in_the_contracts_order(store: Storefront):
    merchant = await store.register(requests_per_minute=1, requests_per_second=1)
    wrong_merchant = {"x-merchant-id": str(uuid4())}
    broken = {"content": b"{", "headers": {**JSON}}

    async def post(path: str, **headers: str) -> tuple[int, str]:
        answer = await store.client.post(path, content=broken["content"], headers=JSON | headers)
        return answer.status_code, answer.json()["code"]

    path = f"{ORDERS}/nobody/charge"
    assert await post(path, **wrong_merchant) == (401, "INVALID_API_KEY")
    assert await post(path, **merchant.key, **wrong_merchant) == (404, "MERCHANT_NOT_FOUND")
    assert await post(path, **merchant.key) == (400, "VALIDATION_ERROR")
    assert await post(path, **merchant.key) == (429, "RATE_LIMIT_EXCEEDED")
    unlimited = await store.register()
    assert (await unlimited.post(path, charge())).status_code == 404
    await unlimited.create(order())
    await unlimited.post(f"{ORDERS}/order-1/charge", charge())
    assert (await unlimited.post(f"{ORDERS}/order-1/charge", charge())).status_code == 409


async def test_every_route_asks_for_a_key(store: Storefront):
    for method, path in (("GET", ORDERS), ("POST", ORDERS), ("GET", f"{ORDERS}/x"), ("POST", f"{ORDERS}/x/charge")):
        for headers in ({}, {"x-api-key": "sk_test_wrong"}):
            answer = await store.client.request(method, path, headers=headers)
            assert answer.status_code == 401
            assert answer.json()["message"]


SCOPES = {  # the beginning of a path: the scope of what reads there, and of what changes something
    "/api/v2/payment-orders": (READ, WRITE),
    "/api/sandbox/": (READ, WRITE),
    "/api/v1/api-keys": (Scope.KEYS, Scope.KEYS),
    "/api/v1/merchant": (Scope.SETTINGS, Scope.SETTINGS),
    "/api/v1/processor-accounts": (Scope.PROCESSORS, Scope.PROCESSORS),
    "/api/v1/invoices": (Scope.FISCAL, Scope.FISCAL),
    "/api/v1/events": (Scope.EVENTS_READ, Scope.WEBHOOKS),
    "/api/v1/audits": (Scope.AUDIT, Scope.AUDIT),
    "/api/v1/log": (Scope.AUDIT, Scope.AUDIT),
    "/api/v1/webhook-endpoints": (Scope.WEBHOOKS, Scope.WEBHOOKS),
    "/api/v1/meta": (None, None),
    "/api/v1/summary": (Scope.AUDIT, Scope.AUDIT),
    "/api/payment-methods": (Scope.CUSTOMERS_READ, Scope.CUSTOMERS_WRITE),
    "/api/customers": (Scope.CUSTOMERS_READ, Scope.CUSTOMERS_WRITE),
    "/lps/products": (Scope.PRODUCTS, Scope.PRODUCTS),
    "/api/v1/plans": (Scope.SUBSCRIPTIONS, Scope.SUBSCRIPTIONS),
    "/api/v1/subscription": (Scope.SUBSCRIPTIONS, Scope.SUBSCRIPTIONS),
}


def test_every_operation_needs_the_scope_of_its_resource():
    for route in routes(Settings(), DependencyHolder()):
        if isinstance(route.endpoint, Endpoint):
            (scopes,) = [scopes for prefix, scopes in SCOPES.items() if route.path.startswith(prefix)]
            if route.path.endswith(("/stamp", "/cfdi-url", "/cfdi-cancel", "/self-invoice-url")):
                scopes = (Scope.FISCAL, Scope.FISCAL)
            if route.path.endswith(("}/events", "/explain")):
                scopes = (Scope.AUDIT, Scope.AUDIT)
            for method, operation in route.endpoint.operations.items():
                assert operation.scope is scopes[method != "GET"], f"{method} {route.path}"


async def test_two_keys_live_side_by_side_until_one_is_revoked(store: Storefront, merchant: Merchant):
    second = await store.another_key(merchant, name="new")
    assert (await merchant.get(ORDERS)).status_code == (await second.get(ORDERS)).status_code == 200
    reader = await store.another_key(merchant, scopes=("orders:read",))
    assert (await reader.get(ORDERS)).status_code == 200
    refused = await reader.create(order())
    assert (refused.status_code, refused.json()["code"]) == (401, "INSUFFICIENT_SCOPE")
    keys = (await store.ledger.merchant(merchant.merchant_id)).keys
    await revoke_key(store.ledger, Actor(merchant_id=merchant.merchant_id), keys[0].key_id)


async def test_the_header_can_be_made_compulsory(store: Storefront, merchant: Merchant):
    await change_settings(store.ledger, Actor(merchant_id=merchant.merchant_id), {"require_merchant_header": True})
    answer = await merchant.get(ORDERS)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "x-merchant-id"
    assert (await merchant.get(ORDERS, **{"x-merchant-id": str(merchant.merchant_id)})).status_code == 200


async def test_the_use_of_a_key_is_noted_where_it_is_looked_up_and_written_once():
    book = Shelf()
    doorkeeper, written = book.doorkeeper(), list[dict[UUID, datetime]]()

    async def write(uses: Mapping[UUID, datetime]) -> None:
        written.append(dict(uses))

    async def fail(_: Mapping[UUID, datetime]) -> None:
        raise DatabaseUnavailable("away")

    await doorkeeper.write_uses(fail)  # nothing was used, so nothing is written
    used, old = book.issue(), book.issue(expires_at=NOON)
    principal = await doorkeeper.identify({b"x-api-key": used}, None)
    with pytest.raises(ApiError):
        await doorkeeper.identify({b"x-api-key": old}, None)
    book.seconds += 1
    await doorkeeper.identify({b"x-api-key": used}, None)
    with pytest.raises(DatabaseUnavailable):
        await doorkeeper.write_uses(fail)
    await doorkeeper.write_uses(write)
    await doorkeeper.write_uses(write)
    assert written == [{principal.key_id: NOON}]
