"""No card number and no security code leaves the vault (reliability.md T21): not into an answer, a log line, a metric,
a table, the WAL or a log of Postgres, wherever a request carries it, also where the service fails.

Nor does a key of a merchant's account with a processor, a secret of its messages, a secret of a webhook endpoint, or a
token of a card.
"""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace
from prometheus_client import generate_latest
from tests.api.bodies import by_card, card, paid_order
from tests.api.payment_methods import flood
from tests.api.payment_methods.flood import CVC, card_number, found_in
from tests.api.storefront import Merchant, Storefront, opened
from tests.processors.stripe.double import FAILS_BEFORE, Double
from tests.processors.stripe.test_tokens import method

from ledger.postgres.prepare import prepare
from ledger.settings import Settings
from ledger.telemetry.logs import configure_logs
from ledger.telemetry.metrics import REGISTRY

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(database_url: str) -> Settings:
    """An installation with the roles of production: the application's and the vault's."""
    wanted = Settings(
        database_url=database_url, master_key="11" * 32, sandbox_deadline_s=0.2, processor_timeout_s=15.0,
        request_timeout_s=20.0, access_log="on",
    )  # fmt: skip
    return prepare(wanted, database_url)


@pytest.fixture
def logs() -> Iterator[io.StringIO]:
    """The log lines of an installation, the finest included, in the format of `configure_logs`."""
    before, lines = structlog.get_config(), io.StringIO()
    configure_logs("debug")
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(lines), cache_logger_on_first_use=False)  # type: ignore[arg-type]
    _forget_loggers()
    yield lines
    structlog.configure(**before)


def _forget_loggers() -> None:
    """Lets every module's logger find the configuration again: an earlier test may have let it keep another."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("api.", "ledger.")) and hasattr(module, "_log"):
            vars(module._log).pop("bind", None)


async def failures(store: Storefront, merchant: Merchant, numbers: list[str], patch: pytest.MonkeyPatch) -> bytes:
    """Sends numbers to a service that fails with them in the text of its exception. Returns what was answered."""
    answers = []

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"cannot process {numbers[0]} {CVC}: {sys._getframe(1).f_locals}")

    places = (
        "ledger.operations.orders.create.new_payment",
        "ledger.operations.orders.create.decide_with_card",
        "ledger.vault.vault.seal_card",
        "ledger.processors.sandbox.processor.authorizations.card_effect",
    )
    for at, place in enumerate(places):
        with patch.context() as patched:
            patched.setattr(place, fails)
            method = by_card(cardDetails=card(number=numbers[at], cvc=CVC), persist=True)
            answers.append(await merchant.create(paid_order(externalId=f"fails-{at}", paymentMethod=method)))
    assert [answer.status_code for answer in answers] == [500, 500, 500, 201]
    return b"\n".join(answer.content for answer in answers)


async def leaks(
    settings: Settings,
    url: str,
    count: int,
    patch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    lines: io.StringIO,
    directory: Path,
) -> tuple[dict[str, set[str]], list[str]]:
    """Floods the service and returns what was found where, with the numbers."""
    draw = random.Random()
    numbers = [card_number(draw) for _ in range(count)]
    since = flood.wal_position(url)
    async with opened(settings) as store:
        merchant = await store.register()
        answers = await flood.flood(merchant, numbers[4:])
        answers += await failures(store, merchant, numbers[:4], patch)
        for _ in range(2):
            await merchant.get("/api/customers/ana/payment-methods")
        events = (await merchant.get("/api/v1/events?limit=1000")).content  # the bytes that webhooks have
    assert b'"payment_method.saved"' in events
    assert b'"payment.captured"' in events
    written = capfd.readouterr()
    places = {
        "answers": answers,
        "public events": events,
        "log lines": (written.out + written.err + lines.getvalue()).encode(),
        "metrics": generate_latest(REGISTRY),
        "Postgres' log": flood.files(directory, "*.log"),
        "WAL": flood.wal(url, since),
        **flood.tables(url),
    }
    assert all(places[name] for name in ("answers", "log lines", "metrics", "WAL", "vault_card", "event"))
    assert b"card_opened" in places["log lines"]
    assert b"request_failed" in places["log lines"]
    return {name: found for name, content in places.items() if (found := found_in(content, numbers))}, numbers


async def test_no_number_is_found_outside_the_memory_of_the_process(
    settings: Settings,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    logs: io.StringIO,
    short_dir: Path,
) -> None:
    count = 4 + 2 * len(flood.PLACES)
    found, _ = await leaks(settings, database_url, count, monkeypatch, capfd, logs, short_dir)
    assert found == {}
    with psycopg.connect(database_url) as connection:
        row = connection.execute("select count(*) from vault_card").fetchone()
    assert row is not None
    assert row[0] >= 2, "numbers were kept, sealed"


async def test_the_scanner_finds_the_canary(database_url: str, settings: Settings) -> None:
    """In a table, in the WAL and in a text, in every form that it looks for."""
    draw = random.Random()
    plain, grouped, packed, absent = (card_number(draw) for _ in range(4))
    own_code = "8264"  # the flood's own must not be in this server's WAL
    since = flood.wal_position(database_url)
    groups = " ".join(grouped[at : at + 4] for at in range(0, 16, 4))
    with psycopg.connect(database_url, autocommit=True) as connection:
        values = [plain, f'{{"cvc":"{own_code}"}} {groups}', int(packed).to_bytes(8)]
        for _ in range(2):  # one record may lie across two pages of the WAL, with the head of a page in a number
            connection.execute(
                "insert into data_key (merchant_id, customer_id, sealing_key_id, wrapped)"
                " values (gen_random_uuid(), gen_random_uuid(), %s || %s, %s)",
                values,
            )
    numbers = (plain, grouped, packed, absent)
    for content in (flood.tables(database_url)["data_key"], flood.wal(database_url, since)):
        assert found_in(content, numbers, own_code) == {plain, grouped, packed, "cvc"}


class Secrets:
    """Keys, secrets and tokens as Stripe has them, each one found nowhere else."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def new(self, prefix: str) -> str:
        self.all.append(f"{prefix}_{random.randrange(10**29, 10**30)}")
        return self.all[-1]

    def found_in(self, content: bytes) -> set[str]:
        return {secret for secret in self.all if secret.partition("_")[2].rpartition("_")[2].encode() in content}


async def send_secrets(store: Storefront, double: Double, secrets: Secrets, patch: pytest.MonkeyPatch) -> bytes:
    """Sends keys and tokens in right and wrong places, also to a service that fails with them in its exception."""
    merchant, account, new = await store.register(), "/api/v1/processor-accounts/mx", secrets.new
    double.key, right = new("sk_test"), new("pm")
    double.tokens[right] = method(right)
    keys = {"processor": "stripe", "secretKey": double.key, "webhookSecrets": [new("whsec"), new("whsec")]}
    answers = [
        await merchant.put(account, {**keys, "secretKey": new("sk_test")}),
        await merchant.put(account, {**keys, "publishableKey": new("sk_test")}),
        await merchant.put(account, {**keys, "secretKey": new("sk_live")}),
        await merchant.put(account, {**keys, "webhookSecrets": new("whsec"), new("sk_test"): 1}),
        await merchant.put(account, b'{"secretKey":"%s","webhookSecrets":["whsec_' % new("sk_test").encode()),
        await merchant.put(account, keys),
        await merchant.get("/api/v1/processor-accounts"),
        await merchant.post(f"{account}/check", {}),
    ]
    signed = {"stripe-signature": f"t=1,v1={new('whsec')}"}
    answers.append(await merchant.post(f"/api/processor-messages/{merchant.merchant_id}/mx", {}, **signed))

    async def pay(name: str, token: str, at: str = "mx") -> None:
        by_token = {"type": "card", "cardTokens": [{"account": at, "token": token}]}
        answers.append(await merchant.create(paid_order(externalId=name, paymentMethod=by_token)))

    await pay("paid", right)
    await pay("unknown", new("pm"))
    await pay("elsewhere", new("ctoken"), "nowhere")
    double.faults["/confirm"] = [FAILS_BEFORE]
    await pay("open", right)

    def fails(*given: Any, **named: Any) -> Any:
        raise RuntimeError(f"cannot process {given} {named} {keys} {right}: {sys._getframe(1).f_locals}")

    for place in (
        "ledger.operations.orders.create.with_card_of_token",
        "ledger.processors.stripe.cards._confirmation",
        "ledger.processors.stripe.tokens.Tokens.read_token",
    ):
        with patch.context() as patched:
            patched.setattr(place, fails)
            await pay(place, right)
    with patch.context() as patched:
        patched.setattr("ledger.processors.stripe.account.check", fails)
        answers.append(await merchant.post(f"{account}/check", {}))
        answers.append(await merchant.put(account, {**keys, "secretKey": new("sk_test")}))
    statuses = [answer.status_code for answer in answers]
    assert statuses[:9] == [422, 400, 400, 400, 400, 201, 200, 200, 401], statuses
    assert statuses[9] == 201, "a card is paid by its token"
    assert {500} <= set(statuses[13:]), statuses
    return b"\n".join(repr(answer.headers).encode() + answer.content for answer in answers)


async def use_endpoint(store: Storefront, secrets: Secrets, patch: pytest.MonkeyPatch) -> bytes:
    """Creates a webhook endpoint, rotates its secret and posts a sample, also while the service fails. Returns the
    answers but the two that have a secret, which are among the `secrets` from then on.
    """
    merchant, path, body = await store.register(), "/api/v1/webhook-endpoints", {"url": "http://127.0.0.1:9/"}
    created = (await merchant.post(path, body, **{"idempotency-key": "one"})).json()
    one = f"{path}/{created['id']}"
    rotated = (await merchant.post(f"{one}/rotate-secret", {}, **{"idempotency-key": "two"})).json()
    secrets.all += [created["secret"], rotated["secret"]]
    answers = [
        await merchant.post(path, body, **{"idempotency-key": "one"}),
        await merchant.post(f"{one}/rotate-secret", {}, **{"idempotency-key": "two"}),
        await merchant.post(f"{one}/test", {}),
        await merchant.put(one, {"secret": created["secret"], "description": "Other"}),
        await merchant.get(path),
    ]

    def fails(*given: Any, **named: Any) -> Any:
        if "secret" in (found := sys._getframe(1).f_locals):
            secrets.all.append(found["secret"])
        raise RuntimeError(f"cannot go on with {given} {named} {secrets.all}: {found}")

    for place, ask in (
        ("ledger.operations.webhooks.create.destroy_others", merchant.post(path, body)),
        ("ledger.operations.webhooks.rotate.destroy_others", merchant.post(f"{one}/rotate-secret", {})),
        ("ledger.webhooks.client.signed_headers", merchant.post(f"{one}/test", {})),
    ):
        with patch.context() as patched:
            patched.setattr(place, fails)
            answers.append(await ask)
    assert [answer.status_code for answer in answers] == [201, 200, 200, 200, 200, 500, 500, 500]
    return b"\n".join(answer.content for answer in answers)


async def test_no_key_and_no_token_is_found_outside_the_memory_of_the_process(
    settings: Settings,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    logs: io.StringIO,
    short_dir: Path,
) -> None:
    since, secrets, double = flood.wal_position(database_url), Secrets(), Double()
    double.account = {"id": "acct_1", "object": "account", "country": "MX", "charges_enabled": True}
    double.account["capabilities"] = {"card_payments": "active"}
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", double.serve)
    async with TestServer(app) as server, opened(replace(settings, stripe_url=str(server.make_url("")))) as store:
        answers = await send_secrets(store, double, secrets, monkeypatch)
        answers += await use_endpoint(store, secrets, monkeypatch)
    written = capfd.readouterr()
    places = {
        "answers": answers,
        "log lines": (written.out + written.err + logs.getvalue()).encode(),
        "metrics": generate_latest(REGISTRY),
        "Postgres' log": flood.files(short_dir, "*.log"),
        "WAL": flood.wal(database_url, since),
        **flood.tables(database_url),
    }
    assert {name: found for name, content in places.items() if (found := secrets.found_in(content))} == {}
    assert secrets.found_in("\n".join(secrets.all).encode()) == set(secrets.all), "the scanner finds each of them"
    assert len(secrets.all) > 10
    assert all(places[name] for name in ("answers", "log lines", "WAL", "processor_account", "webhook_secret", "event"))


@pytest.mark.long
async def test_no_number_is_found_in_the_whole_directory_of_the_database(
    settings: Settings,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    logs: io.StringIO,
    short_dir: Path,
) -> None:
    found, numbers = await leaks(settings, database_url, 400, monkeypatch, capfd, logs, short_dir)
    assert found == {}
    content = flood.files(short_dir)
    assert b"vault_card" in content, "the directory is the database's"
    assert found_in(content, numbers) - {"cvc"} == set()
