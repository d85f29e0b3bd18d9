"""The customer that an order brings along: found or made in the commit that makes the order.

The rule a stranger would break: a customer that this process does not know is first taken for new. The claim on the
external id tells within the same commit whether that is so, which saves a question for every customer that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct
from uuid_utils.compat import uuid7

from ledger.domain.customers.commands import UpsertCustomer
from ledger.domain.customers.decide import decide_upsert
from ledger.domain.customers.evolve import evolve
from ledger.domain.customers.state import Customer
from ledger.domain.rejections import CustomerNotFound
from ledger.journal.append import Change, Claim, ClaimKind
from ledger.operations.customers.cache import CachedCustomer
from ledger.operations.inputs import CustomerInput
from ledger.operations.ledger import Ledger


class CustomerUpsert(Struct, frozen=True):
    """What an order's commit does about its customer: at least insists that it still stands as it was read."""

    customer: Customer
    change: Change
    claims: Sequence[Claim]

    @property
    def version(self) -> int:
        """The version of the customer's stream once the commit has happened."""
        return self.change.expected + len(self.change.events)


async def upsert_customer(ledger: Ledger, merchant_id: UUID, draft: CustomerInput, at: datetime) -> CustomerUpsert:
    """Decide what becomes of the customer of a new order. Raises CustomerNotFound where `draft.id` names nobody, or
    somebody who was erased: a person that is forgotten does not order again under the same name.
    """
    if draft.id is not None:
        known = await ledger.customers.by_reference(merchant_id, draft.id)
        if known is None:
            raise CustomerNotFound("The customer was not found.")
    else:
        known = ledger.customers.get(merchant_id, draft.external_id) if draft.external_id is not None else None
    if known is not None and known.customer.erased:
        raise CustomerNotFound("The customer was not found.")
    return _introduce(known, draft, at)


def _introduce(known: CachedCustomer | None, draft: CustomerInput, at: datetime) -> CustomerUpsert:
    customer_id = uuid7() if known is None else known.customer.customer_id
    external_id = str(customer_id) if draft.external_id is None else draft.external_id
    before = None if known is None else known.customer
    command = UpsertCustomer(
        customer_id=customer_id,
        external_id=external_id,
        at=at,
        first_name=draft.first_name,
        last_name=draft.last_name,
        email=draft.email,
        phone_number=draft.phone_number,
    )
    events = decide_upsert(before, command)
    after = before
    for event in events:
        after = evolve(after, event)
    assert after is not None
    change = Change(customer_id, 0 if known is None else known.version, events, before, after)
    claims = [Claim(ClaimKind.CUSTOMER_EXTERNAL_ID, external_id, customer_id)] if known is None else []
    return CustomerUpsert(after, change, claims)
