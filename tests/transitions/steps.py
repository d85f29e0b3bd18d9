"""The steps of scenarios: requests of a merchant, and what payers, banks, processors and time do.

A step names a payment by `n`, which counts the order's payments from the newest one back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from tests.api.bodies import card
from tests.api.storefront import ORDERS
from tests.transitions.context import SANDBOX, ScenarioContext

from ledger.background.inbox.delivery import open_delivery
from ledger.domain.orders.events import SessionEnd
from ledger.domain.orders.payment import EntryAction, Intent
from ledger.domain.orders.processor_outcomes import Voided
from ledger.operations.context.inputs import Actor
from ledger.operations.orders.processor_call import ProcessorCall
from ledger.operations.pipeline.execute import record_outcome
from ledger.operations.pipeline.unit_of_work import UnitOfWork, load_order
from ledger.processors.messages import RefundFailed

Step = Callable[[ScenarioContext], Awaitable[Any]]
Tender = dict[str, Any]


def _card(number: str) -> Tender:
    method = {"type": "card", "cardDetails": card(number=number)}
    return {"paymentMethod": method, "billingAddress": {"country": "MX"}}


GOOD, DECLINED, SILENT, HALF = map(
    _card, ("4242424242424242", "4000000000000002", "4000000000000119", "4000000000000010")
)
CHALLENGE, DEVICE, DEVICE_FIRST, REDIRECT = map(
    _card, ("4000000000003220", "4000000000003055", "4000000000003063", "4000000000007007")
)
NO_CAPTURE, NO_VOID, NO_REFUND, SLOW_REFUND = map(
    _card, ("4000000000007015", "4000000000007023", "4000000000007726", "4000000000005126")
)
SPEI = {"paymentMethod": {"type": "spei"}}
CASH = {"paymentMethod": {"type": "paycash"}}

MANUAL = {"captureMethod": "MANUAL"}
CLABE_OF_ANA = "032180000118359719"


def create(tender: Tender, **terms: Any) -> Step:
    """Creates an order with its payment."""
    return lambda context: context.create(pending=False, **tender, **terms)


def pending(**terms: Any) -> Step:
    """Creates an order that waits for its payment."""
    return lambda context: context.create(**terms)


def split(**terms: Any) -> Step:
    """Creates an order that is paid in parts."""
    return lambda context: context.create(allowPartials=True, **terms)


def create_again(tender: Tender) -> Step:
    """Sends the order's creation once more."""

    async def step(context: ScenarioContext) -> None:
        body = {"externalId": (await context.read_order())["externalId"], "pending": False, **tender}
        await context.create(**body)

    return step


def charge(tender: Tender, amount: int | None = None) -> Step:
    return lambda context: context.post_to_order("charge", "charge", _of(amount) | tender)


def add_payment(tender: Tender, amount: int | None = None) -> Step:
    """Pays a part of a split order."""
    return lambda context: context.post_to_order("pay", "payments", _of(amount) | tender)


def device_data() -> Step:
    return lambda context: context.post_to_order("device", "payer-authentication/device-data", {})


def validate(word: str | None = None) -> Step:
    """Validates the payer's challenge or redirect. An id with `fail` in it means a payer who failed."""

    async def step(context: ScenarioContext) -> None:
        session = (await context.read_order())["payerAuthentication"]
        body = {"authenticationTransactionId": word or session["authenticationTransactionId"]}
        await context.post_to_order("validate", "payer-authentication/validate", body)

    return step


def capture(amount: int | None = None, *, n: int = 1) -> Step:
    async def step(context: ScenarioContext) -> None:
        about = {"paymentId": (await context.read_payment(-n))["id"]} if n > 1 else {}
        await context.post_to_order("capture", "capture", _of(amount) | about)

    return step


def release() -> Step:
    return lambda context: context.post_to_order("release", "release", {})


def cancel(**body: Any) -> Step:
    return lambda context: context.post_to_order("cancel", "cancel", body)


REFUND_CAPTURED = {"refundCaptured": True}


def cancel_payment(n: int = 1) -> Step:
    """Cancels one part of a split order."""

    async def step(context: ScenarioContext) -> None:
        await context.post_to_order("cancel", "cancel", {"paymentId": (await context.read_payment(-n))["id"]})

    return step


def refund(amount: int, *, n: int = 1, holder: str | None = None) -> Step:
    """Refunds a payment. A payout to a holder whose name has `fail` in it fails."""

    async def step(context: ScenarioContext) -> None:
        body = {"amount": amount, "paymentId": (await context.read_payment(-n))["id"]}
        to = {} if holder is None else {"destination": {"clabe": CLABE_OF_ANA, "accountHolder": holder}}
        await context.post_to_order("refund", "refund", body | to)

    return step


def confirm_refund() -> Step:
    """Confirms the payout of the newest refund."""

    async def step(context: ScenarioContext) -> None:
        refunds = (await context.merchant.get(f"{ORDERS}/{context.order_id}/refunds")).json()["data"]
        await context.post_to_order("confirmation", f"refunds/{refunds[-1]['id']}/confirm", {})

    return step


def deposit(amount: int, *, n: int = 1) -> Step:
    """Deposits money on a payment's reference."""

    async def step(context: ScenarioContext) -> None:
        payment = await context.read_payment(-n)
        to = {"clabe": payment["speiDetails"]["clabe"]} if payment.get("speiDetails") else {}
        to = to or {"reference": payment["cieDetails"]["reference"]}
        await context.post_accepted("deposit", f"{SANDBOX}/deposits", to | {"amount": amount})

    return step


def dispute(outcome: str, amount: int | None = None, *, n: int = 1) -> Step:
    """Opens a dispute at the payer's bank, or decides it."""

    async def step(context: ScenarioContext) -> None:
        body = {"paymentId": (await context.read_payment(-n))["id"], "outcome": outcome}
        await context.post_accepted("dispute", f"{SANDBOX}/disputes", body | _of(amount))

    return step


def settle(stage: str) -> Step:
    """Lists the newest payment in a settlement batch, or pays the batch out, or refuses it."""

    async def step(context: ScenarioContext) -> None:
        body = {"paymentIds": [(await context.read_payment())["id"]], "stage": stage}
        await context.post_accepted("settlement", f"{SANDBOX}/settlements", body)

    return step


def advance_clock(by: str = "PT1S") -> Step:
    """Advances the merchant's clock, which runs what is due. Messages are due two seconds after their cause."""
    return lambda context: context.post_accepted("time", f"{SANDBOX}/clock", {"advanceBy": by})


def processor_mode(mode: str, times: int = 1) -> Step:
    """Sets how the processor treats the next calls: DOWN is never sent, SLOW is carried out without a timely answer."""
    return lambda context: context.post_accepted("mode", f"{SANDBOX}/processor", {"mode": mode, "times": times})


DOWN, SLOW = processor_mode("DOWN"), processor_mode("SLOW")


def recovery() -> Step:
    return lambda context: context.run_recovery()


def giving_up() -> Step:
    """Runs the recovery after the day for which calls that never arrived are sent again."""
    return lambda context: context.run_recovery(gives_up=True)


def refund_comes_back() -> Step:
    """Lets the processor report that the newest refund, which had succeeded, failed later."""

    async def step(context: ScenarioContext) -> None:
        ledger, merchant_id = context.store.ledger, context.merchant.merchant_id
        order_id = UUID((await context.read_order())["id"])
        refund = (await load_order(ledger, merchant_id, order_id)).refunds[-1]
        [part] = refund.parts
        message = RefundFailed(
            processor="sandbox",
            message_id=f"{refund.refund_id}:failed",
            merchant_id=merchant_id,
            occurred_at=datetime.now(UTC),
            order_id=order_id,
            idempotency_key=f"{refund.refund_id}:{part.payment_id}",
            processor_reference="sbx_1",
            code="UNKNOWN",
            is_final=True,
        )
        async with open_delivery(str(context.store.settings.database_url), ledger) as delivery:
            assert (await delivery.deliver(message)).handled_at is not None

    return step


def void_reported() -> Step:
    """Lets the processor report that it has voided the newest payment's authorisation, although no call is open.

    A processor that authorises in its payer's session does, if it reports that session's end after its approval.
    """

    async def step(context: ScenarioContext) -> None:
        ledger, merchant_id = context.store.ledger, context.merchant.merchant_id
        order = await load_order(ledger, merchant_id, UUID((await context.read_order())["id"]))
        payment = order.payments[-1]
        end = Intent(
            action=EntryAction.CANCELLATION,
            processor=payment.processor,
            idempotency_key=f"{payment.payment_id}:expiry:1",
            amount=payment.amount,
            capture=False,
            deadline_at=datetime.now(UTC),
            payment_id=payment.payment_id,
            ends=SessionEnd.EXPIRED,
        )
        call = ProcessorCall(ledger=ledger, merchant_id=merchant_id, order=order, intent=end)
        uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="recovery"), cause=call.cause)
        await record_outcome(uow, call, Voided(processor_reference="sbx_1"))

    return step


def _of(amount: int | None) -> dict[str, int]:
    return {} if amount is None else {"amount": amount}
