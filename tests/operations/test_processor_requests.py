"""What a processor is told of a call, and of an earlier one that it is asked about; and what it may add to its answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.operations.conftest import an_order, by_card
from tests.operations.test_action_recovery import order_named, recover, unanswered, wrap
from tests.operations.test_actions import MANUAL

from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.statuses import Advice, OrderStatus
from ledger.domain.orders.terms import BillingAddress, DeviceInformation, MethodType
from ledger.operations.context.inputs import Actor, CaptureInput, CustomerInput, PaymentInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.create import create_order
from ledger.processors.contract import CardToken, Payer

pytestmark = pytest.mark.anyio

ANA = CustomerInput(
    external_id="ana", first_name="Ana", last_name="López", email="ana@example.com", phone_number="+525512345678"
)
ADDRESS = BillingAddress(address="Av. Reforma 1", city="CDMX", postal_code="06600", country="MX")
DEVICE = DeviceInformation(ip_address="203.0.113.9")


def listening(ledger: Ledger, method: str, **changes: Any) -> list[Any]:
    """Returns the requests to a method of the processor as they come. Its answers have these changes."""
    requests: list[Any] = []

    def around(call: Any) -> Any:
        async def heard(request: Any) -> Any:
            requests.append(request)
            answer = await call(request)
            return replace(answer, **changes) if changes else answer

        return heard

    wrap(ledger, method, around)
    return requests


async def test_a_request_names_its_payer_only_to_a_processor_that_makes_use_of_him(
    ledger: Ledger, merchant: Actor
) -> None:
    processor: Any = ledger.processors.sandbox
    cards, references = listening(ledger, "authorize"), listening(ledger, "issue_reference")
    payment = by_card(billing_address=ADDRESS, device_information=DEVICE, description="part 1")
    spei = PaymentInput(type=MethodType.SPEI)
    await create_order(ledger, merchant, an_order("1", payment, customer=ANA, description="chairs"))
    assert (cards[0].payer, cards[0].description, cards[0].device) == (None, "part 1", DEVICE)
    processor.capabilities = replace(processor.capabilities, reads_payers=True)
    await create_order(ledger, merchant, an_order("2", payment, customer=ANA))
    await create_order(ledger, merchant, an_order("3", spei, customer=ANA, billing_address=ADDRESS, description="x"))
    ana = Payer(name="Ana López", email="ana@example.com", phone="+525512345678", address=ADDRESS)
    assert [cards[1].payer, references[0].payer] == [ana, ana]
    assert references[0].description == "x"
    assert "Ana" not in repr(cards[1])
    assert "tok_1" not in repr(CardToken(token="tok_1", customer="cus_1"))
    assert str(ana) == "Payer(***)"


async def test_a_look_up_says_what_the_log_knows_of_the_call(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    authorizations, captures = listening(ledger, "look_up"), listening(ledger, "look_up_capture")
    wrap(ledger, "authorize", unanswered)
    wrap(ledger, "capture", unanswered)
    before = datetime.now(UTC)
    await create_order(ledger, merchant, an_order("1", by_card(), **MANUAL))
    await recover(database_url, ledger)
    held = (await order_named(ledger, merchant, "1")).payments[0]
    await capture_order(ledger, merchant, "1", CaptureInput(final=True))
    await recover(database_url, ledger)
    [first], [second] = authorizations, captures
    assert (first.step, first.amount, first.currency, first.capture) == (
        EntryAction.AUTHORIZATION,
        10_000,
        "MXN",
        False,
    )
    assert first.processor_reference is None
    assert abs(first.announced_at - before) < timedelta(seconds=30)
    assert (second.step, second.amount, second.final) == (EntryAction.CAPTURE, 10_000, True)
    assert (second.processor_reference, second.payment_id) == (held.processor_reference, held.payment_id)
    assert second.deadline_at > before
    assert (await order_named(ledger, merchant, "1")).status is OrderStatus.COMPLETED


async def test_an_answer_may_have_times_of_its_own_and_say_what_the_network_says(
    ledger: Ledger, merchant: Actor
) -> None:
    usual = (await create_order(ledger, merchant, an_order("1", by_card(), **MANUAL))).order
    listening(ledger, "authorize", validity_s=3_600, network_transaction_id="MCC1")
    short = (await create_order(ledger, merchant, an_order("2", by_card(), **MANUAL))).order
    for order, validity in ((usual, timedelta(days=7)), (short, timedelta(hours=1))):
        assert order.payments[0].lapses_at == order.updated_at + validity
    events = await ledger.journal.reader.stream(merchant.merchant_id, short.terms.order_id)
    assert [e.network_transaction_id for e in events if type(e).__name__ == "PaymentAuthorized"] == ["MCC1"]


async def test_the_networks_advice_is_recorded_with_the_decline(ledger: Ledger, merchant: Actor) -> None:
    listening(ledger, "authorize", network_advice=Advice.DO_NOT_RETRY)
    failed = (await create_order(ledger, merchant, an_order("1", by_card("4000000000009995")))).order
    failure = failed.payments[0].failure
    assert failure is not None
    assert (failure.code, failure.network_advice) == ("INSUFFICIENT_FUNDS", Advice.DO_NOT_RETRY)
