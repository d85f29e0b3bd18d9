"""Writes a merchant's many orders through the journal, for measurements of lists.

The orders are as hard to search as real ones: every fifth brings a new customer, half the e-mails share a domain, due
dates are past and future, a quarter of the orders is paid, and all external ids begin alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec.structs import replace
from uuid_utils.compat import uuid7

from benchmarks.load import order_body
from benchmarks.measure.samples import show_progress
from ledger.domain.customers.events import CustomerCreated
from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.customers.state import Customer
from ledger.domain.fold import fold
from ledger.domain.orders.capabilities import METHODS, Candidate
from ledger.domain.orders.commands import CreateOrder, NewPayment, RecordAuthorizationOutcome
from ledger.domain.orders.decide.authorizations import decide_authorization_outcome
from ledger.domain.orders.decide.payments import decide_create
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.processor_outcomes import Approved
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import CardSummary, MethodType, PaymentMethod
from ledger.domain.streams import ClaimKind
from ledger.journal.append import Change, Claim
from ledger.journal.journal import Journal

_IN_FLIGHT: Final = 128
_DOMAINS: Final = ("example.com", "correo.example.mx", "example.com", "tienda-{n}.example.org")
_SANDBOX: Final = Candidate(account="sandbox", processor="sandbox", methods=METHODS)
_CARD: Final = PaymentMethod(
    method_id=UUID(int=1),
    type=MethodType.CARD,
    card=CardSummary(
        bin="424242", last4="4242", brand="VISA", type="CREDIT", country="US", issuer_bank=None, exp_month=12, exp_year=2030
    ),
)  # fmt: skip

Command = tuple[list[Change], list[Claim]]


async def fill(journal: Journal, merchant_id: UUID, orders: int, *, paid_each: int = 4) -> None:
    """Writes that many orders, three minutes apart, the newest now, of which every `paid_each`-th one is paid.

    Starts `journal` and stops it.
    """
    await journal.start()
    await journal.open_log(merchant_id)
    begins_at = datetime.now(UTC) - timedelta(minutes=3 * orders)
    commands = _commands(begins_at, orders, paid_each)

    async def write() -> None:
        for n, (changes, claims) in commands:
            if n % 2_000 == 0:
                show_progress(f"filling: {n:,} of {orders:,} orders")
            await journal.commit(merchant_id, uuid7(), changes, claims)

    await asyncio.gather(*[write() for _ in range(_IN_FLIGHT)])
    await journal.stop()


def _commands(begins_at: datetime, orders: int, paid_each: int) -> Iterator[tuple[int, Command]]:
    make = _orders(begins_at, paid_each)
    payer: Customer | None = None
    for n in range(orders):
        changes: list[Change] = []
        claims: list[Claim] = []
        if payer is None or n % 5 == 0:
            payer = _customer(n // 5, begins_at, changes, claims)
        order, events = make(n, payer.customer_id)
        external_id, order_id = order.terms.external_id, order.terms.order_id
        changes.append(Change(order_id, 0, events, None, order))
        claims.append(Claim(ClaimKind.ORDER_EXTERNAL_ID, external_id, order_id))
        yield n, (changes, claims)


async def create_customers(journal: Journal, counts: Mapping[UUID, int]) -> dict[UUID, list[UUID]]:
    """Creates so many customers of each merchant, and returns their ids. Starts `journal` and stops it."""
    await journal.start()
    created: dict[UUID, list[UUID]] = {merchant_id: [] for merchant_id in counts}
    wanted = ((merchant_id, n) for merchant_id, count in counts.items() for n in range(count))

    async def write() -> None:
        for merchant_id, n in wanted:
            changes: list[Change] = []
            claims: list[Claim] = []
            created[merchant_id].append(_customer(n, datetime.now(UTC), changes, claims).customer_id)
            await journal.commit(merchant_id, uuid7(), changes, claims)

    await asyncio.gather(*[write() for _ in range(_IN_FLIGHT)])
    await journal.stop()
    return created


def _customer(n: int, at: datetime, changes: list[Change], claims: list[Claim]) -> Customer:
    email = f"cliente.{n:06}@{_DOMAINS[n % len(_DOMAINS)].format(n=n % 1_000)}"
    created = CustomerCreated(
        customer_id=uuid7(), external_id=f"cliente-{n:06}", at=at, first_name="María", last_name="Ochoa", email=email
    )
    customer = evolve_customer(None, created)
    changes.append(Change(customer.customer_id, 0, [created], None, customer))
    claims.append(Claim(ClaimKind.CUSTOMER_EXTERNAL_ID, customer.external_id, customer.customer_id))
    return customer


def _orders(begins_at: datetime, paid_each: int) -> Callable[[int, UUID], tuple[Order, list[OrderEvent]]]:
    template = order_body.command(uuid7(), uuid7(), "", "PO0000000000")

    def make(n: int, customer_id: UUID) -> tuple[Order, list[OrderEvent]]:
        at = begins_at + timedelta(minutes=3 * n)
        terms = replace(
            template.terms,
            external_id=f"pedido-2026-{n:07}",
            invoice_number=f"A-{n:06}" if n % 3 else None,
            due_date=(None, at + timedelta(days=15), at + timedelta(days=15 * 365))[n % 3],
        )
        command = replace(
            template,
            order_id=uuid7(),
            customer_id=customer_id,
            order_number=f"PO{n * 48_271 % 2**31:010X}",
            terms=terms,
            at=at,
            payment=card_payment(at) if n % paid_each == 0 else None,
        )
        return decided(command)

    return make


def decided(command: CreateOrder) -> tuple[Order, list[OrderEvent]]:
    """Returns the order that a command creates, with its events; its payment, if it has one, is approved at once."""
    events = decide_create(None, command)
    order = fold(evolve, None, events)
    if order.payments:
        approved = Approved(authorized=order.amount, captured=order.amount, processor_reference="bench")
        record = RecordAuthorizationOutcome(payment_id=order.payments[0].payment_id, outcome=approved, at=command.at)
        outcome = decide_authorization_outcome(order, record)
        order, events = fold(evolve, order, outcome), [*events, *outcome]
    return order, events


def card_payment(at: datetime) -> NewPayment:
    """Returns a payment by card that is to be answered at once."""
    payment_id = uuid7()
    return NewPayment(
        payment_id=payment_id, method=_CARD, candidates=(_SANDBOX,), idempotency_key=str(payment_id), deadline_at=at
    )
