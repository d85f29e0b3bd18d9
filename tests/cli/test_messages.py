"""`ledger messages`: messages that no order has recorded are listed, retried and dismissed."""

from __future__ import annotations

import re

import psycopg
import pytest

MERCHANT, ORDER = "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44", "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b45"


@pytest.fixture
def kept(database_url):
    """Two messages in the inbox: one that is retried tomorrow, and a dead letter."""
    with psycopg.connect(database_url) as connection:
        for name, kind, next_try_at in (
            ("dep-1", "deposit-received", "tomorrow"),
            ("rf-1", "refund-failed", "infinity"),
        ):
            connection.execute(
                "insert into processor_message (processor, merchant_id, message_id, order_id, body, tries, next_try_at, waits_for)"
                " values ('stp', %s, %s, %s, json_build_object('type', %s::text), 3, %s, 'no order knows what it is about')",
                [MERCHANT, name, ORDER, kind, next_try_at],
            )


def test_waiting_messages_are_listed_and_retried(ledger, kept):
    waits, set_aside = ledger("messages", "list", "--json").json
    assert (waits["message"], waits["kind"], waits["setAside"], waits["tries"]) == (
        "dep-1",
        "deposit-received",
        False,
        3,
    )
    assert (waits["merchantId"], waits["orderId"]) == (MERCHANT, ORDER)
    assert (set_aside["message"], set_aside["setAside"], set_aside["nextAt"]) == ("rf-1", True, None)
    table = ledger("messages", "list").out
    assert "set aside" in table
    assert "no order knows what it is about" in table
    assert ledger("messages", "retry", "rf-1", "--json").json == {"retried": ["rf-1"]}
    assert [(one["setAside"], one["tries"]) for one in ledger("messages", "list", "--json").json] == [
        (False, 3),
        (False, 0),
    ]
    assert ledger("messages", "retry", "--all", "--json").json == {"retried": ["dep-1", "rf-1"]}


def test_a_retry_names_its_messages_or_all(ledger, kept):
    for arguments in ((), ("dep-1", "--all")):
        assert ledger("messages", "retry", *arguments).code == 1
    unknown = ledger("messages", "retry", "dep-2")
    assert unknown.code == 1
    assert "no such message waits: dep-2" in unknown.err


def test_a_dismissed_message_ends_and_stays_in_the_history(ledger, kept, database_url):
    assert ledger("messages", "list", "--dismissed").done == "no message was dismissed\n"
    refused = ledger("messages", "dismiss", "dep-1").err
    assert "--reason" in refused
    assert ledger("messages", "dismiss", "dep-1", "--reason", " ").one_line == (
        "--reason must have 1 to 500 characters, has 0"
    )
    assert ledger("messages", "dismiss", "dep-2", "--reason", "a test").one_line.startswith(
        "no message dep-2 was received: `ledger messages list`"
    )
    done = ledger("messages", "dismiss", "dep-1", "--reason", "STP took it back", "--by", "ana").done
    assert done == "dep-1 is dismissed by ana; it waited because no order knows what it is about\n"
    assert [one["message"] for one in ledger("messages", "list", "--json").json] == ["rf-1"]
    again = ledger("messages", "dismiss", "dep-1", "--reason", "once more").one_line
    assert re.fullmatch(r"dep-1 is dismissed since .+Z, by ana: STP took it back", again)
    (listed,) = ledger("messages", "list", "--dismissed", "--json").json
    assert (listed["message"], listed["kind"], listed["merchantId"]) == ("dep-1", "deposit-received", MERCHANT)
    assert (listed["dismissedBy"], listed["reason"]) == ("ana", "STP took it back")
    assert "STP took it back" in ledger("messages", "list", "--dismissed").done
    with psycopg.connect(database_url) as connection:
        events = connection.execute("select topic, context::text from event").fetchall()
    assert [topic for topic, _ in events] == ["processor-message-dismissed.v1"]
