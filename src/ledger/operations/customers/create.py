"""Creates a customer on its own, without an order.

The claim on the external id decides which of two creations was first; no look-up beforehand does.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from uuid_utils.compat import uuid7

from ledger.domain.customers.commands import CreateCustomer
from ledger.domain.customers.decide import decide_create
from ledger.domain.customers.details import DETAILS
from ledger.domain.customers.events import NotificationPreferences
from ledger.domain.customers.state import Customer
from ledger.domain.streams import CUSTOMERS, ClaimKind
from ledger.journal.append import Claim, ClaimTaken, Conflict
from ledger.operations.context.inputs import Actor, CustomerFields
from ledger.operations.context.ledger import Ledger
from ledger.operations.customers.requests import execute_customer_request, find_source
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork


async def create_customer(
    ledger: Ledger, actor: Actor, fields: CustomerFields, key: IdempotencyKey | None = None
) -> StreamResult[Customer]:
    """Creates a customer (contract N61); one without an external id gets its service id as external id (N9).

    Raises like `execute_customer_request`; DuplicateExternalId, CustomerNotFound for `sourceId`.
    """
    uow = UnitOfWork(ledger, actor, key, creates=True)
    customer_id = uuid7()
    external_id = fields.external_id or str(customer_id)
    details = {name: value for name in (*DETAILS, "metadata") if (value := getattr(fields, name)) not in (UNSET, None)}

    async def attempt(conflict: Conflict | None) -> Plan:
        existing = None
        if isinstance(conflict, ClaimTaken):
            existing = await uow.find_claimed(CUSTOMERS, external_id)
        source = await find_source(uow, fields.source_id) if fields.source_id else None
        command = CreateCustomer(
            customer_id=customer_id,
            external_id=external_id,
            at=uow.now,
            source_id=None if source is None else source.stream_id,
            preferences=replace(NotificationPreferences(), **(fields.preferences or {})),
            fiscal=None if isinstance(fields.fiscal, UnsetType) else fields.fiscal,
            **details,
        )
        events = decide_create(existing, command)
        return Plan(
            changes=[uow.change(CUSTOMERS, customer_id, events), *([] if source is None else [source])],
            claims=[Claim(ClaimKind.CUSTOMER_EXTERNAL_ID, external_id, customer_id)],
        )

    return await ledger.complete(execute_customer_request(uow, attempt))
