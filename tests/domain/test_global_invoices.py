"""Which orders a global invoice states, what becomes of its document, and what follows for the orders."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.domain.builders import (
    DEADLINE,
    NOON,
    authorization_requested,
    authorized,
    captured,
    created,
    deposited,
    folded,
    late_capture,
    paid,
    payment_id,
    reference_open,
    refund_requested,
    refunded,
    started,
)
from tests.domain.invoices.stamper import ENABLED, FISCAL, ISSUER, REFUSED, SILENT, SINGLE_FISCAL, stamped
from tests.journal.global_invoice_samples import GLOBAL, GLOBAL_INVOICES, OF_ORDERS

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import (
    CancellationPending,
    Cancelled,
    EnableInvoicing,
    NotFound,
    NotSent,
    RequestCancellation,
    StillValid,
)
from ledger.domain.invoices.decide.stamping import decide_enabling
from ledger.domain.invoices.due import STATUS_PAUSE, UNANSWERED_PAUSES
from ledger.domain.invoices.global_invoices.cancellation import (
    decide_cancellation,
    decide_cancellation_again,
    decide_cancellation_outcome,
)
from ledger.domain.invoices.global_invoices.commands import AnnounceGlobalInvoice, SendGlobalInvoice
from ledger.domain.invoices.global_invoices.contents import StatedOrder, is_unstated, stated
from ledger.domain.invoices.global_invoices.decide import (
    decide_announcement,
    decide_inclusion,
    decide_outcome,
    decide_release,
    decide_sending,
)
from ledger.domain.invoices.global_invoices.due import MARGIN, due_at
from ledger.domain.invoices.global_invoices.periods import bounds_of, days_of
from ledger.domain.orders.events import (
    AuthorizationReleased,
    DisputeLost,
    OrderCancelled,
    PayerForgotten,
    ReleasedBecause,
)
from ledger.domain.orders.evolve.order import evolve as evolve_order
from ledger.domain.orders.global_invoices.evolve import evolve
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices.terms import (
    CancellationMotive,
    GlobalPeriod,
    InvoiceTrigger,
    InvoicingPolicy,
    Periodicity,
)
from ledger.domain.orders.state import Order
from ledger.domain.rejections import InvalidField, InvoiceNotReady, OrderInGlobalInvoice

BEGIN, END = NOON - timedelta(days=30), NOON + timedelta(days=1)
BOUGHT = (created(), *paid(1, 10000))
INCLUDED = OF_ORDERS["included-in-global-invoice.v1"]
PERIOD = GlobalPeriod(year=2026, month=1, periodicity=Periodicity.MONTHLY)
SENDING = {"provider": "sandbox", "certificate": "3000", "deadline_at": DEADLINE}


def announcement(*orders: Order) -> AnnounceGlobalInvoice:
    found: list[StatedOrder] = [each for order in orders if (each := stated(order, ISSUER)) is not None]
    return AnnounceGlobalInvoice(
        global_invoice_id=GLOBAL, folio="G1", series="B", issuer=ISSUER, period=PERIOD, orders=found, at=NOON, **SENDING
    )


def being_stamped() -> GlobalInvoice:
    return fold(evolve, None, decide_announcement(announcement(folded(BOUGHT))))


def answered(invoice: GlobalInvoice, outcome: Any) -> GlobalInvoice:
    after = fold(evolve, invoice, decide_outcome(invoice, outcome, NOON))
    assert decide_outcome(after, outcome, NOON) == [], "an outcome is recorded once"
    return after


@pytest.mark.parametrize(
    ("history", "is_due"),
    [
        (BOUGHT, True),
        ([created(allow_partials=True), *paid(1, 4000), *paid(2, 6000)], True),
        ([*BOUGHT, refund_requested(1, 4000), refunded(1, 4000)], True),
        ([*BOUGHT, PayerForgotten(at=NOON)], True),
        ([created()], False),
        ([created(allow_partials=True), *paid(1, 4000)], False),
        ([*BOUGHT, refund_requested(1, 4000)], False),
        ([*BOUGHT, refund_requested(1, 10000), refunded(1, 10000)], False),
        ([created(), OrderCancelled(at=NOON)], False),
        ([created(currency="USD"), *paid(1, 10000)], False),
        ([*SINGLE_FISCAL, *paid(1, 10000)], False),
        ([*BOUGHT, replace(ENABLED, fiscal=FISCAL)], False),
        ([*BOUGHT, INCLUDED], False),
        ([*BOUGHT, *OF_ORDERS.values()], True),
    ],
)
def test_an_order_is_stated_that_was_paid_in_the_period_and_has_no_invoice(history: Any, is_due: bool) -> None:
    order = folded(history)
    assert is_unstated(order, BEGIN, END) is is_due
    assert not is_unstated(order, END, END + timedelta(days=30))
    assert not is_unstated(order, BEGIN - timedelta(days=30), BEGIN)


SPLIT = created(allow_partials=True)
LATER = NOON + timedelta(days=30)
END_OF_LATER = LATER + timedelta(days=1)


def given_back(n: int, amount: int) -> tuple[Any, ...]:
    return refund_requested(n, amount, n), replace(refunded(n, amount, n), at=LATER)


def paid_later(n: int, amount: int) -> list[Any]:
    return [replace(each, at=LATER) for each in paid(n, amount)]


@pytest.mark.parametrize(
    ("history", "is_due", "is_due_later"),
    [
        ([*BOUGHT, replace(late_capture(1, 1000), at=LATER)], True, False),
        ([created(), *reference_open(1, 10000), deposited(1, 10000), replace(deposited(1, 10000, "2"), at=LATER)],
         True, False),
        ([SPLIT, *paid(1, 10000), *given_back(1, 4000), *paid_later(2, 1000)], True, False),
        ([SPLIT, *paid(1, 10000), *given_back(1, 4000), *paid_later(2, 4000)], False, True),
        ([SPLIT, *paid(1, 10000), *given_back(1, 10000), *paid_later(2, 10000)], False, True),
        ([SPLIT, *paid(1, 10000), *given_back(1, 10000), *paid_later(2, 6000)], False, False),
        ([SPLIT, *paid(1, 6000), *given_back(1, 6000), *paid_later(2, 6000)], False, False),
    ],
)  # fmt: skip
def test_an_order_belongs_to_the_period_in_which_it_was_paid_in_full(
    history: Any, is_due: bool, is_due_later: bool
) -> None:
    """What came in beyond its amount moves it to no later period, and it was not paid in full by money that went back."""
    order = folded(history)
    assert is_unstated(order, BEGIN, END) is is_due
    assert is_unstated(order, END, LATER + timedelta(days=1)) is is_due_later


def test_an_order_that_a_release_finished_is_stated_with_what_was_captured() -> None:
    """Its rest is paid by nobody: the money would be in no document."""
    held = [authorization_requested(1, 10_000), authorized(1, 10_000), captured(1, 6000)]
    end = AuthorizationReleased(
        payment_id=payment_id(1), amount=Decimal(4000), because=ReleasedBecause.REQUESTED, at=LATER
    )
    for terms in (created(), SPLIT):
        begun = [terms, started(1, 10_000), *held]
        assert not is_unstated(folded(begun), BEGIN, END), "the rest can still be captured"
        order = folded([*begun, end])
        assert (order.net, is_unstated(order, BEGIN, END), is_unstated(order, END, END_OF_LATER)) == (6000, False, True)
        found = stated(order, ISSUER)
        assert found is not None
        assert found.amount == 6000
        paid_since = folded([*begun, replace(end, at=NOON), *paid_later(2, 4000)]) if terms is SPLIT else None
        assert paid_since is None or is_unstated(paid_since, END, END_OF_LATER)
        gone = folded([*begun, end, *given_back(1, 6000)])
        assert not is_unstated(gone, END, END_OF_LATER)
    part = [SPLIT, started(1, 6000), authorization_requested(1, 6000), authorized(1, 6000), captured(1, 4000)]
    open_part = folded([*part, replace(end, amount=Decimal(2000))])
    assert not is_unstated(open_part, END, END_OF_LATER), "the other part of the order is still to be paid"
    done = folded([*part, replace(end, amount=Decimal(2000)), *paid(2, 4000)])
    assert is_unstated(done, END, END_OF_LATER)


@pytest.mark.parametrize(("taken", "held"), [(2500, 7500), (10000, None)])
def test_money_that_a_bank_took_back_is_not_stated(taken: int, held: int | None) -> None:
    for begin in (created(), SPLIT):
        lost = DisputeLost(payment_id=payment_id(1), dispute_id="dsp-1", amount=Decimal(taken), at=NOON)
        order = folded([begin, *paid(1, 10000), lost])
        assert is_unstated(order, BEGIN, END) is (held is not None)
        found = stated(order, ISSUER) if held is not None else None
        assert (None if found is None else found.amount) == held


def test_the_document_states_what_the_orders_hold() -> None:
    part = folded([created(), *paid(1, 10000), refund_requested(1, 4000), refunded(1, 4000)])
    command = announcement(folded(BOUGHT), part)
    announced, requested = decide_announcement(command)
    assert [each.amount for each in announced.orders] == [10000, 6000]
    terms = announced.terms
    assert (terms.total, terms.series, terms.folio, terms.payment_form) == (16000, "B", "G1", "04")
    assert [each.amount for each in terms.concepts] == [Decimal(8621), Decimal(5172)]
    assert requested.deadline_at == DEADLINE
    (included,) = decide_inclusion(command.orders[1], command)
    assert (included.global_invoice_id, included.amount) == (GLOBAL, 6000)


def test_a_stated_order_is_not_invoiced_once_more() -> None:
    order = folded([*BOUGHT, INCLUDED])
    policy = InvoicingPolicy(trigger=InvoiceTrigger.FIRST_CAPTURE, time_zone="America/Mexico_City", receipt_due_day=5)
    enable = EnableInvoicing(policy=policy, at=NOON, fiscal=FISCAL)
    with pytest.raises(OrderInGlobalInvoice, match=str(GLOBAL)):
        decide_enabling(order, enable)
    (released,) = decide_release(order, being_stamped(), NOON)
    free = fold(evolve_order, order, [released])
    assert decide_enabling(free, enable)
    assert decide_release(free, being_stamped(), NOON) == []
    another = replace(INCLUDED, global_invoice_id=UUID(int=9))
    assert fold(evolve_order, free, [another, released]).global_invoice_id == UUID(int=9)


def test_a_document_is_sent_again_until_it_has_an_outcome() -> None:
    invoice = being_stamped()
    assert due_at(invoice) == DEADLINE + MARGIN
    again = SendGlobalInvoice(at=NOON + timedelta(minutes=1), **SENDING)
    assert decide_sending(invoice, again) == []
    unknown = answered(invoice, SILENT)
    assert decide_sending(unknown, again) == [], "the provider may have stamped it"
    down = answered(invoice, NotSent())
    assert (due_at(down), decide_sending(down, replace(again, at=NOON))) == (NOON + timedelta(minutes=1), [])
    (sent,) = decide_sending(down, again)
    assert sent.issued_at is None
    (late,) = decide_sending(down, replace(again, at=NOON + timedelta(days=3)))
    assert fold(evolve, down, [late]).terms.issued_at == NOON + timedelta(days=3), "SAT takes dates of three days"
    (unarrived,) = decide_sending(answered(unknown, NotFound()), again)
    assert unarrived.issued_at is None
    done = answered(unknown, stamped(GLOBAL))
    assert (done.status, due_at(done), decide_sending(done, again)) == ("EMITTED", None, [])
    refused = answered(invoice, REFUSED)
    assert (refused.status, due_at(refused), decide_outcome(refused, stamped(GLOBAL), NOON)) == ("FAILED", None, [])


def cancel(invoice: GlobalInvoice, motive: str = "02", substitute: UUID | None = None) -> GlobalInvoice:
    command = RequestCancellation(
        motive=CancellationMotive(motive), substituted_by=substitute, provider="sandbox", deadline_at=DEADLINE, at=NOON
    )
    return fold(evolve, invoice, decide_cancellation(invoice, command))


def told(invoice: GlobalInvoice, outcome: Any) -> GlobalInvoice:
    return fold(evolve, invoice, decide_cancellation_outcome(invoice, outcome, NOON))


def test_a_cancellation_is_asked_about_until_it_has_a_result() -> None:
    emitted = answered(being_stamped(), stamped(GLOBAL))
    asked = cancel(emitted)
    assert (due_at(asked), asked.has_released_orders, cancel(asked)) == (DEADLINE + MARGIN, False, asked)
    assert decide_cancellation_again(asked, "sandbox", DEADLINE, NOON) == [], "its call is open"
    silent = told(asked, CancellationPending(unanswered=True))
    assert due_at(silent) == NOON + UNANSWERED_PAUSES[0]
    assert due_at(told(asked, CancellationPending())) == NOON + STATUS_PAUSE
    assert told(asked, StillValid("Vigente")) == silent, "SAT may not have the request"
    again = fold(evolve, silent, decide_cancellation_again(silent, "sandbox", DEADLINE, NOON))
    assert again.cancellation is not None
    assert (again.cancellation.requests, again.cancellation.motive) == (2, "02")
    refused = told(asked, REFUSED)
    assert (due_at(refused), refused.is_cancelled, refused.status) == (None, False, "EMITTED")
    assert told(refused, CancellationPending()) is refused
    assert told(refused, Cancelled()).is_cancelled, "SAT's word counts"
    assert cancel(refused).cancellation != refused.cancellation, "a refused one may be asked for again"
    gone = told(asked, Cancelled())
    assert (due_at(gone), gone.has_released_orders, told(gone, REFUSED), cancel(gone)) == (None, True, gone, gone)


def test_the_orders_of_a_cancelled_global_invoice_are_free_unless_a_substitute_states_them() -> None:
    emitted = answered(being_stamped(), stamped(GLOBAL))
    assert emitted.stamp is not None
    for motive in ("02", "03", "04"):
        assert told(cancel(emitted, motive), Cancelled()).has_released_orders
    assert not told(cancel(emitted, "01", UUID(int=3)), Cancelled()).has_released_orders
    for motive, substitute in (("01", None), ("02", UUID(int=3))):
        with pytest.raises(InvalidField, match="motive 01"):
            cancel(emitted, motive, substitute)
    with pytest.raises(InvalidField, match="another document"):
        cancel(emitted, "01", emitted.stamp.fiscal_uuid)
    for unstamped in (being_stamped(), answered(being_stamped(), REFUSED)):
        with pytest.raises(InvoiceNotReady):
            cancel(unstamped)
    order = folded([*BOUGHT, INCLUDED])
    (released,) = decide_release(order, emitted, NOON)
    free = fold(evolve_order, order, [released])
    assert is_unstated(free, BEGIN, END)
    another = folded([created(), *paid(1, 10000)])
    assert decide_announcement(announcement(free, another))[0].terms.replaces_all == (emitted.stamp.fiscal_uuid,)
    (refused,) = decide_release(fold(evolve_order, free, [INCLUDED]), being_stamped(), NOON)
    once_more = fold(evolve_order, fold(evolve_order, free, [INCLUDED]), [refused])
    assert once_more.cancelled_global_uuid == emitted.stamp.fiscal_uuid, "the one before is still the one to replace"


@pytest.mark.parametrize(
    ("period", "days"),
    [
        ((2, Periodicity.MONTHLY, 1), ("2026-02-01", "2026-03-01")),
        ((11, Periodicity.BIMONTHLY, 1), ("2026-11-01", "2027-01-01")),
        ((2, Periodicity.FORTNIGHTLY, 1), ("2026-02-01", "2026-02-16")),
        ((2, Periodicity.FORTNIGHTLY, 16), ("2026-02-16", "2026-03-01")),
        ((1, Periodicity.WEEKLY, 29), ("2026-01-29", "2026-02-01")),
        ((12, Periodicity.DAILY, 31), ("2026-12-31", "2027-01-01")),
    ],
)
def test_a_period_has_whole_days_of_the_merchants_time_zone(period: Any, days: tuple[str, str]) -> None:
    month, periodicity, first_day = period
    found = GlobalPeriod(year=2026, month=month, periodicity=periodicity, first_day=first_day)
    assert tuple(str(each) for each in days_of(found)) == days
    begin, _ = bounds_of(found, "America/Mexico_City")
    assert begin == datetime.fromisoformat(days[0]).replace(hour=6, tzinfo=UTC)


def test_the_samples_fold_to_a_stamped_document() -> None:
    invoice = fold(evolve, None, [each for name, each in GLOBAL_INVOICES.items() if "refused" not in name])
    assert (invoice.status, invoice.attempts) == ("EMITTED", 1)
