"""The search for the primary among several servers, which no silent one of them holds up."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import psycopg
import pytest
from campaigns.chaos.proxy import proxied
from psycopg.conninfo import conninfo_to_dict
from tests.journal.small_log import fetch
from tests.servers import address_of, naming

from ledger.postgres import primary_search
from ledger.postgres.connection import Connection
from ledger.postgres.prepare import prepare
from ledger.postgres.primary_search import Server, connect_now, servers_to_search
from ledger.postgres.registration import require_clock
from ledger.postgres.silent_servers import WatchedConnection
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

PATIENCE_S = 20


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("host=a,b port=1,2 target_session_attrs=read-write", (Server("a", "", "1"), Server("b", "", "2"))),
        ("postgresql://a,b:7/d?target_session_attrs=primary", (Server("a", "", ""), Server("b", "", "7"))),
        (
            "host=a,b hostaddr=127.0.0.1,127.0.0.2 port=5 target_session_attrs=primary",
            (Server("a", "127.0.0.1", "5"), Server("b", "127.0.0.2", "5")),
        ),
        ("hostaddr=::1,::2 target_session_attrs=primary", (Server("", "::1", ""), Server("", "::2", ""))),
        ("host=a,b", ()),
        ("host=a,b target_session_attrs=prefer-standby", ()),
        ("host=a target_session_attrs=read-write", ()),
        ("host=a,b,c port=1,2 target_session_attrs=read-write", ()),
        ("", ()),
    ],
)
def test_the_servers_of_a_string_that_seeks_the_primary_are_searched(url: str, servers: tuple[Server, ...]) -> None:
    assert servers_to_search(url) == servers


async def test_a_search_does_not_wait_for_a_silent_server_and_remembers_the_one_that_accepted(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        refusing = "127.0.0.1", str(nobody.getsockname()[1])
        async with proxied(database_url) as silent, asyncio.timeout(PATIENCE_S):
            silent.flowing.clear()
            addresses = address_of(silent.url), refusing, address_of(database_url)
            url = naming(database_url, *addresses)
            async with await WatchedConnection.connect(url, connect_timeout=600) as one:
                assert one.info.host == addresses[2][0]
            monkeypatch.setattr(primary_search, "_NEXT_S", 600.0)  # no other server is asked before it answers
            async with await WatchedConnection.connect(url, connect_timeout=600) as one:
                assert one.info.host == addresses[2][0]


def test_a_start_asks_a_silent_server_once_and_not_with_each_connection(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen machine accepts a connection that it never answers, and a start opens more than ten."""
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "2")
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        frozen = "127.0.0.1", str(silent.getsockname()[1])
        url = naming(database_url, frozen, address_of(database_url))
        prepared = prepare(Settings(data_dir=tmp_path, master_key="11" * 32), url)
        assert prepared.database_url is not None
        require_clock(url)
        for _ in range(2):
            connect_now(prepared.database_url).close()
        silent.settimeout(0)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


async def test_a_server_that_is_promoted_while_another_one_is_silent_is_found(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(primary_search, "_AGAIN_S", 0.02)
    name = conninfo_to_dict(database_url)["dbname"]

    def promote(is_primary: str) -> None:
        owner.execute(f"alter database {name} set default_transaction_read_only = {is_primary}")  # type: ignore[arg-type]

    with psycopg.connect(database_url, autocommit=True) as owner:
        promote("on")
        owner.execute("set default_transaction_read_only = off")
        async with proxied(database_url) as silent, asyncio.timeout(PATIENCE_S):
            silent.flowing.clear()
            url = naming(database_url, address_of(silent.url), address_of(database_url))
            search = asyncio.create_task(Connection.connect(url, connect_timeout=600))
            await asyncio.sleep(0.5)
            assert not search.done()
            promote("off")
            async with await search as found:
                assert await (await found.execute("show transaction_read_only")).fetchone() == ("off",)


async def test_a_search_fails_once_every_server_has_answered_and_leaves_no_connection(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxied(database_url) as away, proxied(database_url) as silent, asyncio.timeout(PATIENCE_S):
        away.go_away()
        silent.flowing.clear()
        url = naming(database_url, address_of(away.url), address_of(silent.url))
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            await WatchedConnection.connect(url, connect_timeout=2)
    monkeypatch.setattr(primary_search, "_NEXT_S", 0.0)  # both servers are asked at once, and both accept
    monkeypatch.setattr(primary_search, "_accepted", {})
    async with proxied(database_url) as one, proxied(database_url) as other, asyncio.timeout(PATIENCE_S):
        url = naming(database_url, address_of(one.url), address_of(other.url))
        count = "select count(*) from pg_stat_activity where application_name = 'test-search'"
        async with await WatchedConnection.connect(url, application_name="test-search"):
            while fetch(database_url, count) != [(1,)]:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
