"""Saved cards: kept in the vault, charged from it, deleted and erased with it, and what a crash in between leaves."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from msgspec.structs import replace
from tests.operations.conftest import APPROVED, DECLINED, Open, an_order, by_card, register
from tests.operations.test_erasure import log_and_rows
from tests.operations.test_sealing import fetch, places_of
from uuid_utils.compat import uuid7

from ledger.background.erasure import ErasureSweep
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.terms import BillingAddress, MethodType
from ledger.domain.payment_methods.state import SavedMethods, stream_of
from ledger.domain.rejections import (
    CustomerNotFound,
    MethodNotEnabled,
    PaymentMethodExpired,
    PaymentMethodNotFound,
)
from ledger.domain.streams import PAYMENT_METHODS
from ledger.journal.append import SealBroken
from ledger.operations.context.card_vault import VaultMissing
from ledger.operations.context.inputs import Actor, CustomerFields, CustomerInput, PaymentInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult
from ledger.operations.customers.change import change_customer
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.add_payment import add_payment
from ledger.operations.orders.create import charge_order, create_order
from ledger.operations.payment_methods.change import MethodUpdate, delete_payment_method, update_payment_method
from ledger.operations.payment_methods.sweep import sweep_cards
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.processors.contract import AuthorizationRequest, ProcessorUnavailable
from ledger.processors.saved_card import SecurityCode
from ledger.vault.vault import Vault
from projections.erasures import Erasures

pytestmark = pytest.mark.anyio

OTHER = "5555555555554444"
ADDRESS = BillingAddress(address="Av. Juárez 1", city="Puebla", postal_code="72000", country="MX")


def by_saved(method_id: UUID | str, **changes: Any) -> PaymentInput:
    return PaymentInput(type=MethodType.CARD, saved_method_id=str(method_id), **changes)


def method_of(result: OrderResult) -> UUID:
    return result.order.payments[-1].started.method.method_id


async def saved_methods(ledger: Ledger, merchant: Actor, result: OrderResult) -> SavedMethods:
    methods, _ = await ledger.journal.load(
        merchant.merchant_id, PAYMENT_METHODS, stream_of(result.customer.customer_id)
    )
    assert methods is not None
    return methods


async def save(ledger: Ledger, merchant: Actor, name: str, number: str = APPROVED, **changes: Any) -> OrderResult:
    payment = by_card(number, persist=True, billing_address=ADDRESS)
    return await create_order(ledger, merchant, an_order(name, payment, **changes))


def cards(url: str, what: str = "payment_method_id") -> list[Any]:
    return [value for (value,) in fetch(url, f"select {what} from vault_card order by payment_method_id")]


class Seen:
    """Records the authorisations that the processor is asked for."""

    def __init__(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[AuthorizationRequest] = []
        processor = ledger.processors.sandbox
        assert processor is not None
        authorize = processor.authorize

        async def recorded(request: AuthorizationRequest) -> Any:
            self.requests.append(request)
            return await authorize(request)

        monkeypatch.setattr(processor, "authorize", recorded)


async def test_a_card_is_saved_with_a_new_order_a_charge_and_an_added_payment(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    first = await save(ledger, merchant, "1")
    await create_order(ledger, merchant, an_order("2"))
    second = await charge_order(ledger, merchant, "2", by_card(OTHER, persist=True))
    await create_order(ledger, merchant, an_order("3", allow_partials=True))
    third = await add_payment(
        ledger, merchant, "3", by_card("378282246310005", persist=True, amount=Decimal(100), external_id="p")
    )
    methods = await saved_methods(ledger, merchant, first)
    ids = [method_of(result) for result in (first, second, third)]
    assert [method.payment_method_id for method in methods.live] == ids
    assert {method.is_default for method in methods.live[1:]} == {False}
    assert cards(database_url) == sorted(ids)
    assert methods.live[0].billing.address_line1 == "Av. Juárez 1"


async def test_a_saved_card_pays_by_the_number_that_the_vault_opens(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    method_id = method_of(await save(ledger, merchant, "1"))
    seen = Seen(ledger, monkeypatch)
    paid = await create_order(ledger, merchant, an_order("2", by_saved(method_id, saved_cvc=SecurityCode("737"))))
    assert (paid.order.status, method_of(paid)) == (OrderStatus.COMPLETED, method_id)
    (request,) = seen.requests
    assert (request.card.number, request.card.cvc, request.saved_card) == (APPROVED, "737", True)
    started = paid.order.payments[0].started
    assert started.billing_address == ADDRESS
    assert started.method.card is not None
    assert (started.method.card.last4, started.method.card.brand) == ("4242", "VISA")
    await create_order(ledger, merchant, an_order("3", allow_partials=True))
    part = await add_payment(ledger, merchant, "3", by_saved(method_id, amount=Decimal(100)))
    rest = await charge_order(ledger, merchant, "3", by_saved(method_id))
    assert (part.order.status, rest.order.status) == (OrderStatus.PARTIALLY_PAID, OrderStatus.COMPLETED)
    assert [each.card.cvc for each in seen.requests[1:]] == [None, None]


@pytest.mark.parametrize(
    ("number", "code"), [("4000000000000341", "GENERIC_DECLINE"), ("4000000000000358", "CARD_LOST_OR_STOLEN")]
)
async def test_cards_that_work_only_when_their_number_is_sent(
    ledger: Ledger, merchant: Actor, number: str, code: str
) -> None:
    first = await save(ledger, merchant, "1", number)
    assert first.order.status is OrderStatus.COMPLETED
    for n in range(2, 4):
        later = await create_order(ledger, merchant, an_order(f"{n}", by_saved(method_of(first))))
        payment = later.order.payments[0]
        assert payment.status is PaymentStatus.FAILED
        assert payment.failure is not None
        assert payment.failure.code == code
    again = await save(ledger, merchant, "4", number)
    assert (again.order.status, method_of(again)) == (OrderStatus.COMPLETED, method_of(first))


async def test_the_same_card_is_one_method_with_the_newest_expiry(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    first = await save(ledger, merchant, "1")
    renewed = by_card(persist=True)
    assert renewed.card_summary is not None
    renewed = replace(renewed, card_summary=replace(renewed.card_summary, exp_month=5, exp_year=2039))
    second = await create_order(ledger, merchant, an_order("2", renewed))
    assert method_of(second) == method_of(first)
    (method,) = (await saved_methods(ledger, merchant, first)).live
    assert method.card is not None
    assert (method.card.exp_month, method.card.exp_year) == (5, 2039)
    other = await save(ledger, merchant, "3", customer=CustomerInput(external_id="beto"))
    assert method_of(other) != method_of(first)
    assert len(set(cards(database_url, "fingerprint"))) == 2, "equal numbers of two customers have different hashes"


async def test_a_declined_card_stays_saved_and_a_repeated_request_saves_nothing_more(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    declined = await save(ledger, merchant, "1", DECLINED)
    assert declined.order.status is OrderStatus.FAILED
    paid = await save(ledger, merchant, "1", OTHER)
    assert paid.order.status is OrderStatus.COMPLETED
    assert len(cards(database_url)) == 2
    shown = await save(ledger, merchant, "1", "378282246310005")
    assert (shown.replayed, len(cards(database_url))) == (True, 2), "the order is paid: no third card is kept"


async def test_a_method_of_another_customer_or_merchant_is_not_found(ledger: Ledger, merchant: Actor) -> None:
    method_id = method_of(await save(ledger, merchant, "1"))
    stranger = await register(ledger)
    beto = CustomerInput(external_id="beto")
    await create_order(ledger, merchant, an_order("waiting", customer=beto))
    tries = [
        create_order(ledger, merchant, an_order("2", by_saved(method_id), customer=beto)),
        create_order(ledger, stranger, an_order("2", by_saved(method_id))),
        create_order(ledger, merchant, an_order("3", by_saved(uuid7()))),
        create_order(ledger, merchant, an_order("4", by_saved("no-uuid"))),
        charge_order(ledger, merchant, "waiting", by_saved(method_id)),
    ]
    for attempt in tries:
        with pytest.raises(PaymentMethodNotFound):
            await attempt
    assert (await charge_order(ledger, merchant, "waiting", by_card())).order.status is OrderStatus.COMPLETED


async def test_an_expired_saved_card_is_refused_before_anything_happens(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired = by_card(persist=True)
    assert expired.card_summary is not None
    summary = replace(expired.card_summary, exp_month=1, exp_year=2020)
    first = await create_order(ledger, merchant, an_order("1", replace(expired, card_summary=summary)))
    seen = Seen(ledger, monkeypatch)
    with pytest.raises(PaymentMethodExpired):
        await create_order(ledger, merchant, an_order("2", by_saved(method_of(first))))
    assert seen.requests == []
    await save(ledger, merchant, "3")
    paid = await create_order(ledger, merchant, an_order("2", by_saved(method_of(first))))
    assert (paid.created, paid.order.status) == (True, OrderStatus.COMPLETED), "saved again with its new expiry"


async def test_a_key_is_not_answered_with_a_method_that_was_deleted_since(ledger: Ledger, merchant: Actor) -> None:
    """Also where the method was found before it was deleted."""
    first = await save(ledger, merchant, "1")
    method_id, customer_id = method_of(first), first.customer.customer_id
    update, key = MethodUpdate(billing={"city": "Oaxaca"}), IdempotencyKey("k-1", "f")
    for replayed in (False, True):
        updated = await update_payment_method(ledger, merchant, customer_id, method_id, update, key)
        assert (updated.methods.live[0].billing.city, updated.replayed) == ("Oaxaca", replayed)
    await delete_payment_method(ledger, merchant, customer_id, method_id)
    with pytest.raises(PaymentMethodNotFound):
        await update_payment_method(ledger, merchant, customer_id, method_id, update, key)


async def test_a_deleted_method_is_gone_from_the_vault_and_its_orders_stay(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    first = await save(ledger, merchant, "1")
    method_id, customer_id = method_of(first), first.customer.customer_id
    await delete_payment_method(ledger, merchant, customer_id, method_id)
    assert cards(database_url) == []
    assert fetch(database_url, "select doc from payment_method") == [(None,)]
    for attempt in (
        create_order(ledger, merchant, an_order("2", by_saved(method_id))),
        delete_payment_method(ledger, merchant, customer_id, method_id),
        update_payment_method(ledger, merchant, customer_id, method_id, MethodUpdate(billing={"city": "x"})),
    ):
        with pytest.raises(PaymentMethodNotFound):
            await attempt
    again = await save(ledger, merchant, "3")
    assert method_of(again) != method_id, "a deleted method does not come back"
    shown = await create_order(ledger, merchant, an_order("1", by_saved(method_id)))
    assert (shown.replayed, shown.order.status) == (True, OrderStatus.COMPLETED)


async def test_an_order_whose_card_is_deleted_is_shown_with_its_customer_as_another_process_has_changed_it(
    ledger: Ledger, merchant: Actor, open_another: Open
) -> None:
    first = await save(ledger, merchant, "1")
    other = await open_another()
    await delete_payment_method(other, merchant, first.customer.customer_id, method_of(first))
    await change_customer(other, merchant, "ana", CustomerFields(email="new@example.com"))
    shown = await create_order(ledger, merchant, an_order("1", by_saved(method_of(first))))
    assert (shown.replayed, shown.customer.email) == (True, "new@example.com")


async def test_a_method_deleted_between_the_intent_and_its_call_charges_nothing(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await save(ledger, merchant, "1")
    vault, seen = ledger.vault, Seen(ledger, monkeypatch)
    assert isinstance(vault, Vault)
    opened = vault.open

    async def late(merchant_id: UUID, method_id: UUID, payment_id: UUID) -> str | None:
        await delete_payment_method(ledger, merchant, first.customer.customer_id, method_id)
        return await opened(merchant_id, method_id, payment_id)

    monkeypatch.setattr(vault, "open", late)
    with pytest.raises(PaymentMethodNotFound):
        await create_order(ledger, merchant, an_order("2", by_saved(method_of(first))))
    assert seen.requests == []
    paid = await create_order(ledger, merchant, an_order("2", by_card()))
    assert (paid.order.status, len(paid.order.payments)) == (OrderStatus.COMPLETED, 2)


async def test_a_method_deleted_before_the_intents_commit_is_not_charged_although_its_number_is_still_there(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await save(ledger, merchant, "1")
    vault, seen, commit = ledger.vault, Seen(ledger, monkeypatch), UnitOfWork.commit
    assert isinstance(vault, Vault)
    deleted = []

    async def nothing(*_: object) -> None:
        """The deletion's last step has not come yet."""

    async def after_a_deletion(uow: UnitOfWork, plan: Plan, calls: int = 0) -> None:
        if not deleted:
            deleted.append(True)
            await delete_payment_method(ledger, merchant, first.customer.customer_id, method_of(first))
        await commit(uow, plan, calls)

    monkeypatch.setattr(vault, "destroy", nothing)
    monkeypatch.setattr(UnitOfWork, "commit", after_a_deletion)
    with pytest.raises(PaymentMethodNotFound):
        await create_order(ledger, merchant, an_order("2", by_saved(method_of(first))))
    assert seen.requests == []


async def test_a_card_saved_again_before_its_deletion_has_ended_gets_a_new_method(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await save(ledger, merchant, "1")
    vault = ledger.vault
    assert isinstance(vault, Vault)

    async def nothing(*_: object) -> None:
        """The deletion's last step has not come yet."""

    with monkeypatch.context() as patch:
        patch.setattr(vault, "destroy", nothing)
        await delete_payment_method(ledger, merchant, first.customer.customer_id, method_of(first))
    again = await save(ledger, merchant, "2")
    assert method_of(again) != method_of(first)
    assert cards(database_url) == [method_of(again)]


async def test_a_number_that_does_not_open_charges_nothing(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that is copied over another's is another card's: it does not open."""
    one, two = await save(ledger, merchant, "1"), await save(ledger, merchant, "2", OTHER)
    with psycopg.connect(database_url, autocommit=True) as connection:
        query = """update vault_card v set wrapped_key = o.wrapped_key, sealed_number = o.sealed_number
                     from vault_card o where v.payment_method_id = %s and o.payment_method_id = %s"""
        connection.execute(query, (method_of(one), method_of(two)))
    seen = Seen(ledger, monkeypatch)
    assert ledger.vault is not None
    with pytest.raises(SealBroken):
        await ledger.vault.open(merchant.merchant_id, method_of(one), uuid7())
    with pytest.raises(ProcessorUnavailable):
        await create_order(ledger, merchant, an_order("3", by_saved(method_of(one))))
    assert seen.requests == []
    assert (await charge_order(ledger, merchant, "3", by_saved(method_of(two)))).order.status is OrderStatus.COMPLETED


async def test_an_erased_customers_cards_go_too(ledger: Ledger, merchant: Actor, database_url: str) -> None:
    first = await save(ledger, merchant, "1")
    method_id = method_of(first)
    update = MethodUpdate(billing={"first_name": "Xochitl", "email": "xochitl@example.com"}, nickname="La roja")
    await update_payment_method(ledger, merchant, first.customer.customer_id, method_id, update)
    words = ("Xochitl", "xochitl@example.com", "La roja", "Juárez")
    assert {table for table, _ in places_of(database_url, words)} >= {"payment_method"}
    assert not places_of(database_url, words, "event"), "billing details are sealed in the log"
    await create_order(ledger, merchant, an_order("waiting"))
    async with Erasures(database_url) as payers:
        await delete_customer(ledger, merchant, "ana", payers.orders_of)
    assert cards(database_url) == []
    assert places_of(database_url, words) == set()
    expected, actual = await log_and_rows(database_url, merchant)
    assert expected == actual
    with pytest.raises(PaymentMethodNotFound):
        await charge_order(ledger, merchant, "waiting", by_saved(method_id))
    with pytest.raises(CustomerNotFound):
        await charge_order(ledger, merchant, "waiting", by_card(persist=True))
    assert cards(database_url) == []
    assert (await charge_order(ledger, merchant, "waiting", by_card())).order.status is OrderStatus.COMPLETED


async def test_the_rows_follow_from_the_log(ledger: Ledger, merchant: Actor, database_url: str) -> None:
    first = await save(ledger, merchant, "1")
    second = await save(ledger, merchant, "2", OTHER)
    third = await save(ledger, merchant, "3", "378282246310005")
    customer_id = first.customer.customer_id
    update = MethodUpdate(billing={"city": "Oaxaca"}, is_default=True)
    await update_payment_method(ledger, merchant, customer_id, method_of(third), update)
    await delete_payment_method(ledger, merchant, customer_id, method_of(third))
    expected, actual = await log_and_rows(database_url, merchant)
    assert expected == actual
    defaults = fetch(database_url, "select payment_method_id from payment_method where is_default")
    assert defaults == [(method_of(second),)], "the newest of the others follows the deleted default"


async def test_the_sweep_settles_what_is_saved_and_destroys_the_rest(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = await save(ledger, merchant, "1")
    gone = await save(ledger, merchant, "2", OTHER)
    vault = ledger.vault
    assert isinstance(vault, Vault)
    await vault.keep(merchant.merchant_id, kept.customer.customer_id, "378282246310005")  # its commit never came

    async def died(*_: object) -> None:
        raise RuntimeError("the process ended between the commit and the destruction")

    with monkeypatch.context() as patch:
        patch.setattr(vault, "destroy", died)
        with pytest.raises(RuntimeError):
            await delete_payment_method(ledger, merchant, gone.customer.customer_id, method_of(gone))
    assert len(cards(database_url)) == 3
    assert await sweep_cards(ledger) == 0, "what was touched lately may belong to a request that still runs"
    assert await sweep_cards(ledger, age_s=0.0) == 3
    assert fetch(database_url, "select payment_method_id, settled from vault_card") == [(method_of(kept), True)]
    assert await sweep_cards(ledger, age_s=0.0) == 0
    assert (
        await create_order(ledger, merchant, an_order("3", by_saved(method_of(kept))))
    ).order.status is OrderStatus.COMPLETED


async def test_a_number_that_is_kept_again_is_not_destroyed_by_a_sweep_that_has_just_read_it(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    customer = (await create_order(ledger, merchant, an_order("1"))).customer
    vault = ledger.vault
    assert vault is not None
    await vault.keep(merchant.merchant_id, customer.customer_id, APPROVED)
    (orphan,) = await vault.unsettled(0.0, 10)
    saved = await save(ledger, merchant, "2")
    assert method_of(saved) == orphan.payment_method_id
    await vault.settle(orphan, is_saved=False)
    assert cards(database_url) == [method_of(saved)]


async def test_without_a_vault_no_card_is_saved_and_every_other_payment_works(
    merchant: Actor, database_url: str, ledger: Ledger
) -> None:
    first = await save(ledger, merchant, "1")
    method_id, vault = method_of(first), ledger.vault
    ledger.vault = None
    with pytest.raises(MethodNotEnabled):
        await save(ledger, merchant, "2")
    with pytest.raises(VaultMissing, match="set LEDGER_DATABASE_VAULT_URL"):
        await create_order(ledger, merchant, an_order("3", by_saved(method_id)))
    with pytest.raises(VaultMissing):
        await delete_payment_method(ledger, merchant, first.customer.customer_id, method_id)
    assert (await create_order(ledger, merchant, an_order("3", by_card()))).order.status is OrderStatus.COMPLETED
    ledger.vault = vault
    await delete_payment_method(ledger, merchant, first.customer.customer_id, method_id)
    assert cards(database_url) == []


async def test_an_erasure_without_a_vault_is_finished_by_a_process_that_has_it(
    merchant: Actor, database_url: str, ledger: Ledger
) -> None:
    first, vault = await save(ledger, merchant, "1"), ledger.vault
    ledger.vault = None
    async with Erasures(database_url) as payers:
        sweep = ErasureSweep(ledger, payers.unfinished, payers.orders_of, payers.finished)
        await delete_customer(ledger, merchant, "ana", payers.orders_of)
        await sweep.sweep()
        assert cards(database_url) == [method_of(first)]
        assert len(await payers.unfinished(10, [])) == 1
        ledger.vault = vault
        sweep = ErasureSweep(ledger, payers.unfinished, payers.orders_of, payers.finished)
        await sweep.sweep()
        assert await payers.unfinished(10, []) == []
    assert cards(database_url) == []


async def test_two_requests_at_once_save_the_same_card_once(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    other = await open_another()
    await create_order(ledger, merchant, an_order("0"))
    results = await asyncio.gather(*[save(at, merchant, f"{n}") for n, at in enumerate([ledger, other] * 3, 1)])
    assert len({method_of(result) for result in results}) == 1
    assert len((await saved_methods(ledger, merchant, results[0])).methods) == 1
    assert cards(database_url) == [method_of(results[0])]
    third = await open_another()
    paid = await create_order(third, merchant, an_order("9", by_saved(method_of(results[0]))))
    assert paid.order.status is OrderStatus.COMPLETED, "also by a process that has not seen the customer yet"
