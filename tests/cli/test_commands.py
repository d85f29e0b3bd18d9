"""`ledger merchants`, `ledger keys` and `ledger seed`."""

import re

import psycopg
import pytest
from tests.invoicing.documents import LEGAL_NAME, NUMBER, PASSWORD, RFC
from tests.seeding.conftest import APPROVED, line, opening, order

from ledger.invoicing.certificates import generate_csd, locked_key
from ledger.security.api_keys import hash_key
from ledger.security.secrets import Purpose, load_secrets

UNKNOWN = "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44"


@pytest.fixture
def merchant(ledger):
    return ledger("merchants", "create", "Café de Prueba", "--json").json["merchantId"]


def keys_in(database_url):
    with psycopg.connect(database_url) as connection:
        return {bytes(key_hash).hex() for (key_hash,) in connection.execute("select key_hash from api_key")}


def test_create_prints_exactly_what_programs_read(ledger, settings, database_url):
    created = ledger("merchants", "create", "Café «Niño»", "--requests-per-minute", "0", "--json").json
    assert list(created) == ["merchantId", "name", "apiKey", "environment"]
    assert (created["name"], created["environment"]) == ("Café «Niño»", "sandbox")
    assert re.fullmatch(r"sk_test_[0-9A-Za-z]{40}", created["apiKey"])
    pepper = load_secrets(settings).key(Purpose.API_KEY_PEPPER)
    assert keys_in(database_url) == {hash_key(created["apiKey"], pepper)}
    shown = ledger("merchants", "show", created["merchantId"], "--json").json
    assert (shown["settings"]["requestsPerMinute"], shown["settings"]["requestsPerSecond"]) == (0, None)


def test_create_prints_that_the_key_is_shown_once(ledger):
    printed = ledger("merchants", "create", "Tienda").done
    assert "sk_test_" in printed
    assert "shown this once" in printed


def test_two_merchants_may_have_one_name(ledger):
    ids = {ledger("merchants", "create", "Tienda", "--json").json["merchantId"] for _ in range(2)}
    assert {one["merchantId"] for one in ledger("merchants", "list", "--json").json} == ids
    listed = ledger("merchants", "list").done
    assert all(merchant_id in listed for merchant_id in ids)


def test_a_merchant_is_renamed_and_closed(ledger, merchant):
    assert ledger("merchants", "rename", merchant, "La Parroquia").done == f"{merchant}  La Parroquia\n"
    assert "name must have" in ledger("merchants", "rename", merchant, " ").one_line
    for _ in range(2):  # a second time changes nothing
        assert "is closed since" in ledger("merchants", "close", merchant, "--yes").done
    (listed,) = ledger("merchants", "list", "--json").json
    assert (listed["name"], bool(listed["closedAt"])) == ("La Parroquia", True)
    assert ", closed 2" in ledger("merchants", "show", merchant).done
    assert [key["state"] for key in ledger("keys", "list", merchant, "--json").json] == ["revoked"]
    assert "The merchant is closed" in ledger("keys", "create", merchant).one_line


def test_set_changes_what_is_named_and_nothing_else(ledger, merchant):
    before = ledger("merchants", "show", merchant, "--json").json["settings"]
    ledger("merchants", "set", merchant, "surchargeRate=3.50", "paymentMethods=CARD,SPEI", "requireMerchantHeader=true")
    after = ledger("merchants", "show", merchant, "--json").json["settings"]
    changed = {"surchargeRate": "3.5", "paymentMethods": ["CARD", "SPEI"], "requireMerchantHeader": True}
    assert after == before | changed
    ledger("merchants", "set", merchant, "surchargeRate=none")
    assert "surchargeRate          none" in ledger("merchants", "show", merchant).done


def test_a_wrong_setting_is_one_line_and_changes_nothing(ledger, merchant, log):
    before = log()
    for arguments, reason in (
        (("surchargeRate=lots",), "surchargeRate cannot be 'lots'"),
        (("surchargeRate=99",), "surchargeRate must be"),
        (("timeZone=Mars/Olympus",), "timeZone cannot be"),
        (("paymentMethods=BARTER",), "paymentMethods cannot be"),
        (("fiscalIssuer={}",), "fiscalIssuer is not a setting of a merchant; use one of surchargeRate, "),
        (("captureDelay=5",), "captureDelay is not a setting of a merchant; did you mean captureDelaySeconds?"),
        (("requestsPerMinute",), "'requestsPerMinute' is not KEY=VALUE"),
        (("requestsPerMinute=1", "requestsPerMinute=2"), "requestsPerMinute is given twice"),
    ):
        assert reason in ledger("merchants", "set", merchant, *arguments).one_line
    assert log() == before


def test_an_issuer_is_set_with_a_certificate_that_can_seal(ledger, merchant, tmp_path):
    csd = generate_csd(RFC, LEGAL_NAME, NUMBER)
    (tmp_path / "a.cer").write_bytes(csd.certificate)
    (tmp_path / "a.key").write_bytes(locked_key(csd, PASSWORD))
    (tmp_path / "password").write_text(PASSWORD + "\n")
    (tmp_path / "wrong").write_text("wrong")

    def options(rfc=RFC, password="password"):
        places = {"certificate": "a.cer", "key": "a.key", "password-file": password}
        return [
            "merchants", "set-issuer", merchant, "--rfc", rfc, "--tax-system", "601", "--zip-code", "42501",
            *(part for name, file in places.items() for part in (f"--{name}", str(tmp_path / file))),
        ]  # fmt: skip

    assert "--certificate belongs to" in ledger(*options(rfc="XIA190128J61")).one_line
    assert "--key does not open" in ledger(*options(password="wrong")).one_line
    assert "cannot be read" in ledger(*options(password="none")).one_line
    printed = ledger(*options()).done
    assert f"{RFC}  {LEGAL_NAME}" in printed
    assert f"certificate {NUMBER}, valid until" in printed


def test_what_cannot_be_done_is_one_line(ledger, log):
    for arguments, reason in (
        (("merchants", "create", " "), "name must have"),
        (("merchants", "create", "x", "--surcharge-rate", "-1"), "surchargeRate cannot be"),
        (("merchants", "create", "x", "--requests-per-second", "fast"), "requestsPerSecond cannot be"),
        (("merchants", "show", "nobody"), "'nobody' is not the id of a merchant"),
        (("merchants", "show", UNKNOWN), f"there is no merchant {UNKNOWN}"),
        (("merchants", "set", UNKNOWN, "requestsPerMinute=1"), f"there is no merchant {UNKNOWN}"),
        (("keys", "create", UNKNOWN), f"there is no merchant {UNKNOWN}"),
        (("keys", "list", UNKNOWN), f"there is no merchant {UNKNOWN}"),
        (
            ("keys", "create", UNKNOWN, "--scope", "orders:eat"),
            "there is no scope 'orders:eat'; there are: orders:read",
        ),
        (("keys", "create", UNKNOWN, "--expires-at", "tomorrow"), "'tomorrow' is not a time"),
        (("keys", "create", UNKNOWN, "--expires-at", "2030-01-01"), "needs an offset"),
        (("seed", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
        (("seed", "/dev/zero"), "/dev/zero cannot be read: it has more than"),
        (("merchants", "set-logo", UNKNOWN, "/dev/zero"), "/dev/zero cannot be read: it has more than 1,048,576 bytes"),
    ):
        assert reason in ledger(*arguments).one_line
    assert log()["event"] == []


def test_a_key_is_live_until_it_is_revoked(ledger, merchant, database_url):
    created = ledger("keys", "create", merchant, "--name", "caja 2", "--scope", "orders:read", "--json").json
    assert list(created) == ["keyId", "merchantId", "apiKey", "name", "scopes", "expiresAt"]
    assert (created["name"], created["scopes"], created["expiresAt"]) == ("caja 2", ["orders:read"], None)
    first, second = ledger("keys", "list", merchant, "--json").json
    assert (first["state"], second["state"], second["keyId"]) == ("live", "live", created["keyId"])
    assert second["hint"] == created["apiKey"][-4:]
    for _ in range(2):  # a second time changes nothing
        assert ledger("keys", "revoke", merchant, created["keyId"], "--yes").done
    first, second = ledger("keys", "list", merchant, "--json").json
    assert (first["state"], second["state"]) == ("live", "revoked")
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into api_key_use values (%s, '2026-01-03T04:05:06Z')", [created["keyId"]])
    listed = ledger("keys", "list", merchant).done
    assert created["apiKey"] not in listed
    assert "LAST USED" in listed
    assert [("2026-01-03 04:05:06Z" in row, "never" in row) for row in listed.splitlines()[1:]] == [
        (False, True),
        (True, False),
    ]


def test_a_rotated_key_is_replaced_and_expires(ledger, merchant):
    old = ledger("keys", "list", merchant, "--json").json[0]["keyId"]
    created = ledger("keys", "rotate", merchant, old, "--overlap", "3600", "--json").json
    assert list(created) == ["keyId", "merchantId", "apiKey", "name", "scopes", "expiresAt"]
    first, second = ledger("keys", "list", merchant, "--json").json
    assert (first["replacedBy"], second["keyId"], first["state"]) == (created["keyId"], created["keyId"], "live")
    assert first["expiresAt"] is not None
    assert "is valid until" in ledger("keys", "rotate", merchant, created["keyId"]).done
    newest = ledger("keys", "list", merchant, "--json").json[-1]["keyId"]
    assert "add --yes if it is meant" in ledger("keys", "rotate", merchant, newest, "--overlap", "0").one_line
    assert ledger("keys", "list", merchant, "--json").json[-1]["keyId"] == newest, "nothing was changed"
    assert ledger("keys", "rotate", merchant, newest, "--overlap", "0", "--yes", "--json").json["keyId"] != newest
    ledger("keys", "revoke", merchant, old, "--yes")
    assert "create another key instead" in ledger("keys", "rotate", merchant, old).one_line


def test_a_key_of_another_merchant_cannot_be_revoked(ledger, merchant):
    other = ledger("merchants", "create", "Otro", "--json").json["merchantId"]
    key = ledger("keys", "list", other, "--json").json[0]["keyId"]
    assert ledger("keys", "revoke", merchant, key, "--yes").one_line == "The merchant has no such API key."
    assert ledger("keys", "list", other, "--json").json[0]["state"] == "live"


def test_a_key_may_expire(ledger, merchant):
    created = ledger("keys", "create", merchant, "--expires-at", "2034-05-06T07:08:09-06:00", "--json").json
    assert created["expiresAt"] == "2034-05-06T13:08:09.000Z"
    assert (
        "expiresAt must be later than now"
        in ledger("keys", "create", merchant, "--expires-at", "2020-01-01T00:00:00Z").one_line
    )


def test_empty_lists_report_that_they_are_empty(ledger):
    assert ledger("merchants", "list").done.startswith("There is no merchant yet")
    assert ledger("jobs", "list").done == "no job has failed\n"
    assert ledger("messages", "list").done == "no message waits for an order\n"
    assert ledger("payouts").done == "no refund waits for its merchant\n"


def test_doctor_reports_every_part_of_an_installation(ledger, settings, database_url):
    findings = {one["check"]: one for one in ledger("doctor", "--json").json}
    assert list(findings) == [
        "settings", "disk", "keys", "checkpoints", "database", "durability", "standbys", "clock", "migrations", "roles", "archive", "seals",
        "services",
        "reactions", "calls", "jobs", "messages",
    ]  # fmt: skip
    assert {one["state"] for name, one in findings.items() if name in ("clock", "migrations", "jobs")} == {"ok"}
    assert "no master key yet" in findings["keys"]["text"]
    assert not (settings.data_dir / "master.key").exists()
    assert not (settings.data_dir / "checkpoints").exists()
    with psycopg.connect(database_url) as connection:
        connection.execute("update schema_migration set checksum = 'edited' where number = 2")
    printed = ledger("doctor")
    assert (printed.code, printed.err) == (1, "")
    assert "fail migrations 0002 read_models differs from what was applied" in " ".join(printed.out.split())
    assert [line.split()[0] in ("ok", "warn", "fail") for line in printed.out.splitlines()] == [True] * 11


def test_seed_counts_new_and_existing_lines(ledger, write):
    scenario = write(opening(), line("create", "2026-03-01T10:00:00-06:00", order("o", APPROVED)))
    first = ledger("seed", scenario, "--json").json
    assert (first["lines"], first["new"], first["known"], first["declined"]) == (2, 2, 0, 0)
    assert [key["apiKey"].startswith("sk_test_") for key in first["keys"]] == [True]
    again = ledger("seed", scenario).done
    assert "0 new" in again
    assert "2 already there" in again


def test_seed_names_the_line_that_it_cannot_run(ledger, write):
    scenario = write(opening(), line("teleport", "2026-03-01T10:00:00-06:00", {}))
    assert ledger("seed", scenario).one_line.startswith(f"{scenario}:2: there is no action 'teleport'")


def test_a_month_without_documents_is_empty_in_every_form(ledger, merchant):
    assert "no document was issued in 2027-01" in ledger("merchants", "month-end", merchant, "2027-01").done
    assert ledger("merchants", "month-end", merchant, "2027-01", "--json").json == []
    assert ledger("merchants", "month-end", merchant, "2027-01", "--csv").done.startswith("kind,state,currency,")
    assert (
        "<h1>Electronic invoices 2027-01</h1>" in ledger("merchants", "month-end", merchant, "2027-01", "--page").done
    )
    for month in ("January", "9999-12", "0001-01", "2027-1"):
        assert "is not a month" in ledger("merchants", "month-end", merchant, month).one_line


@pytest.mark.parametrize(
    "command", [("merchants", "list"), ("audit",), ("operations", "list"), ("merchants", "create", "x")]
)
def test_a_command_leaves_a_schema_that_is_not_up_to_date_as_it_is(ledger, database_url, command):
    newest = "select number, name from schema_migration order by number desc limit 1"
    with psycopg.connect(database_url, autocommit=True) as connection:
        number, name = connection.execute(newest).fetchone()
        connection.execute("delete from schema_migration where number = %s", (number,))
        refused = ledger(*command)
        lacking = (
            f"ledger: the schema lacks 1 migration of this release, from {number:04} {name} on: run `ledger migrate`\n"
        )
        assert (refused.code, refused.out, refused.err) == (2 if command == ("audit",) else 1, "", lacking)
        assert connection.execute(newest).fetchone() != (number, name)


def test_a_database_without_a_schema_gets_one_from_a_command_that_begins_an_installation_alone(ledger, database_url):
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "drop schema public cascade; drop schema if exists public_jobs cascade; create schema public"
        )
    assert "the database has no schema of the ledger: name the service's" in ledger("merchants", "list").one_line
    assert ledger("merchants", "create", "x").code == 0
    assert len(ledger("merchants", "list", "--json").json) == 1
