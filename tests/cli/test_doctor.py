"""What `ledger doctor` finds about keys, roles, standbys and files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest
from tests.invoicing.documents import png

from ledger import doctor
from ledger.doctor import Finding
from ledger.domain.orders.invoices.events import DocumentStamped
from ledger.invoicing.files import DocumentFiles, folder_url
from ledger.postgres.connection import connect
from ledger.postgres.prepare import prepare
from ledger.postgres.replication import Standbys
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

MASTER = {"LEDGER_MASTER_KEY": "11" * 32}
CARD = "insert into vault_card values (%s, %s, %s, 'x', 'feed', 'x', 'x')"
PDF = b"%PDF-1.7\n%%EOF\n"
EVENT = "insert into event values (%s, %s, 1, 1, %s, now(), 'document-stamped.v1', %s, '{}')"


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    settings = Settings(data_dir=tmp_path, master_key="11" * 32, database_url=database_url)
    prepare(settings, database_url)
    return settings


def examined(settings: Settings, *, files: bool = False, **environ: str) -> dict[str, Finding]:
    variables = {"LEDGER_DATABASE_URL": str(settings.database_url), "LEDGER_DATA_DIR": str(settings.data_dir)}
    return {each.check: each for each in doctor.examine(variables | MASTER | environ, files=files)}


def change(settings: Settings, statement: str, *values: Any) -> None:
    with psycopg.connect(str(settings.database_url), autocommit=True) as connection:
        connection.execute(statement, values)  # type: ignore[arg-type]


def test_the_wrong_master_key_and_a_lost_one_are_found(settings: Settings) -> None:
    assert examined(settings)["seals"].state == "ok"
    wrong = examined(settings, LEDGER_MASTER_KEY="22" * 32)["seals"]
    assert wrong.state == "fail"
    assert wrong.text.startswith("the master key is the wrong one: its fingerprint is ")
    lost = [
        *doctor.examine({"LEDGER_DATABASE_URL": str(settings.database_url), "LEDGER_DATA_DIR": str(settings.data_dir)})
    ]
    assert next(each.text for each in lost if each.check == "seals").endswith("is missing: bring it back")
    assert not (settings.data_dir / "master.key").exists()


def test_a_sealing_key_that_is_none_leaves_the_other_checks(settings: Settings) -> None:
    found = examined(settings, LEDGER_SEALING_KEYS="none")
    assert found["seals"].text.startswith("LEDGER_SEALING_KEYS must be 32 bytes")
    assert (found["database"].state, found["messages"].state) == ("ok", "ok")


@pytest.mark.parametrize(("level", "text"), [("off", "off: synchronous_commit;"), ("local", "synchronous_commit is l")])
def test_a_server_whose_commits_wait_for_too_little_is_found(settings: Settings, level: str, text: str) -> None:
    url = psycopg.conninfo.make_conninfo(str(settings.database_url), options=f"-c synchronous_commit={level}")
    found = examined(settings, LEDGER_DATABASE_URL=url)["durability"]
    assert (found.state, found.text.startswith(text)) == ("warn", True)


@pytest.mark.parametrize(
    ("statement", "holder"),
    [
        ("insert into data_key values (%s, %s, 'feed', 'x')", "customers"),
        (
            "insert into processor_account_key values (%s, %s, gen_random_uuid(), 'feed', 'x')",
            "accounts with processors",
        ),
    ],
)
def test_each_missing_sealing_key_is_named(settings: Settings, statement: str, holder: str) -> None:
    change(settings, statement, uuid4(), uuid4())
    found = examined(settings)["seals"]
    assert found.state == "fail"
    assert f"LEDGER_SEALING_KEYS lacks keys: {holder} are sealed under feed (1)" in found.text


@pytest.fixture
def modest(settings: Settings, database_url: str) -> Iterator[str]:
    """An owner as the page about one's own Postgres makes it: no superuser, and without a right on card numbers."""
    role = f"modest_{uuid4().hex[:8]}"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"create role {role} login createrole")  # type: ignore[arg-type]
        connection.execute(f"grant all on all tables in schema public to {role}")  # type: ignore[arg-type]
        connection.execute(f"revoke all on vault_card from {role}")  # type: ignore[arg-type]
        yield psycopg.conninfo.make_conninfo(database_url, user=role)
        connection.execute(f"drop owned by {role}")  # type: ignore[arg-type]
        connection.execute(f"drop role {role}")  # type: ignore[arg-type]


def test_the_keys_of_saved_cards_are_read_as_the_role_of_the_vault(settings: Settings, modest: str) -> None:
    change(settings, CARD, uuid4(), uuid4(), uuid4())
    found = examined(settings, LEDGER_DATABASE_URL=modest)
    assert (found["seals"].state, found["services"].text) == ("fail", "none runs")
    assert "LEDGER_SEALING_KEYS lacks keys: saved cards are sealed under feed (1)" in found["seals"].text
    nobody = psycopg.conninfo.make_conninfo(modest, user="nobody")
    found = examined(settings, LEDGER_DATABASE_URL=modest, LEDGER_DATABASE_VAULT_URL=nobody)
    assert (found["seals"].state, found["roles"].state) == ("warn", "warn")
    assert "those of saved cards were not read, because the vault's role cannot: " in found["seals"].text
    assert found["roles"].text == "the role of LEDGER_DATABASE_VAULT_URL cannot log in"


def test_the_roles_of_a_dump_without_the_vault_are_made(settings: Settings) -> None:
    change(settings, "drop table vault_card")
    found = examined(settings)
    assert (found["roles"].text, found["seals"].state) == ("the application's and the vault's can be used", "warn")


def test_each_role_that_the_settings_have_to_name_is_found(settings: Settings, modest: str) -> None:
    change(settings, f"alter role {psycopg.conninfo.conninfo_to_dict(modest)['user']} nocreaterole")
    assert examined(settings, LEDGER_DATABASE_URL=modest)["roles"].text == (
        "set LEDGER_DATABASE_APP_URL, because the owner may not create roles; "
        "set LEDGER_DATABASE_VAULT_URL, because the owner may not create roles"
    )


def test_a_role_without_a_right_is_one_finding_after_those_before_it(settings: Settings, modest: str) -> None:
    change(settings, f"revoke all on master_key_fingerprint from {psycopg.conninfo.conninfo_to_dict(modest)['user']}")
    found = examined(settings, LEDGER_DATABASE_URL=modest)
    assert found["database"].text.startswith("it refuses a check: permission denied for table master_key_fingerprint; ")
    assert found["database"].state == "fail"
    assert found["roles"].state == "ok"


def test_a_data_directory_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place, fault in (("file", "is not a directory"), ("file/below", "is not a directory"), ("x" * 300, "too long")):
        [*_, last] = doctor.examine({}, data_dir=tmp_path / place)
        assert (last.check, last.state) == ("disk", "fail")
        assert fault in last.text


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        ("ledger_vault_", "the vault's role is missing, so no card can be saved: `ledger migrate` makes it"),
        ("ledger_app_", "the application's role is missing: `ledger migrate` makes it"),
    ],
)
def test_a_missing_role_is_found(settings: Settings, database_url: str, prefix: str, text: str) -> None:
    assert examined(settings)["roles"].state == "ok"
    with psycopg.connect(database_url, autocommit=True) as connection:
        role = own_role(connection, prefix)
        connection.execute(f"drop owned by {role}")
        connection.execute(f"drop role {role}")
    assert examined(settings)["roles"] == Finding("roles", "warn", text)


@pytest.mark.parametrize("prefix", ["ledger_vault_", "ledger_app_"])
def test_a_role_that_may_not_log_in_is_found(settings: Settings, database_url: str, prefix: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        role = own_role(connection, prefix)
        connection.execute(f"alter role {role} nologin")
    found = examined(settings)["roles"]
    assert (found.state, f"{role}, cannot log in" in found.text) == ("warn", True)
    prepare(settings, database_url)  # as `ledger migrate` does
    assert examined(settings)["roles"].state == "ok"


def test_the_commits_of_the_applications_role_count(settings: Settings, database_url: str) -> None:
    """The owner's own setting concerns no payment."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        role = own_role(connection, "ledger_app_")
        connection.execute(f"alter role {role} set synchronous_commit = local")
        found = examined(settings)["durability"]
        assert (found.state, found.text.partition(";")[0]) == ("warn", "synchronous_commit is local")
        connection.execute(f"alter role {role} set synchronous_commit = remote_apply")
    assert examined(settings)["durability"].state == "ok"


def own_role(connection: psycopg.Connection, prefix: str) -> str:
    [(role,)] = connection.execute(
        "select %s || oid from pg_database where datname = current_database()", [prefix]
    ).fetchall()
    return str(role)


def test_a_database_that_takes_no_writes_is_named_as_such(settings: Settings) -> None:
    url = psycopg.conninfo.make_conninfo(str(settings.database_url), options="-c default_transaction_read_only=on")
    found = examined(settings, LEDGER_DATABASE_URL=url)["database"]
    assert (found.state, found.text.partition(":")[0]) == ("fail", "the server is read-only")


@pytest.mark.parametrize(
    ("standbys", "state"),
    [
        (Standbys("", {}, 0, 0), "ok"),
        (Standbys("", {"second": False}, 0, 0), "warn"),
        (Standbys("second", {"second": True}, 1, 0), "ok"),
        (Standbys("ANY 2 (second, third)", {"second": True}, 1, 0), "fail"),
        (Standbys("second", {}, 0, 0), "fail"),
        (Standbys("second", {}, 0, 1), "warn"),
    ],
)
async def test_a_standby_that_no_commit_waits_for_is_a_warning(
    settings: Settings, standbys: Standbys, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor.Standbys, "of", lambda _: standbys)
    async with await connect(str(settings.database_url), "test") as connection:
        assert (await doctor._standbys(connection)).state == state


def stamp(settings: Settings, merchant_id: UUID) -> Path:
    """Stores the files of a stamped document and its event. Returns where its XML is."""
    store, document_id, fiscal_uuid = DocumentFiles(folder_url(settings.data_dir), b"", ""), uuid4(), uuid4()

    async def printed() -> bytes:
        return PDF

    files = asyncio.run(store.put(merchant_id, document_id, fiscal_uuid, b"<xml/>", printed))
    event = DocumentStamped(
        document_id=document_id, fiscal_uuid=fiscal_uuid, invoice_id="1", stamped_at=datetime.now(UTC),
        xml_key=files.xml_key, pdf_key=files.pdf_key, xml_sha256=files.sha256, at=datetime.now(UTC),
    )  # fmt: skip
    change(settings, EVENT, uuid4(), uuid4(), uuid4(), msgspec.json.encode(event))
    return settings.data_dir / "files" / files.xml_key


def test_every_stamped_document_and_logo_is_checked(settings: Settings) -> None:
    xml = [stamp(settings, uuid4()) for _ in range(20)]
    change(settings, "insert into fiscal_logo (merchant_id, png) values (%s, %s)", uuid4(), png(64, 32))
    found = examined(settings, files=True)
    assert found["documents"] == Finding("documents", "ok", "the files of 20 stamped documents are there and unchanged")
    assert found["logos"] == Finding("logos", "ok", "1 can be printed")
    xml[3].unlink()
    xml[4].write_bytes(b"<other/>")
    xml[5].with_suffix(".pdf").unlink()
    xml[6].with_suffix(".pdf").write_bytes(b"")
    xml[7].with_suffix(".pdf").write_bytes(PDF[:-2])
    change(settings, "update fiscal_logo set png = substr(png, 1, 40)")
    found = examined(settings, files=True)
    assert found["documents"].state == "fail"
    assert found["documents"].text.startswith("5 of 20 stamped documents lack their files: ")
    for place, what in (
        (xml[3], "is missing"),
        (xml[4], "is another file"),
        (xml[5].with_suffix(".pdf"), "is missing"),
        (xml[6].with_suffix(".pdf"), "is no whole PDF"),
        (xml[7].with_suffix(".pdf"), "is no whole PDF"),
    ):
        assert f"{place.name} {what}" in found["documents"].text
    assert found["logos"].state == "fail"
    assert "documents" not in examined(settings)
