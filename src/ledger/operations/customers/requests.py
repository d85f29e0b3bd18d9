"""A merchant's request on a customer: finds what it names, and executes it once (contract N30, N61).

Such a request is a single commit, which records its answer too: an idempotency key that was used has its answer.
"""

from __future__ import annotations

from ledger.domain.customers.events import CustomerErased
from ledger.domain.customers.evolve import evolve
from ledger.domain.customers.state import Customer
from ledger.domain.fold import fold
from ledger.domain.rejections import CustomerNotFound
from ledger.journal.append import Change
from ledger.operations.pipeline.execute import Attempt, execute_once
from ledger.operations.pipeline.idempotency import recorded_request
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.results import CustomerResult


async def execute_customer_request(uow: UnitOfWork, attempt: Attempt) -> CustomerResult:
    """Executes a request on a customer, or returns the answer that its idempotency key received before.

    Raises what `attempt` raises, ConcurrentUpdate, a Fault of the journal; with a key also IdempotencyKeyReused and
    RequestInProgress.
    """
    return await execute_once(uow, attempt, _answered_before, _result)


async def find_customer(uow: UnitOfWork, reference: str) -> Customer:
    """Returns the customer that `reference` (service id or external id) names, loaded from the log.

    Raises CustomerNotFound, also where the customer is erased.
    """
    found = await uow.ledger.customers.by_reference(uow.merchant_id, reference)
    if found is None or found.customer.erased:
        raise CustomerNotFound("The merchant has no customer with this id.")
    uow.put(found.customer.customer_id, found.customer, found.version)
    uow.now = await uow.ledger.clock.refresh(uow.merchant_id)  # a decision on this state must not be dated before it
    return found.customer


async def find_source(uow: UnitOfWork, reference: str) -> Change:
    """Returns the change that checks, in the commit, that the customer which `sourceId` names is not erased meanwhile.

    Raises CustomerNotFound.
    """
    try:
        source = await find_customer(uow, reference)
    except CustomerNotFound:
        raise CustomerNotFound("The merchant has no customer with this sourceId.") from None
    return uow.change(source.customer_id, evolve, [])


async def _answered_before(uow: UnitOfWork) -> CustomerResult | None:
    """Returns the answer that the key has already. Raises CustomerNotFound where the customer was erased after it."""
    record = await recorded_request(uow)
    if record is None:
        return None
    assert record.order_id is not None, "an accepted request is about a stream"
    assert record.answer is not None, "a request on a customer is answered in its commit"
    events = await uow.ledger.journal.reader.stream(uow.merchant_id, record.order_id)
    answered, later = events[: record.answer.order_version], events[record.answer.order_version :]
    if any(isinstance(event, CustomerErased) for event in later):
        raise CustomerNotFound("The merchant has no customer with this id.")
    return CustomerResult(customer=fold(evolve, None, answered), replayed=record.answer.replayed, repeated=True)


async def _result(uow: UnitOfWork, plan: Plan) -> CustomerResult:
    if not plan.events and uow.key is not None:
        await uow.record_answer(plan, replayed=True)
    return CustomerResult(customer=uow.states[plan.stream_id], replayed=not plan.events)
