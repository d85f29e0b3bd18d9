"""A merchant's request on a customer: executes it once, and finds the source that it names (contract N30, N61).

Such a request is a single commit, which records its answer too: an idempotency key that was used has its answer.
"""

from __future__ import annotations

from ledger.domain.customers.events import CustomerErased
from ledger.domain.customers.state import Customer
from ledger.domain.rejections import CustomerNotFound
from ledger.domain.streams import CUSTOMERS
from ledger.journal.append import Change
from ledger.operations.pipeline.execute import Attempt
from ledger.operations.pipeline.execute_stream import StreamResult, execute_on_stream
from ledger.operations.pipeline.unit_of_work import UnitOfWork


async def execute_customer_request(uow: UnitOfWork, attempt: Attempt) -> StreamResult[Customer]:
    """Executes a request on a customer, or returns the answer that its idempotency key received before.

    Raises like `execute_on_stream`; CustomerNotFound if the customer was erased after that answer.
    """
    result = await execute_on_stream(uow, attempt, CUSTOMERS)
    if any(isinstance(event, CustomerErased) for event in result.later):
        raise CUSTOMERS.missing()
    return result


async def find_source(uow: UnitOfWork, reference: str) -> Change:
    """Returns the change that checks, in the commit, that the customer which `sourceId` names is not erased meanwhile.

    Raises CustomerNotFound.
    """
    try:
        source = await uow.find(CUSTOMERS, reference)
    except CustomerNotFound:
        raise CustomerNotFound("The merchant has no customer with this sourceId.") from None
    return uow.change(CUSTOMERS, source.customer_id, [])
