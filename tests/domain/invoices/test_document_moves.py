"""Every move of a document (contract 2.4), each with what takes it: a scenario for each, and none that is not listed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from tests.domain.builders import NOON, created, paid, refund_requested, refunded
from tests.domain.invoices.stamper import (
    DOWN,
    ENABLED,
    FISCAL,
    REFUSED,
    SILENT,
    SINGLE_FISCAL,
    SPLIT_FISCAL,
    next_command,
    stamped,
)

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import (
    CancelDocument,
    CancellationPending,
    Cancelled,
    NotFound,
    RecordCancellation,
    RecordStamping,
    Refused,
    StampRequest,
)
from ledger.domain.invoices.decide.cancellation import decide_cancellation_outcome, decide_document_cancellation
from ledger.domain.invoices.decide.stamping import decide_next, decide_outcome
from ledger.domain.invoices.due import invoice_status
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.state import Document
from ledger.domain.orders.invoices.terms import CancellationMotive, CreditNoteTerms, InvoiceTerms
from ledger.domain.orders.state import Order

HOUR: Final = timedelta(hours=1)
Move = tuple[str, str | None, str, str]
"""The kind of the document, its status before and after, and what took the move."""

_EACH: Final = """
    PENDING EMITTED answer
    PENDING EMITTED look-up
    PENDING FAILED answer
    FAILED PENDING timer
    FAILED PENDING request
    EMITTED REQUESTED cancellation
    REQUESTED WAITING answer
    REQUESTED CANCELLED answer
    REQUESTED REFUSED answer
    WAITING CANCELLED status
    WAITING REFUSED status
    REFUSED REQUESTED cancellation
"""
ALLOWED: Final = {
    *((kind, *line.split()) for kind in ("INVOICE", "REP", "CREDIT_NOTE") for line in _EACH.strip().splitlines()),
    *((kind, None, "PENDING", by) for kind in ("INVOICE", "REP", "CREDIT_NOTE") for by in ("timer", "request")),
}
"""The moves of contract 2.4, and those of a cancellation. EMITTED of an invoice is shown as INVOICED. A document that
replaces a cancelled one is another one."""


class Course:
    """An order whose documents move, one event after another; `moves` are those of its documents."""

    def __init__(self, *events: Any) -> None:
        self.order: Order = fold(evolve, None, events)
        self.now = NOON
        self.moves: list[Move] = []

    def then(self, *events: Any) -> None:
        self.order = fold(evolve, self.order, events)

    def take(self, by: str, events: Sequence[Any]) -> None:
        """Folds events one by one and records the moves."""
        for event in events:
            before = _statuses(self.order)
            self.order = evolve(self.order, event)
            for name, (kind, status) in _statuses(self.order).items():
                old = before.get(name, (kind, None))[1]
                if old != status:
                    self.moves.append((kind, old, status, by))

    def stamp(self, *answers: Any, by: str = "timer") -> None:
        """Stamps one document for each answer. None is an answer that is looked up, and found."""
        request = StampRequest() if by == "request" else None
        for answer in answers:
            self.take(by, decide_next(self.order, next_command(self.now, request)))
            document = self._next()
            self.take("answer", self._record(document, SILENT if answer is None else _of(answer, document)))
            if answer is None:
                self.take("look-up", self._record(document, stamped(document.document_id)))

    def cancel(self, document: Document, *answers: Any) -> None:
        """Asks for a cancellation; the first answer is the provider's, a second one SAT's later report."""
        command = CancelDocument(
            motive=CancellationMotive.WITHOUT_SUBSTITUTE, provider="sandbox", deadline_at=NOON, at=self.now,
            document_id=document.document_id,
        )  # fmt: skip
        self.take("cancellation", decide_document_cancellation(self.order, command))
        for by, answer in zip(("answer", "status"), answers, strict=False):
            record = RecordCancellation(document_id=document.document_id, outcome=answer, at=self.now)
            self.take(by, decide_cancellation_outcome(self.order, record))

    def _next(self) -> Document:
        assert self.order.invoices is not None
        document = self.order.invoices.next_document
        assert document is not None
        return document

    def _record(self, document: Document, outcome: Any) -> Sequence[Any]:
        return decide_outcome(
            self.order, RecordStamping(document_id=document.document_id, outcome=outcome, at=self.now)
        )

    def documents(self) -> tuple[Document, ...]:
        assert self.order.invoices is not None
        return self.order.invoices.documents


OK: Final = "ok"
_NO: Final = Refused("205", "UUID No existe.")


def _of(answer: Any, document: Document) -> Any:
    return stamped(document.document_id) if answer == OK else answer


def _statuses(order: Order) -> dict[object, tuple[str, str]]:
    documents = () if order.invoices is None else order.invoices.documents
    return {each.document_id: (_kind(each), _status(each)) for each in documents}


def _kind(document: Document) -> str:
    if isinstance(document.terms, InvoiceTerms):
        return "INVOICE"
    return "CREDIT_NOTE" if isinstance(document.terms, CreditNoteTerms) else "REP"


def _status(document: Document) -> str:
    if document.cancellation is None:
        return document.status.value
    status = document.cancellation.status.value
    return "WAITING" if status == "PENDING" else status


def courses() -> list[Course]:
    found = []
    for by in ("timer", "request"):
        for answer in (OK, None, REFUSED):
            invoice = Course(*SINGLE_FISCAL, *paid(1, 10_000))
            receipt = Course(*SPLIT_FISCAL, *paid(1, 10_000))
            note = Course(*SPLIT_FISCAL, *paid(1, 10_000))
            receipt.stamp(OK)
            note.stamp(OK, OK)
            note.then(refund_requested(1, 4000), refunded(1, 4000))
            for course in (invoice, receipt, note):
                course.stamp(answer, by=by)
                if answer is REFUSED:
                    course.now += HOUR
                    course.stamp(OK, by=by)
            found += [invoice, receipt, note]
    for answers in ((Cancelled(),), (_NO,), (CancellationPending(), Cancelled()), (CancellationPending(), _NO)):
        course = Course(*SPLIT_FISCAL, *paid(1, 10_000), refund_requested(1, 4000), refunded(1, 4000))
        course.stamp(OK, OK, OK)
        for document in reversed(course.documents()):  # an invoice is cancelled after its receipts and notes
            course.cancel(document, *answers)
            if answers[-1] is _NO:
                course.cancel(document, Cancelled())
        found.append(course)
    return found


def test_every_move_of_a_document_has_a_scenario_and_no_other_happens() -> None:
    taken = {move for course in courses() for move in course.moves}
    assert taken == ALLOWED


def test_a_call_that_had_no_effect_moves_no_document() -> None:
    course = Course(*SINGLE_FISCAL, *paid(1, 10_000))
    course.stamp(DOWN)
    course.now += HOUR
    course.stamp(SILENT)
    course.take("look-up", course._record(course.documents()[0], NotFound()))
    assert course.moves == [("INVOICE", None, "PENDING", "timer")]
    course.stamp(OK)
    assert course.moves[-1] == ("INVOICE", "PENDING", "EMITTED", "answer")


def test_the_status_that_the_order_shows_begins_with_the_trigger_and_ends_with_the_stamp() -> None:
    course = Course(created(fiscal=FISCAL), ENABLED)
    shown = [invoice_status(course.order)]
    course.then(*paid(1, 10_000))
    shown.append(invoice_status(course.order))
    for answer in (REFUSED, OK):
        course.stamp(answer)
        shown.append(invoice_status(course.order))
        course.now += HOUR
    assert shown == [None, "PENDING", "FAILED", "EMITTED"]
