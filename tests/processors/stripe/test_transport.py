"""Requests to Stripe: what their failures mean, exactly by whether anything could have left."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta

import pytest
from tests.processors.stripe.double import BUSY, CUT_AFTER, FAILS_BEFORE, HELD, IN_USE, REVOKED, Double

from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.stripe.forms import encoded
from ledger.processors.stripe.objects import Customer, Intent
from ledger.processors.stripe.transport import Connections, KeyRefused, Refused, ReplayedFailure, Transport

pytestmark = pytest.mark.anyio


def soon(seconds: float = 10) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


@pytest.fixture
def transport(connections: Connections, double: Double) -> Transport:
    return Transport(connections, double.key)


async def post(transport: Transport, key: str = "k", *, deadline_at: datetime | None = None) -> str:
    made = await transport.post("/v1/customers", {}, Customer, key=key, deadline_at=deadline_at or soon())
    return made.id


async def test_what_never_left_has_no_effect(connections: Connections, double: Double) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"  # bound, and not listening
        for elsewhere in (
            Connections(url),
            Connections("http://name.invalid"),
            Connections(url.replace("http", "https")),
        ):
            with pytest.raises(ProcessorUnavailable):
                await post(Transport(elsewhere, double.key))
            await elsewhere.close()
    with pytest.raises(ProcessorUnavailable):
        await post(Transport(connections, double.key), deadline_at=soon(-1))
    assert double.requests == []


async def test_what_may_have_left_is_unknown(transport: Transport, double: Double) -> None:
    double.faults["/customers"] = [CUT_AFTER, FAILS_BEFORE]
    with pytest.raises(ProcessorTimedOut):
        await post(transport, "cut")
    for failure in (ProcessorTimedOut, ReplayedFailure):
        with pytest.raises(failure):
            await post(transport, "failed")
    double.faults["/customers"] = [HELD]
    with pytest.raises(ProcessorTimedOut):
        await post(transport, "held", deadline_at=soon(0.3))
    assert len(double.customers) == 1


async def test_a_connection_that_stripe_closed_meanwhile_costs_nothing(transport: Transport, double: Double) -> None:
    first = await post(transport, "first")
    double.faults["/customers"] = [CUT_AFTER]
    again = await post(transport, "second")
    assert list(double.customers) == [first, again]  # the second request had the first one's key
    double.faults["/customers"] = [CUT_AFTER, CUT_AFTER]
    with pytest.raises(ProcessorTimedOut):
        await post(transport, "third")


async def test_a_request_that_was_turned_away_is_sent_again(transport: Transport, double: Double) -> None:
    double.faults["/customers"] = [BUSY, IN_USE, BUSY]
    await post(transport)
    assert (len(double.requests), len(double.customers)) == (4, 1)
    double.faults["/customers"] = [BUSY] * 4
    with pytest.raises(ProcessorUnavailable):
        await post(transport, "busy")
    double.faults["/customers"] = [BUSY, IN_USE, BUSY, BUSY]  # a request with this key is under way
    with pytest.raises(ProcessorTimedOut):
        await post(transport, "in use")
    assert len(double.customers) == 1


async def test_a_key_that_is_revoked_between_two_tries_leaves_the_first_one_unknown(
    transport: Transport, double: Double
) -> None:
    await post(transport, "first")  # its connection is kept
    for lost in (CUT_AFTER, IN_USE):
        double.faults["/customers"] = [lost, REVOKED]
        with pytest.raises(ProcessorTimedOut):
            await post(transport, lost)
    double.faults["/customers"] = [BUSY, REVOKED]
    with pytest.raises(KeyRefused):
        await post(transport, "busy")
    assert len(double.customers) == 2, "the request whose connection broke was carried out"


async def test_a_refusal_has_stripes_reason_and_a_wrong_key_its_words(transport: Transport, double: Double) -> None:
    with pytest.raises(Refused) as refused:
        await _refused(transport)
    assert (refused.value.status, refused.value.error.code) == (400, "resource_missing")
    double.key = "sk_test_2"
    with pytest.raises(KeyRefused, match=r"Invalid API Key provided: sk_\*\*\*"):
        await post(transport)
    assert "sk_test" not in repr(transport)


async def _refused(transport: Transport) -> Intent:
    form = {"amount": 1_000, "currency": "mxn", "payment_method_types": ["card"]}
    made = await transport.post("/v1/payment_intents", form, Intent, key="i", deadline_at=soon())
    path = f"/v1/payment_intents/{made.id}/confirm"
    return await transport.post(path, {"payment_method": "pm_unknown"}, Intent, key="c", deadline_at=soon())


async def test_a_list_has_all_its_pages(transport: Transport) -> None:
    made = [await post(transport, str(number)) for number in range(5)]
    assert len(set(made)) == 5
    for number in range(5):
        form = {"amount": 1_000 + number, "currency": "mxn", "payment_method_types": ["card"]}
        await transport.post("/v1/payment_intents", form, Intent, key=f"pi{number}", deadline_at=soon())
    listed = [intent.amount async for intent in transport.list("/v1/payment_intents", {}, Intent, deadline_at=soon())]
    assert sorted(listed) == [1_000, 1_001, 1_002, 1_003, 1_004]


async def test_an_answer_that_cannot_be_read_is_unknown(transport: Transport, double: Double) -> None:
    double.account = {"id": 7}
    with pytest.raises(ProcessorTimedOut):
        await transport.get("/v1/account", {}, Customer, deadline_at=soon())


def test_forms_are_written_as_stripe_reads_them() -> None:
    form = {"amount": 1, "confirm": False, "left_out": None, "metadata": {"a b": "1&2"}, "expand": ["x", "y"]}
    assert encoded(form) == "amount=1&confirm=false&metadata%5Ba+b%5D=1%262&expand%5B0%5D=x&expand%5B1%5D=y"
