"""Cards that came as tokens: saved at their processor, charged there again, and forgotten there."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs
from tests.background.test_recovery import AFTERWARDS, sweep
from tests.operations.conftest import an_order
from tests.operations.test_erasure import log_and_rows
from tests.operations.test_saved_cards import ADDRESS, Seen, by_saved, method_of, saved_methods
from tests.operations.test_sealing import fetch, places_of

from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.orders.terms import MethodType
from ledger.domain.payment_methods.state import stream_of
from ledger.domain.rejections import CardTokenInvalid, ChargeRefused, MethodNotEnabled, PaymentMethodNotFound
from ledger.operations.context.inputs import AccountToken, Actor, PaymentInput, ValidateInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.authenticate import validate
from ledger.operations.orders.create import create_order
from ledger.operations.payment_methods.change import delete_payment_method
from ledger.operations.payment_methods.complete import look_up_verification
from ledger.operations.payment_methods.sweep import sweep_cards
from ledger.operations.payment_methods.verify import resume_verification, verify_and_save
from ledger.operations.pipeline.calls import LookUp
from ledger.operations.processor_accounts.connect import ConnectInput, connect_account
from ledger.operations.processor_accounts.disconnect import disconnect_account
from ledger.processors.contract import CardToken, ForgetCardRequest, ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.registry import AccountKeys
from projections.erasures import Erasures

pytestmark = pytest.mark.anyio

NOW = LookUp(late_s=0.0, timeout_s=5.0)


def by_token(token: str = "tok_visa", account: str = "sandbox", **changes: Any) -> PaymentInput:
    tokens = (AccountToken(account=account, token=CardToken(token=token)),)
    return PaymentInput(type=MethodType.CARD, card_tokens=tokens, **{"persist": True, **changes})


def references(url: str, what: str = "payment_method_id") -> list[Any]:
    return [value for (value,) in fetch(url, f"select {what} from payment_method_reference order by kept_at")]


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def kept_at_the_processor(url: str) -> int:
    return len(fetch(url, "select 1 from sandbox_saved_card"))


async def test_a_card_by_token_is_saved_at_its_processor_and_charged_there_without_a_vault(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.vault = None
    await connect_account(ledger, merchant, "second", ConnectInput(processor="sandbox", keys=AccountKeys()))
    with capture_logs() as logs:
        first = await create_order(ledger, merchant, an_order("1", by_token(account="second", billing_address=ADDRESS)))
        (method,) = (await saved_methods(ledger, merchant, first)).live
        assert (method.payment_method_id, method.account, method.is_default) == (method_of(first), "second", True)
        assert method.card is not None
        assert (method.card.last4, method.card.exp_year, method.billing.city) == ("4242", 2040, "Puebla")
        seen = Seen(ledger, monkeypatch)
        later = await create_order(ledger, merchant, an_order("2", by_saved(method_of(first), virtual_terminal=True)))
    assert (later.order.status, later.order.payments[0].account) == (OrderStatus.COMPLETED, "second")
    assert seen.requests == [], "only the account that keeps the card is asked"
    again = await create_order(ledger, merchant, an_order("3", by_token(account="second")))
    assert method_of(again) == method_of(first), "the same card at the same account is the same method"
    assert references(database_url) == [method_of(first)]
    (token,) = references(database_url, "token")
    assert {table for table, _ in places_of(database_url, (token,))} == {
        "payment_method_reference",
        "sandbox_saved_card",
    }
    assert token not in repr(logs)
    await disconnect_account(ledger, merchant, "second")
    with pytest.raises(MethodNotEnabled) as refused:
        await create_order(ledger, merchant, an_order("4", by_saved(method_of(first))))
    reasons = {each["account"]: each["reason"] for each in refused.value.facts["accounts"]}
    assert reasons == {"sandbox": "does not keep the saved card", "second": "is disconnected"}
    expected, actual = await log_and_rows(database_url, merchant)
    assert expected == actual


async def test_a_card_is_saved_once_its_payment_is_approved_and_not_before(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    declined = await create_order(ledger, merchant, an_order("1", by_token("tok_declined")))
    assert declined.order.status is OrderStatus.FAILED
    asked = await create_order(ledger, merchant, an_order("2", by_token("tok_challenge")))
    assert references(database_url) == []
    session = asked.order.payments[0].session
    assert session is not None
    await validate(ledger, merchant, "2", ValidateInput(transaction_id=session.transaction_id))
    silent = await create_order(ledger, merchant, an_order("3", by_token("tok_no_answer")))
    assert silent.order.status is OrderStatus.PROCESSING
    assert references(database_url) == [method_of(asked)]
    await sweep(ledger, database_url, AFTERWARDS)
    methods = await saved_methods(ledger, merchant, asked)
    assert [each.payment_method_id for each in methods.live] == [method_of(asked), method_of(silent)]
    assert references(database_url) == [method_of(asked), method_of(silent)]


async def test_a_deleted_or_erased_card_is_forgotten_by_its_processor(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await create_order(ledger, merchant, an_order("1", by_token()))
    await create_order(ledger, merchant, an_order("2", by_token("tok_mastercard")))
    customer_id = first.customer.customer_id
    await delete_payment_method(ledger, merchant, customer_id, method_of(first))
    await ledger.drain()
    assert (len(references(database_url)), kept_at_the_processor(database_url)) == (1, 1)
    with pytest.raises(PaymentMethodNotFound):
        await create_order(ledger, merchant, an_order("3", by_saved(method_of(first))))
    again = await create_order(ledger, merchant, an_order("4", by_token()))
    assert method_of(again) != method_of(first), "a deleted method does not come back"

    async def away(_: ForgetCardRequest) -> None:
        raise ProcessorUnavailable("the processor is away")

    assert ledger.processors.sandbox is not None
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(ledger.processors.sandbox, "forget_card", away)
        async with Erasures(database_url) as payers:
            await delete_customer(ledger, merchant, "ana", payers.orders_of)
        await ledger.drain()
        assert await sweep_cards(ledger) == 0, "what was touched lately is left to those who do it"
        await sweep_cards(ledger, age_s=0.0)
        assert [each["event"] for each in logs].count("card_not_forgotten") == 4
        assert (len(references(database_url)), kept_at_the_processor(database_url)) == (2, 2)
    await sweep_cards(ledger, age_s=0.0)
    assert (references(database_url), kept_at_the_processor(database_url)) == ([], 0)


async def test_a_processor_that_stays_away_is_not_asked_for_ever(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await create_order(ledger, merchant, an_order("1", by_token()))

    async def away(_: ForgetCardRequest) -> None:
        raise ProcessorTimedOut("no answer")

    assert ledger.processors.sandbox is not None
    monkeypatch.setattr(ledger.processors.sandbox, "forget_card", away)
    await delete_payment_method(ledger, merchant, first.customer.customer_id, method_of(first))
    await ledger.drain()
    assert references(database_url) == [method_of(first)]
    execute(database_url, "update payment_method_reference set unsettled_at = now() - interval '8 days'")
    await sweep_cards(ledger, age_s=0.0)
    assert references(database_url) == []


async def test_the_sweep_settles_what_is_saved_and_forgets_the_rest(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    first = await create_order(ledger, merchant, an_order("1", by_token()))
    orphan = """insert into payment_method_reference (merchant_id, payment_method_id, token, customer_id, account)
                select merchant_id, gen_random_uuid(), 'card_orphan', customer_id, account from payment_method_reference"""
    earlier = """insert into payment_method_reference
                   (merchant_id, payment_method_id, token, customer_id, account, settled, kept_at)
                 select merchant_id, payment_method_id, 'card_earlier', customer_id, account, true, kept_at - interval '1 day'
                   from payment_method_reference"""
    execute(database_url, earlier)
    execute(database_url, orphan + " where token <> 'card_earlier'")
    await sweep_cards(ledger, age_s=0.0)
    await sweep_cards(ledger, age_s=0.0)
    rows = fetch(database_url, "select payment_method_id, settled from payment_method_reference")
    assert rows == [(method_of(first), True)]
    paid = await create_order(ledger, merchant, an_order("2", by_saved(method_of(first))))
    assert paid.order.status is OrderStatus.COMPLETED


async def test_a_card_by_token_is_verified_and_saved_without_a_payment(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.vault = None
    made = await create_order(ledger, merchant, an_order("1"))
    saved = await verify_and_save(ledger, merchant, "ana", by_token(), is_default=False)
    method = saved.methods.method(saved.payment_method_id)
    assert method is not None
    assert (method.account, references(database_url)) == ("sandbox", [saved.payment_method_id])
    same = await verify_and_save(ledger, merchant, "ana", by_token(), is_default=False)
    assert (same.payment_method_id, same.created) == (saved.payment_method_id, False)
    asked = await verify_and_save(ledger, merchant, "ana", by_token("tok_challenge"), is_default=True)
    open_one = asked.methods.open_verification(asked.payment_method_id)
    assert open_one is not None
    assert open_one.session is not None
    customer_id, returned = made.customer.customer_id, ValidateInput(transaction_id=open_one.session.transaction_id)
    answered = await resume_verification(ledger, merchant, customer_id, asked.payment_method_id, returned)
    assert answered.methods.method(asked.payment_method_id) is not None
    paid = await create_order(ledger, merchant, an_order("2", by_saved(asked.payment_method_id, virtual_terminal=True)))
    assert paid.order.status is OrderStatus.COMPLETED
    for token, refusal in (("tok_declined", ChargeRefused), ("tok_unknown", CardTokenInvalid)):
        with pytest.raises(refusal):
            await verify_and_save(ledger, merchant, "ana", by_token(token), is_default=False)
    silent = await verify_and_save(ledger, merchant, "ana", by_token("tok_no_answer"), is_default=False)
    stream = stream_of(customer_id)
    assert await look_up_verification(ledger, merchant.merchant_id, stream, silent.payment_method_id, NOW)
    live = (await saved_methods(ledger, merchant, made)).live
    assert [each.payment_method_id for each in live] == references(database_url)
    assert len(live) == 3
