"""Cancellations of documents whose answer was lost: asked about, sent again, and refused by nothing but a refusal."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.background.test_recovery import AFTERWARDS, sweep
from tests.background.test_stamping import Crash, order_of
from tests.domain.invoices.stamper import FISCAL, documents_of
from tests.operations.conftest import an_order, by_card

from ledger.domain.invoices.commands import CancellationPending, Refused
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.events import DocumentCancellationRequested
from ledger.domain.orders.invoices.state import CancellationStatus, DocumentCancellation
from ledger.domain.orders.invoices.terms import CancellationMotive
from ledger.domain.orders.state import Order
from ledger.invoicing.contract import ProviderTimedOut, ProviderUnavailable
from ledger.invoicing.providers.sandbox import SandboxProvider
from ledger.journal.journal import Journal
from ledger.operations.context.inputs import Actor, CancelDocumentInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.operations.orders.invoices.cancel import cancel_document, update_cancellation
from ledger.operations.orders.invoices.provider_calls import DocumentCancellationCall
from ledger.operations.orders.invoices.stamp import stamp_due
from ledger.operations.orders.open_calls import open_calls
from ledger.operations.pipeline.execute import record_outcome
from ledger.operations.pipeline.unit_of_work import UnitOfWork

pytestmark = pytest.mark.anyio

REQUEST = CancelDocumentInput(motive=CancellationMotive.NOT_CARRIED_OUT)


async def invoiced(ledger: Ledger, merchant: Actor) -> UUID:
    made = await create_order(ledger, merchant, an_order("1", by_card(), fiscal=FISCAL))
    order = await stamp_due(ledger, merchant.merchant_id, made.order.terms.order_id)
    assert [row[-1] for row in documents_of(order)] == ["EMITTED"]
    return order.terms.order_id


def cancellation(order: Order) -> DocumentCancellation:
    assert order.invoices is not None
    assert order.invoices.invoice is not None
    assert order.invoices.invoice.cancellation is not None
    return order.invoices.invoice.cancellation


async def ask(ledger: Ledger, merchant: Actor, order_id: UUID) -> DocumentCancellation:
    order = await order_of(ledger, merchant, order_id)
    assert order.invoices is not None
    assert order.invoices.invoice is not None
    await update_cancellation(ledger, merchant.merchant_id, order_id, order.invoices.invoice.document_id)
    return cancellation(await order_of(ledger, merchant, order_id))


@pytest.mark.parametrize("arrived", [False, True])
async def test_a_cancellation_without_an_answer_is_sent_again_until_it_has_one(
    arrived: bool, ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await invoiced(ledger, merchant)
    cancel = SandboxProvider.cancel
    failures: list[Exception] = [ProviderTimedOut("lost"), ProviderTimedOut("lost"), ProviderUnavailable("away")]
    sent = 0

    async def lose(provider: SandboxProvider, request: Any) -> Any:
        nonlocal sent
        sent += 1
        answer = await cancel(provider, request) if arrived or not failures else None
        if failures:
            raise failures.pop(0)
        return answer

    monkeypatch.setattr(SandboxProvider, "cancel", lose)
    await cancel_document(ledger, merchant, "1", REQUEST)
    states = [(await ask(ledger, merchant, order_id)) for _ in range(4)]
    assert states[-1].status is CancellationStatus.CANCELLED
    assert sent == (1 if arrived else 4)
    assert CancellationStatus.REFUSED not in {each.status for each in states}


async def test_a_crash_before_the_call_is_sent_leads_to_a_cancellation_that_is_sent(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await invoiced(ledger, merchant)
    commit = Journal.commit

    async def commit_and_crash(journal: Journal, merchant_id: UUID, command_id: UUID, changes: Any, *rest: Any) -> Any:
        done = await commit(journal, merchant_id, command_id, changes, *rest)
        if any(isinstance(event, DocumentCancellationRequested) for change in changes for event in change.events):
            raise Crash
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "commit", commit_and_crash)
        with pytest.raises(Crash):
            await cancel_document(ledger, merchant, "1", REQUEST)
    assert (await ask(ledger, merchant, order_id)).status is CancellationStatus.REQUESTED, "left to the recovery"
    await sweep(ledger, database_url, AFTERWARDS)
    assert cancellation(await order_of(ledger, merchant, order_id)).status is CancellationStatus.PENDING
    assert (await ask(ledger, merchant, order_id)).status is CancellationStatus.CANCELLED


async def test_the_late_end_of_a_call_leaves_the_one_that_began_since(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await invoiced(ledger, merchant)

    async def silent(*_: Any) -> Any:
        raise ProviderTimedOut("lost")

    monkeypatch.setattr(SandboxProvider, "cancel", silent)
    calls: list[Any] = []
    make = DocumentCancellationCall.without_answer

    def seen(call: DocumentCancellationCall, failure: Any) -> Any:
        calls.append(call)
        return make(call, failure)

    monkeypatch.setattr(DocumentCancellationCall, "without_answer", seen)
    await cancel_document(ledger, merchant, "1", REQUEST)
    order = await order_of(ledger, merchant, order_id)
    late = calls[0]
    again = DocumentCancellationRequested(
        document_id=late.document.document_id, motive=REQUEST.motive, provider="sandbox",
        deadline_at=late.deadline_at.replace(year=late.deadline_at.year + 1), at=order.updated_at,
    )  # fmt: skip
    state = evolve(order, again)
    for outcome in (Refused("204", "No."), CancellationPending()):
        assert late.record(state, outcome, order.updated_at) == []
    assert open_calls(ledger, merchant.merchant_id, state)[0].record(state, Refused("204", "No."), order.updated_at)
    await record_outcome(UnitOfWork(ledger, merchant), late, Refused("204", "No."))
    assert cancellation(await order_of(ledger, merchant, order_id)).status is CancellationStatus.REFUSED
