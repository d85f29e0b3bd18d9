"""The whole service behind pgbouncer: in session mode it works; in the others it does not start."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from msgspec.structs import replace
from psycopg.conninfo import conninfo_to_dict
from tests.api.bodies import order, paid_order
from tests.api.storefront import ORDERS, opened
from tests.poolers import pooled

from ledger import doctor
from ledger.doctor import Finding, examine
from ledger.postgres.connection import connect
from ledger.postgres.connection_count import connections_max
from ledger.postgres.prepare import prepare
from ledger.settings import CannotRun, Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, master_key="11" * 32)


@pytest.fixture
def roles(settings: Settings, database_url: str) -> list[str]:
    """The roles of the application and of the vault."""
    ready = prepare(settings, database_url)
    return [str(conninfo_to_dict(str(url))["user"]) for url in (ready.database_url, ready.database_vault_url)]


async def test_a_pooler_in_session_mode_works(
    settings: Settings, database_url: str, roles: list[str], short_dir: Path
) -> None:
    with pooled(database_url, short_dir / f"p{uuid4().hex[:6]}", "session", roles) as string:
        async with await connect(string, "test") as connection:
            assert await (await connection.execute("show statement_timeout")).fetchone() == ("10s",)
        async with opened(prepare(settings, string)) as store:
            merchant = await store.register()
            bodies = [paid_order(externalId=f"a-{n}") for n in range(8)] + [
                order(externalId=f"b-{n}") for n in range(8)
            ]
            answers = await asyncio.gather(*[merchant.create(body) for body in bodies])
            assert [answer.status_code for answer in answers] == [201] * 16
            paid = answers[0].json()["id"]
            refunded = await merchant.post(f"{ORDERS}/{paid}/refund", {"amount": 5000, "reason": "a test"})
            assert refunded.status_code == 200, refunded.text
            assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 16
            with psycopg.connect(database_url, autocommit=True) as operator:
                operator.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
            again = await merchant.create(order(externalId="b-0"))
            while again.status_code == 503:
                await asyncio.sleep(0.05)
                again = await merchant.create(order(externalId="b-0"))
            assert again.status_code == 200
            failed = {"database"}
            while failed - {"reactions"}:  # no worker runs
                checks = (await store.client.get("/health/ready")).json()["checks"]
                failed = {name for name, passed in checks.items() if not passed}


def test_a_pooler_without_room_for_the_services_is_found(
    settings: Settings, database_url: str, roles: list[str], short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = conninfo_to_dict(database_url)["user"]

    def found(settings_of_pooler: str, *, pooler: bool = True) -> Finding:
        place = short_dir / f"p{uuid4().hex[:6]}"
        with pooled(database_url, place, "session", roles, settings_of_pooler) as string:
            environ = {"LEDGER_DATABASE_URL": string, "LEDGER_DATA_DIR": str(settings.data_dir)}
            variables = {"LEDGER_MASTER_KEY": "11" * 32, "LEDGER_WORKERS": "2"}
            return next(each for each in examine(environ | variables, pooler=pooler) if each.check == "pooler")

    needed = connections_max(replace(settings, workers=2))
    hidden = found("")
    assert (hidden.state, f"at least {needed}; name {owner} in pgbouncer's stats_users" in hidden.text) == (
        "warn",
        True,
    )
    seen = f"stats_users = {owner}\nmax_db_connections = {needed}\ndefault_pool_size = "
    assert found(f"{seen}{needed}").state == "ok"
    small = found(f"{seen}{needed - 1}")
    assert small.state == "fail"
    assert f": default_pool_size is {needed - 1}; raise each to {needed} or more" in small.text
    with psycopg.connect(database_url, autocommit=True) as connection:  # and another machine's processes run
        connection.execute(
            "insert into service_process select gen_random_uuid(), 'app2', 'api', '0', '', 0, now(), now()"
            " from generate_series(1, 9)"
        )
    assert f"max_db_connections is {needed}" in found(f"{seen}{needed}").text
    monkeypatch.delattr(doctor, "pooler_limits")  # it is not asked unless an operator wants it
    not_asked = found(f"{seen}{needed}", pooler=False)
    assert (not_asked.state, "`ledger doctor --pooler` compares them" in not_asked.text) == ("warn", True)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pooler_that_shares_sessions_is_refused_in_one_sentence(
    mode: str, settings: Settings, database_url: str, short_dir: Path
) -> None:
    with pooled(database_url, short_dir / f"p{uuid4().hex[:6]}", mode, []) as string:
        with pytest.raises(
            CannotRun, match=r"^the database is behind a pooler that shares sessions .*: set pool_mode = session$"
        ) as refusal:
            prepare(settings, string)
        environ = {"LEDGER_DATABASE_URL": string, "LEDGER_DATA_DIR": str(settings.data_dir)}
        assert [*examine(environ)][-1] == Finding("database", "fail", str(refusal.value))


@pytest.mark.parametrize("reset", ["", "RESET ALL", "DEALLOCATE ALL"])
async def test_a_pooler_that_keeps_what_a_session_has_is_refused_in_one_sentence(
    reset: str, settings: Settings, database_url: str, short_dir: Path
) -> None:
    """Else a connection that writes gets the session of one that may only read, and takes the primary for read-only."""
    place = short_dir / f"p{uuid4().hex[:6]}"
    with pooled(database_url, place, "session", [], f"server_reset_query = {reset}") as string:
        for _ in range(2):
            with pytest.raises(CannotRun, match=r"a session as the last .*: set server_reset_query = DISCARD ALL$"):
                prepare(settings, string)
        environ = {"LEDGER_DATABASE_URL": string, "LEDGER_DATA_DIR": str(settings.data_dir)}
        assert [*examine(environ)][-1].state == "fail"
