"""Cases of tokens, and of the list of what a processor has done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.processors.contract.account import AccountUnderTest, CardKind, Need
from tests.processors.contract.cases import case, failure_of

from ledger.domain.orders.processor_outcomes import Approved
from ledger.processors.contract import CardToken, ProcessorUnavailable, TokenRequest


async def _token(at: AccountUnderTest, kind: CardKind = CardKind.APPROVED) -> CardToken:
    card = await at.card(kind)
    assert isinstance(card, CardToken)
    return card


@case(CardKind.APPROVED)
async def a_token_shows_its_card(at: AccountUnderTest) -> None:
    shown = await at.read((await _token(at)).token)
    assert shown is not None
    card = shown.summary
    assert (card.brand, card.last4) == ("VISA", "4242")
    assert card.exp_month in range(1, 13)
    assert card.exp_year >= datetime.now(UTC).year


@case()
async def an_unknown_token_shows_no_card(at: AccountUnderTest) -> None:
    for token in ("pm_unknown", "tok_unknown", "../customers", "pm_x/../..", "", "4242424242424242"):
        assert await at.read(token) is None, token


@case(CardKind.APPROVED, Need.OWN_TOKENS)
async def a_token_of_another_account_is_unknown(at: AccountUnderTest) -> None:
    other = await at.elsewhere()
    [method] = [await _own(other)]
    assert await other.read(method) is not None
    assert await at.read(method) is None
    refused = await at.processor.authorize(await at.payment(card=CardToken(token=method)))
    assert not isinstance(refused, Approved)
    assert await at.done() == []


async def _own(at: AccountUnderTest) -> str:
    """Returns a token that only this account knows."""
    made = await at.ask("POST", "/v1/payment_methods", type="card", **{"card[token]": "tok_visa"})  # type: ignore[attr-defined]
    return str(made["id"])


@case(CardKind.SAVED)
async def a_saved_cards_token_is_its_customers(at: AccountUnderTest) -> None:
    card = await _token(at, CardKind.SAVED)
    assert await at.read(card.token, card.customer) is not None
    assert await at.read(card.token) is None
    assert await at.read(card.token, "cus_other") is None


@case(CardKind.USED_ONCE)
async def a_used_token_shows_no_card(at: AccountUnderTest) -> None:
    card = await _token(at, CardKind.USED_ONCE)
    assert await at.read(card.token) is not None
    assert await at.read(f"{card.token}x") is None
    request = await at.payment(card=card, authenticate=True, return_url="https://shop.example/back")
    assert isinstance(await at.processor.authorize(request), Approved)
    assert await at.read(card.token) is None


@case(CardKind.APPROVED, Need.TOKENS_ONLY)
async def a_token_cannot_be_read_while_the_processor_is_away(at: AccountUnderTest) -> None:
    asked = TokenRequest(
        merchant_id=at.merchant_id,
        token=await _token(at),
        deadline_at=datetime.now(UTC) + timedelta(seconds=20),
    )
    async with at.away() as away:
        assert isinstance(await failure_of(away.read_token(asked)), ProcessorUnavailable)


@case(CardKind.APPROVED)
async def every_call_that_moved_money_is_listed_once(at: AccountUnderTest) -> None:
    paid = await at.payment()
    first = await at.processor.authorize(paid)
    assert isinstance(first, Approved)
    refund = at.refund(first.processor_reference, 4_000)
    await at.processor.refund(refund)
    capture, void = at.capture(await at.authorized(), 6_000, final=True), at.void(await at.authorized())
    await at.processor.capture(capture)
    await at.processor.void(void)
    await at.processor.authorize(await at.payment(capture=False))
    assert {record.idempotency_key: record.processor_reference for record in await at.records()} == {
        paid.idempotency_key: first.processor_reference,
        refund.idempotency_key: first.processor_reference,
        capture.idempotency_key: capture.processor_reference,
        void.idempotency_key: void.processor_reference,
    }
    assert await at.done() == sorted(
        [
            (paid.idempotency_key, 10_000, 0, False),
            (refund.idempotency_key, 0, 4_000, False),
            (capture.idempotency_key, 6_000, 0, False),
            (void.idempotency_key, 0, 0, True),
        ]
    )


@case(CardKind.APPROVED)
async def lists_have_bounds_that_neither_overlap_nor_leave_a_gap(at: AccountUnderTest) -> None:
    request = await at.payment()
    await at.processor.authorize(request)
    [record] = await at.records()
    second = timedelta(seconds=1)
    assert await at.records(record.recorded_at, record.recorded_at + second) == [record]
    assert await at.records(record.recorded_at - second, record.recorded_at) == []
    assert await at.records(record.recorded_at + second, record.recorded_at + 2 * second) == []
    start = record.recorded_at - second * 1.5
    slices = [await at.records(start + second * n / 2, start + second * (n + 1) / 2) for n in range(6)]
    assert [found for some in slices for found in some] == [record]


@case(CardKind.APPROVED)
async def an_account_that_answers_is_alive(at: AccountUnderTest) -> None:
    assert at.processor.alive
    assert at.processor.capabilities.late_arrival_s > 0
    assert at.processor.capabilities.methods
