"""How the sandbox processor answers by card, and by the mode that a merchant has chosen."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest
from stdnum import luhn
from tests.processors.conftest import Ask
from tests.processors.shop import question
from uuid_utils.compat import uuid7

from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.processor_outcomes import Approved, Declined
from ledger.processors.contract import CardProcessor, ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.sandbox.test_cards import TEST_CARDS

pytestmark = pytest.mark.anyio


def test_every_test_card_is_a_valid_card_number():
    assert all(luhn.is_valid(number) for number in TEST_CARDS)


async def test_it_implements_the_contract_of_a_card_processor(sandbox: SandboxProcessor):
    processor: CardProcessor = sandbox
    assert processor.capabilities.name == "sandbox"
    assert processor.capabilities.late_arrival_s == 60


APPROVED_CARDS = [
    "4242424242424242",
    "4111111111111111",
    "5555555555554444",
    "378282246310005",
    "4000000000003220",
    "4000000000003055",
    "4000000000003063",
    "4000000000005126",
    "4000000000007726",
    "4000000000000259",
    "4000000000000341",
    "4000000000000358",
    "4000000000007007",
    "4000000000007023",
]


async def test_a_card_is_approved_and_captured_in_one_call(sandbox: SandboxProcessor, ask: Ask):
    answers = [await sandbox.authorize(ask(number)) for number in APPROVED_CARDS]
    assert {type(answer) for answer in answers} == {Approved}
    assert {(answer.authorized, answer.captured) for answer in answers} == {(10_000, 10_000)}
    assert {answer.processor_reference[:4] for answer in answers} == {"sbx_"}
    assert {len(answer.authorization_code) for answer in answers} == {6}
    assert len({answer.processor_reference for answer in answers}) == len(APPROVED_CARDS)


async def test_a_card_is_only_authorised_without_a_request_to_capture(sandbox: SandboxProcessor, ask: Ask):
    answer = await sandbox.authorize(ask(capture=False))
    assert (answer.authorized, answer.captured) == (10_000, 0)


DECLINES = {
    "4000000000000002": "GENERIC_DECLINE",
    "4000000000009995": "INSUFFICIENT_FUNDS",
    "4000000000009987": "CARD_LOST_OR_STOLEN",
    "4000000000009979": "CARD_LOST_OR_STOLEN",
    "4000000000000069": "CARD_EXPIRED",
    "4000000000000127": "INVALID_CVV",
    "4000000000009235": "ISSUER_UNAVAILABLE",
}


async def test_a_card_is_declined_by_its_issuer(sandbox: SandboxProcessor, ask: Ask):
    answers = {number: await sandbox.authorize(ask(number)) for number in DECLINES}
    assert {number: answer.code for number, answer in answers.items()} == DECLINES
    assert all(answer.refused_by is RefusedBy.ISSUER and answer.message for answer in answers.values())


async def test_a_card_is_refused_by_the_risk_rules(sandbox: SandboxProcessor, ask: Ask):
    answer = await sandbox.authorize(ask("4100000000000019"))
    assert isinstance(answer, Declined)
    assert (answer.code, answer.refused_by) == ("SUSPECTED_FRAUD", RefusedBy.RISK)


HALVES = {"10000": "5000", "3": "2", "150.75": "75", "1": "1", "0.4": "0.4", "999999999999": "500000000000"}


async def test_a_partial_approval_grants_half_in_whole_minor_units(sandbox: SandboxProcessor, ask: Ask):
    for asked, granted in HALVES.items():
        answer = await sandbox.authorize(ask("4000000000000010", amount=Decimal(asked)))
        assert (answer.authorized, answer.captured) == (Decimal(granted), Decimal(granted)), asked


async def test_a_card_whose_captures_are_refused_is_only_authorised(sandbox: SandboxProcessor, ask: Ask):
    answer = await sandbox.authorize(ask("4000000000007015"))
    assert (answer.authorized, answer.captured) == (10_000, 0)


async def test_a_card_that_never_answers_is_approved_nevertheless(sandbox: SandboxProcessor, ask: Ask):
    request = ask("4000000000000119")
    began = time.monotonic()
    with pytest.raises(ProcessorTimedOut):
        await sandbox.authorize(request)
    assert time.monotonic() - began >= 0.05
    answer = await sandbox.look_up(question(request.merchant_id, request.idempotency_key))
    assert (answer.authorized, answer.captured) == (10_000, 10_000)


async def test_a_call_without_an_answer_ends_at_its_deadline(executor, ask: Ask):
    slow = SandboxProcessor(executor, delay_s=5)
    request = ask(deadline_s=0.2)
    began = time.monotonic()
    with pytest.raises(ProcessorTimedOut):
        await slow.authorize(request)
    assert 0.15 < time.monotonic() - began < 2
    assert isinstance(await slow.look_up(question(request.merchant_id, request.idempotency_key)), Approved)


async def test_a_request_whose_deadline_has_passed_is_not_recorded(sandbox: SandboxProcessor, ask: Ask):
    request = ask(deadline_s=-1)
    with pytest.raises(ProcessorTimedOut):
        await sandbox.authorize(request)
    assert await sandbox.look_up(question(request.merchant_id, request.idempotency_key)) is None


async def test_a_processor_that_is_down_records_nothing(sandbox: SandboxProcessor, ask: Ask):
    request = ask()
    await sandbox.set_mode(request.merchant_id, Mode.DOWN)
    for _ in range(3):
        with pytest.raises(ProcessorUnavailable):
            await sandbox.authorize(request)
    assert await sandbox.look_up(question(request.merchant_id, request.idempotency_key)) is None
    await sandbox.set_mode(request.merchant_id, Mode.OK)
    assert isinstance(await sandbox.authorize(request), Approved)


async def test_a_mode_holds_for_the_given_number_of_calls(sandbox: SandboxProcessor, ask: Ask):
    await sandbox.set_mode(ask().merchant_id, Mode.DOWN, times=2)
    for _ in range(2):
        with pytest.raises(ProcessorUnavailable):
            await sandbox.authorize(ask())
    assert isinstance(await sandbox.authorize(ask()), Approved)


async def test_a_mode_does_not_affect_another_merchant(sandbox: SandboxProcessor, ask: Ask):
    await sandbox.set_mode(ask().merchant_id, Mode.DOWN)
    assert isinstance(await sandbox.authorize(ask(merchant_id=uuid7())), Approved)


async def test_a_mode_holds_in_every_process(sandbox, elsewhere, ask: Ask):
    await sandbox.set_mode(ask().merchant_id, Mode.DOWN, times=1)
    with pytest.raises(ProcessorUnavailable):
        await elsewhere.authorize(ask())
    assert isinstance(await sandbox.authorize(ask()), Approved)


async def test_a_slow_processor_answers_late_and_right(sandbox: SandboxProcessor, ask: Ask):
    await sandbox.set_mode(ask().merchant_id, Mode.SLOW, times=1)
    began = time.monotonic()
    assert isinstance(await sandbox.authorize(ask()), Approved)
    assert time.monotonic() - began >= 0.2
    began = time.monotonic()
    await sandbox.authorize(ask())
    assert time.monotonic() - began < 0.2
