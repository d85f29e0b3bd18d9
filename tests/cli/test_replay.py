"""`ledger replay`: an order's events, as they happened."""

import asyncio
import json

import psycopg
import pytest
from msgspec import UNSET
from msgspec.structs import replace
from tests.journal.subscription_samples import SUBSCRIPTIONS
from tests.seeding.conftest import APPROVED, CAFE, NO_FUNDS, charge, line, opening, order, running, writing
from uuid_utils.compat import uuid7

from ledger.domain.fold import fold
from ledger.domain.streams import ClaimKind
from ledger.domain.subscriptions.evolve import evolve
from ledger.journal.append import Change, Claim
from ledger.journal.journal import Context
from ledger.settings import Settings
from ledger.wiring import open_ledger

NOON = "2026-03-02T12:00:00-06:00"
LATER = "2026-03-02T13:00:00-06:00"
OPERATOR = "ana@mostrador"


@pytest.fixture(scope="module")
def database_url(databases):
    """One database for all tests: a replay changes nothing."""
    with databases.lent() as url:
        yield url


@pytest.fixture(scope="module")
def settings(database_url, tmp_path_factory):
    return Settings(
        database_url=database_url, database_app_url=database_url, data_dir=tmp_path_factory.mktemp("installation")
    )


@pytest.fixture(scope="module")
def seeded(settings, tmp_path_factory):
    """An order that was declined at noon and paid an hour later, and another merchant with an order of that name."""
    folder = tmp_path_factory.mktemp("seeded")
    another = {**opening(), "as": "Otra"}
    scenario = writing(folder)(
        opening(),
        line("create", NOON, order("A/1", NO_FUNDS)),
        line("charge", LATER, charge(APPROVED), order="A/1"),
        another,
        {**line("create", NOON, order("A/1")), "as": "Otra"},
    )
    assert running(settings, folder)("seed", scenario, "--by", OPERATOR, "--reason", "a practice").code == 0


@pytest.fixture
def row(seeded, database_url):
    with psycopg.connect(database_url) as connection:
        return connection.execute(
            "select o.merchant_id, o.order_id, o.order_number, o.external_id from payment_order o join merchant m"
            " using (merchant_id) where m.name = %s",
            [CAFE],
        ).fetchone()


def test_every_event_is_shown_with_the_state_after_it(ledger, row):
    merchant_id, order_id, number, external_id = row
    found = ledger("replay", order_id, "--json").json
    assert (found["merchantId"], found["orderId"], found["orderNumber"]) == (str(merchant_id), str(order_id), number)
    topics = [event["topic"] for event in found["events"]]
    assert topics[0] == "order-created.v1"
    assert [event["version"] for event in found["events"]] == list(range(1, len(topics) + 1))
    assert [event["position"] for event in found["events"]] == sorted(event["position"] for event in found["events"])
    declined, captured = topics.index("payment-declined.v1"), topics.index("payment-captured.v1")
    states = [event["state"] for event in found["events"]]
    assert (states[declined]["status"], states[declined]["amountPaid"]) == ("FAILED", "0")
    assert (states[captured]["status"], states[captured]["amountPaid"]) == ("COMPLETED", "10000")
    assert [payment["status"] for payment in states[-1]["payments"]] == ["FAILED", "CAPTURED"]
    assert {event["request"] for event in found["events"]} == {"scenario.jsonl:2", "scenario.jsonl:3"}
    assert found["events"][0]["event"]["externalId"] == external_id
    operator = {"name": OPERATOR, "command": "seed", "reason": "a practice"}
    assert [event["operator"] for event in found["events"]] == [operator] * len(topics)
    assert ledger("replay", order_id).done.count(OPERATOR) == len(topics)


def test_an_order_is_found_by_id_number_or_name(ledger, row):
    merchant_id, order_id, number, external_id = row
    by_id = ledger("replay", order_id, "--json").json
    assert ledger("replay", number, "--json").json == by_id
    assert ledger("replay", number.lower(), "--json").json == by_id
    assert ledger("replay", f"{merchant_id}/{external_id}", "--json").json == by_id


def test_a_replay_can_stop_at_a_time_and_at_a_version(ledger, row):
    _, order_id, _, _ = row
    every = ledger("replay", order_id, "--json").json["events"]
    then = ledger("replay", order_id, "--at", "2026-03-02T12:30:00-06:00", "--json").json["events"]
    assert then == every[: len(then)]
    assert then[-1]["state"]["status"] == "FAILED"
    assert ledger("replay", order_id, "--version", 2, "--json").json["events"] == every[:2]
    assert ledger("replay", order_id, "--version", 2, "--at", LATER, "--json").json["events"] == every[:2]
    assert ledger("replay", order_id, "--at", "2026-03-02T20:00:00Z", "--json").json["events"] == every


@pytest.fixture
def subscribed(row, settings):
    """Writes a subscription on trial into the log of the order's merchant, and returns the merchant and the events."""
    merchant_id = row[0]
    requested = replace(SUBSCRIPTIONS["subscription-requested.v1"], metadata=UNSET)
    events = [requested, SUBSCRIPTIONS["subscription-started.v1"]]
    stream_id, state = requested.subscription_id, fold(evolve, None, events)
    claim = Claim(ClaimKind.SUBSCRIPTION_EXTERNAL_ID, requested.external_id, stream_id)

    async def write_events():
        async with open_ledger(settings) as opened:
            changes = [Change(stream_id, 0, events, None, state)]
            await opened.journal.commit(merchant_id, uuid7(), changes, [claim], Context())

    asyncio.run(write_events())
    return merchant_id, requested


def test_a_subscription_is_found_by_id_or_name_and_shown_event_by_event(ledger, subscribed):
    merchant_id, requested = subscribed
    found = ledger("replay", requested.subscription_id, "--json").json
    assert ledger("replay", f"{merchant_id}/{requested.external_id}", "--json").json == found
    assert (found["merchantId"], found["planId"]) == (str(merchant_id), str(requested.plan_id))
    assert [each["topic"] for each in found["events"]] == ["subscription-requested.v1", "subscription-started.v1"]
    assert [each["state"]["status"] for each in found["events"]] == ["REQUESTED", "TRIALING"]
    printed = ledger("replay", requested.subscription_id, "--version", 1).done
    assert printed.startswith(f"subscription  {requested.subscription_id}  '{requested.external_id}'")
    assert "1 later events are left out." in printed
    early = ledger("replay", requested.subscription_id, "--at", "2026-01-01T00:00:00Z").one_line
    assert "the subscription did not exist then" in early


def test_the_table_names_no_person(ledger, row):
    _, order_id, number, _ = row
    printed = ledger("replay", number, "--version", 3).done
    assert printed.startswith(f"order     {number}  {order_id}  'A/1'")
    assert "order-created.v1" in printed
    assert "later events are left out." in printed
    assert "2026-03-02 18:00:00Z" in printed
    for never in ("Ana", "Zaragoza", "4000"):
        assert never not in printed


def test_a_replay_that_is_impossible_gives_the_reason(ledger, row):
    _, _, number, _ = row
    for arguments, because in (
        (("PO0000000000",), "there is no order"),
        (("A/1",), "there is no order"),
        (("01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44",), "there is no order"),
        (("01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44/A/1",), "there is no order"),
        ((number, "--at", "2026-03-01T00:00:00Z"), "did not exist then"),
        ((number, "--at", "yesterday"), "is not a time with an offset"),
        ((number, "--at", "2026-03-02T12:00:00"), "is not a time with an offset"),
    ):
        assert because in ledger("replay", *arguments).one_line


def test_a_partial_order_number_matches_no_order(ledger, row, database_url):
    number = row[2]
    assert "there is no order" in ledger("replay", number[:-1]).one_line
    assert "there is no order" in ledger("replay", number + "%").one_line


def test_the_amounts_are_plain_numbers(ledger, row):
    text = json.dumps(ledger("replay", row[1], "--json").json)
    assert "E+" not in text


def test_an_order_whose_customers_key_does_not_open_is_one_line(ledger, row, database_url):
    merchant_id, order_id, _, _ = row
    with psycopg.connect(database_url, autocommit=True) as operator:
        turned = (
            "update data_key set wrapped = set_byte(wrapped, 20, 255 - get_byte(wrapped, 20)) where merchant_id = %s"
        )
        operator.execute(turned, [merchant_id])
        try:
            assert "the data key of customer " in ledger("replay", order_id).one_line
        finally:
            operator.execute(turned, [merchant_id])
