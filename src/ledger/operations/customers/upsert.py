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
    if request.external_id is not None and request.id is None and not _is_outdated(conflict):
        found = uow.cached_customer(request.external_id)
    if found is None:
        found = await _find(uow, request, look_up=look_up or _is_outdated(conflict))
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


def _is_outdated(conflict: Conflict | None) -> bool:
    """Returns whether the cache may have lacked the customer in the previous attempt, or had an earlier version."""
    if isinstance(conflict, ClaimTaken):
        return conflict.claim.kind is ClaimKind.CUSTOMER_EXTERNAL_ID
    return isinstance(conflict, VersionConflict)


async def _find(uow: UnitOfWork, request: CustomerInput, *, look_up: bool) -> Customer | None:
    """Returns the customer from the log: by the id that the request names, else with `look_up` by the external id."""
    if request.id is not None:
        return await uow.find(CUSTOMERS, request.id)
    if request.external_id is None or not look_up:
        return None
    return await uow.find_claimed(CUSTOMERS, request.external_id)
