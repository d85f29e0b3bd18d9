"""The message with a stamped document: one attempt at a time, and why it is not sent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.domain.builders import DEADLINE, NOON, folded, paid
from tests.domain.invoices.stamper import SINGLE_FISCAL, run, stamped

from ledger.domain.customers.terms import Accepted, AttemptOutcome, NotAccepted, Refused
from ledger.domain.fold import fold
from ledger.domain.invoices.commands import MailDocument, RecordDocumentMail
from ledger.domain.invoices.decide.mail import decide_document_mail, decide_document_mail_outcome
from ledger.domain.invoices.due import InvoiceTimerKind, invoice_timers
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.mail_events import (
    DocumentMailDropped,
    DocumentMailed,
    DocumentMailPostponed,
    DocumentMailRequested,
    MailDroppedBecause,
)
from ledger.domain.orders.state import Order

B = MailDroppedBecause


def an_invoice(*, mail: bool = True) -> tuple[Order, UUID]:
    """Returns an order with a stamped invoice, and the invoice's id."""
    order = folded([*SINGLE_FISCAL, *paid(1, 10_000)])
    order = run(order, answer=lambda document_id: replace(stamped(document_id), mail=mail))
    assert order.invoices is not None
    assert order.invoices.invoice is not None
    return order, order.invoices.invoice.document_id


def mailing(document_id: UUID, **changes: Any) -> MailDocument:
    fields = {"notifier": "smtp", "deadline_at": DEADLINE, "real_at": NOON, "at": NOON}
    return MailDocument(document_id=document_id, **(fields | changes))


def begun(order: Order, document_id: UUID, **changes: Any) -> Order:
    events = decide_document_mail(order, mailing(document_id, **changes))
    assert [type(event) for event in events] == [DocumentMailRequested]
    return fold(evolve, order, events)


def ended(order: Order, document_id: UUID, outcome: AttemptOutcome) -> tuple[Any, Order]:
    command = RecordDocumentMail(document_id=document_id, outcome=outcome, at=NOON)
    (event,) = decide_document_mail_outcome(order, command)
    after = fold(evolve, order, [event])
    assert decide_document_mail_outcome(after, command) == [], "an outcome is recorded once"
    return event, after


def mail_timers(order: Order) -> list[Any]:
    return [(about, at) for kind, about, at in invoice_timers(order) if kind is InvoiceTimerKind.MAIL]


def test_a_stamped_document_is_mailed_once():
    order, document_id = an_invoice()
    assert mail_timers(order) == [(document_id, NOON)]
    running = begun(order, document_id)
    assert mail_timers(running) == []
    assert decide_document_mail(running, mailing(document_id)) == [], "another worker's attempt is running"
    event, after = ended(running, document_id, Accepted())
    assert event == DocumentMailed(document_id=document_id, at=NOON)
    assert mail_timers(after) == []
    assert decide_document_mail(after, mailing(document_id)) == []
    assert after.updated_at == order.updated_at, "a message changes nothing of the order"


def test_a_document_of_a_release_that_mailed_none_is_not_mailed():
    order, document_id = an_invoice(mail=False)
    assert mail_timers(order) == []
    assert decide_document_mail(order, mailing(document_id)) == []


def test_an_interrupted_attempt_is_repeated_once():
    order, document_id = an_invoice()
    running = begun(order, document_id)
    later = DEADLINE + timedelta(seconds=1)
    again = begun(running, document_id, real_at=later, deadline_at=later + timedelta(minutes=1))
    (dropped,) = decide_document_mail(again, mailing(document_id, real_at=later + timedelta(minutes=2)))
    assert dropped == DocumentMailDropped(document_id=document_id, because=B.UNKNOWN, at=NOON)


def test_a_document_that_the_server_did_not_take_is_tried_again_after_its_pause():
    order, document_id = an_invoice()
    event, after = ended(begun(order, document_id), document_id, NotAccepted("RCPT 450"))
    retry_at = NOON + timedelta(minutes=1)
    assert event == DocumentMailPostponed(document_id=document_id, code="RCPT 450", retry_at=retry_at, at=NOON)
    assert mail_timers(after) == [(document_id, retry_at)]
    assert decide_document_mail(after, mailing(document_id)) == []
    begun(after, document_id, at=retry_at)


def test_a_refused_document_is_dropped_with_the_servers_code():
    order, document_id = an_invoice()
    event, after = ended(begun(order, document_id), document_id, Refused("RCPT 550"))
    assert (event.because, event.code) == (B.REFUSED, "RCPT 550")
    assert mail_timers(after) == []


@pytest.mark.parametrize("because", [B.ERASED, B.NO_ADDRESS, B.UNWANTED])
def test_what_the_customer_wants_now_counts(because: MailDroppedBecause):
    order, document_id = an_invoice()
    (event,) = decide_document_mail(order, mailing(document_id, withheld=because))
    assert event == DocumentMailDropped(document_id=document_id, because=because, at=NOON)


def test_a_fiscal_document_is_never_too_late_to_be_mailed():
    order, document_id = an_invoice()
    begun(order, document_id, at=NOON + timedelta(days=3))
