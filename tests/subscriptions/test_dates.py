"""No decision is dated before the state that it decides on, for each operation that changes a stream.

Another change of the stream commits between the load and the commit of the operation, with a later time of the clock.
The operation loses, decides again on the changed stream, and must be dated after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.operations.conftest import an_order, by_card
from tests.subscriptions.shop import Shop
from uuid_utils.compat import uuid7

from ledger.domain.customers.events import CustomerMetadataChanged
from ledger.domain.merchants.events import MerchantRenamed
from ledger.domain.orders.events import PayerForgotten
from ledger.domain.orders.terms import CaptureMethod, MethodType
from ledger.domain.payment_methods.events import PaymentMethodRenamed
from ledger.domain.payment_methods.state import stream_of
from ledger.domain.plans.commands import PlanUpdate
from ledger.domain.plans.events import PlanDetailsChanged
from ledger.domain.streams import (
    CUSTOMERS,
    MERCHANTS,
    ORDERS,
    PAYMENT_METHODS,
    PLANS,
    PRODUCTS,
    SUBSCRIPTIONS,
    ClaimKind,
    Stream,
)
from ledger.domain.subscriptions.events import MetadataChanged
from ledger.domain.subscriptions.notice_events import NoticeDropped
from ledger.journal.append import Change
from ledger.operations.context.inputs import (
    Actor,
    CancelInput,
    CaptureInput,
    CustomerFields,
    CustomerInput,
    PaymentInput,
    RefundInput,
)
from ledger.operations.customers.change import change_customer
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.merchants.api_keys import issue_key
from ledger.operations.merchants.registration import change_settings, close_merchant, rename_merchant
from ledger.operations.orders.add_payment import add_payment
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.create import charge_order, create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.payment_methods.change import MethodUpdate, delete_payment_method, update_payment_method
from ledger.operations.plans.archive import archive_plan
from ledger.operations.plans.change import change_plan
from ledger.operations.products.import_products import ProductInput, import_products
from ledger.operations.subscriptions.bill import bill_subscription
from ledger.operations.subscriptions.cancel import cancel_subscription, resume_subscription
from ledger.operations.subscriptions.change import change_subscription
from ledger.operations.subscriptions.notify import notify_customer
from ledger.operations.subscriptions.requests import SubscriptionUpdate
from ledger.security.api_keys import new_key

pytestmark = pytest.mark.anyio

Operation = Callable[[], Awaitable[Any]]
Case = tuple[Stream[Any], UUID, Operation]

METADATA = Raw(b'{"a":1}')


async def _order(shop: Shop, operation: Callable[..., Awaitable[Any]], *more: Any, **changes: Any) -> Case:
    result = await create_order(shop.ledger, shop.actor, an_order("1", **changes))
    return ORDERS, result.order.terms.order_id, partial(operation, shop.ledger, shop.actor, "1", *more)


async def _customer(shop: Shop, operation: Callable[..., Awaitable[Any]], *more: Any) -> Case:
    result = await create_order(shop.ledger, shop.actor, an_order("1"))
    return CUSTOMERS, result.customer.customer_id, partial(operation, shop.ledger, shop.actor, "ana", *more)


async def _order_of_known_customer(shop: Shop, customer: CustomerInput) -> Case:
    result = await create_order(shop.ledger, shop.actor, an_order("1"))
    named = replace(customer, id=str(result.customer.customer_id)) if customer.external_id is None else customer
    order = an_order("2", customer=named)
    return CUSTOMERS, result.customer.customer_id, partial(create_order, shop.ledger, shop.actor, order)


async def _method(shop: Shop, operation: Callable[..., Awaitable[Any]], *more: Any) -> Case:
    result = await create_order(shop.ledger, shop.actor, an_order("1", by_card(persist=True)))
    customer_id = result.customer.customer_id
    method_id = result.order.payments[0].started.method.method_id
    run = partial(operation, shop.ledger, shop.actor, customer_id, method_id, *more)
    return PAYMENT_METHODS, stream_of(customer_id), run


async def _saved_again(shop: Shop) -> Case:
    """A payment that saves another card of the customer."""
    stream, stream_id, _ = await _method(shop, update_payment_method)
    order = an_order("2", by_card("5555555555554444", persist=True))
    return stream, stream_id, partial(create_order, shop.ledger, shop.actor, order)


async def _subscribing(shop: Shop) -> Case:
    """A subscription that begins to be charged to a saved card."""
    plan, card = await shop.plan(), await shop.card()
    methods_of = (await create_order(shop.ledger, shop.actor, an_order("1"))).customer.customer_id
    assert card is not None
    return PAYMENT_METHODS, stream_of(methods_of), partial(shop.subscribe, plan)


async def _merchant(shop: Shop, operation: Callable[..., Awaitable[Any]], *more: Any) -> Case:
    return MERCHANTS, shop.merchant_id, partial(operation, shop.ledger, shop.actor, *more)


async def _issued_key(shop: Shop) -> Case:
    operator = Actor(merchant_id=shop.merchant_id)
    return MERCHANTS, shop.merchant_id, partial(issue_key, shop.ledger, operator, new_key("sandbox", b"pepper"))


async def _plan(shop: Shop, operation: Callable[..., Awaitable[Any]], *more: Any) -> Case:
    plan = await shop.plan()
    return PLANS, plan.plan_id, partial(operation, shop.ledger, shop.actor, str(plan.plan_id), *more)


async def _plan_in_use(shop: Shop) -> Case:
    plan = await shop.plan()
    await shop.card()
    return PLANS, plan.plan_id, partial(shop.subscribe, plan)


async def _product(shop: Shop) -> Case:
    def product(name: str) -> list[ProductInput]:
        return [ProductInput(index=0, id="p", details={"name": name, "price": Decimal(1)})]

    await import_products(shop.ledger, shop.actor, product("one"))
    product_id = await shop.ledger.journal.claim_owner(shop.merchant_id, ClaimKind.PRODUCT_ID, "p")
    assert product_id is not None
    return PRODUCTS, product_id, partial(import_products, shop.ledger, shop.actor, product("two"))


async def _subscription(
    shop: Shop, operation: Callable[..., Awaitable[Any]], *more: Any, ending: bool = False, **keywords: Any
) -> Case:
    state = await shop.subscribe(await shop.plan())
    if ending:
        await cancel_subscription(shop.ledger, shop.actor, str(state.subscription_id))
    run = partial(operation, shop.ledger, shop.actor, str(state.subscription_id), *more, **keywords)
    return SUBSCRIPTIONS, state.subscription_id, run


async def _renewal(shop: Shop) -> Case:
    state = await shop.subscribe(await shop.plan())
    await shop.move_only(timedelta(days=40))
    run = partial(bill_subscription, shop.ledger, shop.merchant_id, state.subscription_id)
    return SUBSCRIPTIONS, state.subscription_id, run


CASES: dict[str, Callable[[Shop], Awaitable[Case]]] = {
    "charge": lambda shop: _order(shop, charge_order, by_card()),
    "add a payment": lambda shop: _order(
        shop, add_payment, by_card(amount=Decimal(100), external_id="p"), allow_partials=True
    ),
    "refund": lambda shop: _order(shop, refund_order, RefundInput(amount=Decimal(100)), payment=by_card()),
    "capture": lambda shop: _order(
        shop, capture_order, CaptureInput(), payment=by_card(), capture_method=CaptureMethod.MANUAL
    ),
    "cancel": lambda shop: _order(shop, cancel_order, CancelInput()),
    "change a customer": lambda shop: _customer(shop, change_customer, CustomerFields(first_name="Eva")),
    "erase a customer": lambda shop: _customer(shop, delete_customer, _no_orders),
    "order by a customer's external id": lambda shop: _order_of_known_customer(
        shop, CustomerInput(external_id="ana", first_name="Eva")
    ),
    "order by a customer's id": lambda shop: _order_of_known_customer(shop, CustomerInput(first_name="Eva")),
    "change a saved card": lambda shop: _method(shop, update_payment_method, MethodUpdate(billing={"city": "Puebla"})),
    "delete a saved card": lambda shop: _method(shop, delete_payment_method),
    "save a card": _saved_again,
    "use a saved card": _subscribing,
    "rename a merchant": lambda shop: _merchant(shop, rename_merchant, "Other"),
    "change settings": lambda shop: _merchant(shop, change_settings, {"time_zone": "America/Tijuana"}),
    "issue an API key": _issued_key,
    "close a merchant": lambda shop: _merchant(shop, close_merchant),
    "change a plan": lambda shop: _plan(shop, change_plan, PlanUpdate(name="Other")),
    "archive a plan": lambda shop: _plan(shop, archive_plan),
    "use a plan": _plan_in_use,
    "import a product": _product,
    "change a subscription": lambda shop: _subscription(
        shop, change_subscription, SubscriptionUpdate(metadata=Raw(b'{"b":2}'))
    ),
    "cancel a subscription": lambda shop: _subscription(shop, cancel_subscription),
    "resume a subscription": lambda shop: _subscription(shop, resume_subscription, ending=True),
    "renew a subscription": _renewal,
}
"""Each operation, with the stream that it changes."""


async def _no_orders(*_: Any) -> list[UUID]:
    return []


def _another(state: Any, at: Any) -> Any:
    """Returns an event of the stream that every operation can follow."""
    match type(state).__name__:
        case "Order":
            return PayerForgotten(at=at)
        case "Customer":
            return CustomerMetadataChanged(customer_id=state.customer_id, at=at, metadata=METADATA)
        case "SavedMethods":
            return PaymentMethodRenamed(payment_method_id=state.live[0].payment_method_id, nickname="Mine", at=at)
        case "Merchant":
            return MerchantRenamed(merchant_id=state.merchant_id, name="Renamed", at=at)
        case "Plan":
            return PlanDetailsChanged(plan_id=state.plan_id, description="Other", at=at)
        case "Subscription":
            return MetadataChanged(metadata=METADATA, at=at)
        case kind:
            raise AssertionError(f"add an event of {kind}")


async def _change_beforehand(shop: Shop, stream: Stream[Any], stream_id: UUID) -> None:
    """Changes the stream at the present time of the merchant's clock."""
    journal = shop.ledger.journal
    events = list(await journal.reader.stream(shop.merchant_id, stream_id))
    state = None
    for event in events:
        state = stream.evolve(state, event)
    await asyncio.sleep(0.005)
    at = await shop.ledger.clock.refresh(shop.merchant_id)
    event = replace(events[-1], name="Other", at=at) if stream is PRODUCTS else _another(state, at)
    change = Change(stream_id, len(events), [event], state, stream.evolve(state, event))
    await journal.commit(shop.merchant_id, uuid7(), [change])


@pytest.mark.parametrize("name", CASES)
async def test_what_loses_a_race_is_dated_after_the_winner(
    shop: Shop, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, stream_id, operation = await CASES[name](shop)
    commit, raced = shop.ledger.journal.commit, False

    async def commit_after_another(merchant_id: UUID, command_id: UUID, changes: Any, *more: Any) -> int:
        nonlocal raced
        if not raced and any(change.stream_id == stream_id and change.events for change in changes):
            raced = True
            await _change_beforehand(shop, stream, stream_id)
        return await commit(merchant_id, command_id, changes, *more)

    monkeypatch.setattr(shop.ledger.journal, "commit", commit_after_another)
    before = len(await shop.ledger.journal.reader.stream(shop.merchant_id, stream_id))
    await operation()
    events = await shop.ledger.journal.reader.stream(shop.merchant_id, stream_id)
    assert raced
    assert len(events) > before + 1
    times = [event.at for event in events]
    assert times == sorted(times)


async def test_an_order_is_dated_after_the_change_of_the_saved_card_that_it_is_paid_by(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, stream_id, _ = await _method(shop, update_payment_method)
    saved = str(await shop.card())
    changed = _change_before_load(shop, PAYMENT_METHODS, stream_id, monkeypatch)
    request = PaymentInput(type=MethodType.CARD, payment_id=uuid7(), saved_method_id=saved, virtual_terminal=True)
    paid = await create_order(shop.ledger, shop.actor, an_order("paid", request, virtual_terminal=True))
    assert paid.order.terms.at >= changed[0]


async def test_a_message_is_dated_after_the_preferences_that_it_follows(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await shop.subscribe(await shop.plan())
    changed = _change_before_load(shop, CUSTOMERS, made.customer_id, monkeypatch)
    await notify_customer(shop.ledger, shop.merchant_id, made.subscription_id)
    events = await shop.ledger.journal.reader.stream(shop.merchant_id, made.subscription_id)
    assert isinstance(events[-1], NoticeDropped), "the customer has no address"
    assert events[-1].at >= changed[0]


def _change_before_load(shop: Shop, stream: Stream[Any], stream_id: UUID, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Changes the stream right before it is loaded next. Returns a list that has the time of the change then."""
    load = shop.ledger.journal.load
    changed: list[Any] = []

    async def load_changed(merchant_id: UUID, loaded: Stream[Any], loaded_id: UUID) -> Any:
        if loaded_id == stream_id and not changed:
            await _change_beforehand(shop, stream, stream_id)
            changed.append((await shop.ledger.journal.reader.stream(shop.merchant_id, stream_id))[-1].at)
        return await load(merchant_id, loaded, loaded_id)

    monkeypatch.setattr(shop.ledger.journal, "load", load_changed)
    return changed
