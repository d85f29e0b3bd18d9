"""`ledger processors`: accounts connected from files, listed, checked and disconnected."""

import asyncio
from uuid import uuid4

import pytest
from tests.processors.acme import GOOD, NEXT_SIGNING, SIGNING
from typer.testing import CliRunner

from ledger.cli import processors
from ledger.operations.processor_accounts.connect import ConnectInput
from ledger.processors.registry import AccountKeys

UNKNOWN = "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44"


def test_a_simulated_account_is_connected_listed_checked_and_disconnected(ledger):
    merchant = ledger("merchants", "create", "Café", "--json").json["merchantId"]
    connect = ("processors", "connect", merchant)
    assert ledger(*connect, "second", "--processor", "sandbox").done == "second  sandbox  CONNECTED  TEST\n"
    listed = ledger("processors", "list", merchant, "--json").json
    assert [account["name"] for account in listed] == ["sandbox", "second"]
    assert listed[1]["methods"][0].items() >= {"type": "CARD", "amountMax": 999999999999}.items()
    assert "second   sandbox    CONNECTED  TEST" in ledger("processors", "list", merchant).done
    assert ledger("processors", "check", merchant, "second").done == "reachable\nTEST  MX\n"
    assert ledger("processors", "disconnect", merchant, "second").done == "second  sandbox  DISCONNECTED  TEST\n"
    for arguments, reason in (
        ((*connect, "other", "--processor", "conekta"), "--processor is unknown; use sandbox, stripe"),
        ((*connect, "Other", "--processor", "sandbox"), "NAME must have"),
        (("processors", "check", merchant, "none"), "no account with a processor under this name"),
        (("processors", "list", UNKNOWN), f"there is no merchant {UNKNOWN}"),
    ):
        assert reason in ledger(*arguments).one_line


@pytest.fixture
def connected(monkeypatch):
    """The requests of `connect`, which are not carried out."""
    requests = []

    async def find(*_):
        pass

    async def carry_out(*arguments):
        requests.append(arguments[-2:])
        raise processors.CannotRun("enough")

    monkeypatch.setattr(processors, "on_ledger", lambda _, work, _operator: asyncio.run(work(None, None)))
    monkeypatch.setattr("ledger.operations.merchants.registration.merchant_of", find)
    monkeypatch.setattr("ledger.operations.processor_accounts.connect.connect_account", carry_out)
    return requests


def test_keys_come_from_files_and_standard_input_and_are_not_printed(connected, tmp_path):
    (tmp_path / "signing").write_text(f"{SIGNING}\n\n{NEXT_SIGNING}\n")
    (tmp_path / "key").write_text(f"  {GOOD}\n")
    (tmp_path / "empty").write_text("\n")

    def connect(*options, text=None):
        arguments = ["connect", str(uuid4()), "acme-mx", "--processor", "acme", *map(str, options)]
        return CliRunner().invoke(processors.app, arguments, input=text)

    public = ("--publishable-key", "pk_test_1")
    connect("--secret-key-file", "-", "--webhook-secret-file", tmp_path / "signing", *public, text=f"{GOOD}\n")
    connect("--secret-key-file", tmp_path / "key")
    assert connected == [
        (
            "acme-mx",
            ConnectInput(
                processor="acme",
                keys=AccountKeys(secret_key=GOOD, webhook_secrets=(SIGNING, NEXT_SIGNING)),
                publishable_key="pk_test_1",
            ),
        ),
        ("acme-mx", ConnectInput(processor="acme", keys=AccountKeys(secret_key=GOOD))),
    ]
    for file, reason in (
        (tmp_path / "empty", "is empty"),
        (tmp_path / "none", "cannot be read"),
        (tmp_path / "signing", "--secret-key-file must have one key"),
    ):
        ended = connect("--secret-key-file", file)
        assert reason in str(ended.exception)
        assert not [key for key in (GOOD, SIGNING, NEXT_SIGNING) if key in f"{ended.output}{ended.exception!r}"]
    assert len(connected) == 2
