"""A real Postgres for the session, and an empty database with the current schema for each test that needs one."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests import citus_server, postgres_server
from tests.clusters import share_cluster
from tests.databases import Databases
from tests.directories import make_directory

from ledger.postgres.migrate import migrate

# A scenario of these modules takes up to half a minute, here or in `make test-long`, and their tests read its result.
_BEGIN_WITH = (
    "property_tests/test_stateful.py",
    "tests/crash/test_points.py",
    "tests/transitions/test_transitions.py",
    "tests/transitions/test_every_operation.py",
    "tests/campaigns/test_unknown_outcomes.py",
    "tests/campaigns/chaos/test_short.py",
    # Each process that runs one of these starts a browser.
    "tests/browser/test_reference_page.py",
    "tests/browser/test_payer_pages.py",
    "tests/browser/test_payer_authentication.py",
    # Their tests share what they read of all modules.
    "tests/test_architecture.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, help="how many rounds the races of customers have")


def pytest_configure() -> None:
    # Both are inherited by the processes of xdist and by those that tests start.
    share_cluster()
    # Each of them reads the authorities that it trusts, 150 or one. None speaks TLS with a host that is not the test's own.
    os.environ.setdefault("SSL_CERT_FILE", str(Path(__file__).parent / "authority.pem"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects without the garbage collector, which would examine all modules and items again and again, also later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the longest modules first.

    pytest's processes take tests from the end of each other's lists. A module in the middle would be divided, and each
    process would run its scenario again.
    """
    first = [config.rootpath / name for name in _BEGIN_WITH]
    items.sort(key=lambda item: first.index(item.path) if item.path in first else len(first))


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Runs tests on the event loop of the service: asyncio's own reports a broken connection in another way."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def short_dir() -> Iterator[Path]:
    """A directory for servers: see `make_directory`."""
    path = make_directory()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url(short_dir: Path) -> Iterator[str]:
    """The owner's connection string of the server that `postgres_server` runs for this session."""
    with postgres_server.running(short_dir / "session") as url:
        yield url


@pytest.fixture(scope="session")
def template_database(postgres_url: str) -> Iterator[str]:
    """The name of a database that is migrated once. Nothing connects to it afterwards, so that it can be cloned."""
    name = f"template_{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        migrate(make_conninfo(postgres_url, dbname=name))
        yield name
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest, short_dir: Path) -> Iterator[Databases]:
    """Databases with the current schema, which tests borrow: distributed ones if LEDGER_TEST_CITUS is set."""
    if os.environ.get("LEDGER_TEST_CITUS"):
        with citus_server.running(short_dir / "citus") as cluster, citus_server.lending(cluster) as distributed:
            yield distributed
        return
    databases = Databases(request.getfixturevalue("postgres_url"), request.getfixturevalue("template_database"))
    yield databases
    databases.drop()


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """An empty database with the current schema for one test. Connections that are open after the test are ended."""
    with databases.lent() as url:
        yield url
