"""Finds or creates the customer of a new order, in the commit that creates the order.

A customer that this process does not know is first taken for new. The claim on the external id detects in the same
commit whether that is true, which saves a look-up for every customer that is.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from uuid_utils.compat import uuid7

from ledger.domain.customers.commands import UpsertCustomer
from ledger.domain.customers.decide import decide_upsert
from ledger.domain.customers.state import Customer
from ledger.domain.streams import CUSTOMERS, ClaimKind
from ledger.journal.append import Change, Claim, ClaimTaken, Conflict, VersionConflict
from ledger.operations.context.inputs import CustomerInput
from ledger.operations.pipeline.unit_of_work import UnitOfWork


class CustomerUpsert(Struct, frozen=True):
    """What an order's commit does about its customer; without events it only checks the customer's version."""

    change: Change
    claims: Sequence[Claim]


async def upsert_customer(
    uow: UnitOfWork, request: CustomerInput, conflict: Conflict | None, *, look_up: bool = False
) -> CustomerUpsert:
    """Decides what the commit of a new order does about its customer. `conflict` is what the previous attempt met.

    `look_up` looks for an unknown customer in the log before it is taken for new: its saved cards are needed.

    Raises CustomerNotFound if `request.id` names no customer, and if the customer was erased: an erased person
    does not order again under the same name.
    """
    found = None
    if request.external_id is not None and request.id is None and conflict is None:
        found = uow.cached_customer(request.external_id)
    if found is None:
        found = await _find(uow, request, conflict, look_up)
    if found is not None and found.erased:
        raise CUSTOMERS.missing()
    customer_id = uuid7() if found is None else found.customer_id
    external_id = str(customer_id) if request.external_id is None else request.external_id
    command = UpsertCustomer(
        customer_id=customer_id,
        external_id=external_id,
        at=uow.now,
        details=request,
    )
    claims = [Claim(ClaimKind.CUSTOMER_EXTERNAL_ID, external_id, customer_id)] if found is None else ()
    return CustomerUpsert(uow.change(CUSTOMERS, customer_id, decide_upsert(found, command)), claims)


async def _find(uow: UnitOfWork, request: CustomerInput, conflict: Conflict | None, look_up: bool) -> Customer | None:
    """Returns the customer from the cache; from the log if the request names an id, and after a conflict."""
    if request.id is not None:
        return await uow.find(CUSTOMERS, request.id)
    if request.external_id is None:
        return None
    taken = isinstance(conflict, ClaimTaken) and conflict.claim.kind is ClaimKind.CUSTOMER_EXTERNAL_ID
    if taken or isinstance(conflict, VersionConflict):  # the cache was missing the customer, or outdated
        return await uow.find_claimed(CUSTOMERS, request.external_id)
    found = uow.cached_customer(request.external_id)
    return await uow.find_claimed(CUSTOMERS, request.external_id) if look_up and found is None else found
