"""Changes a customer: the fields that the request gives, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ledger.domain.customers.commands import ChangeCustomer
from ledger.domain.customers.decide import decide_change
from ledger.domain.customers.details import DETAILS
from ledger.domain.customers.events import NotificationPreferences
from ledger.domain.customers.state import Customer
from ledger.domain.ids import parse_uuid
from ledger.domain.rejections import CustomerNotFound, InvalidField
from ledger.domain.streams import CUSTOMERS
from ledger.journal.append import Change, Conflict
from ledger.operations.context.inputs import Actor, CustomerFields
from ledger.operations.context.ledger import Ledger
from ledger.operations.customers.requests import execute_customer_request, find_source
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork

_AS_GIVEN: Final = ("external_id", *DETAILS, "metadata", "fiscal")


async def change_customer(
    ledger: Ledger, actor: Actor, reference: str, fields: CustomerFields, key: IdempotencyKey | None = None
) -> StreamResult[Customer]:
    """Changes the customer that `reference` (service id or external id) names (contract N61).

    Raises like `execute_customer_request`; CustomerNotFound for the customer and for `sourceId`, InvalidField for
    `externalId` and `sourceId`.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        customer = await uow.find(CUSTOMERS, reference)
        source_id, checks = await _source(uow, customer, fields.source_id)
        command = ChangeCustomer(
            at=uow.now,
            source_id=source_id,
            preferences=_preferences(customer, fields.preferences),
            **{name: getattr(fields, name) for name in _AS_GIVEN},
        )
        events = decide_change(customer, command)
        return Plan(changes=[uow.change(CUSTOMERS, customer.customer_id, events), *checks])

    return await ledger.complete(execute_customer_request(uow, attempt))


async def refused_ids(ledger: Ledger, actor: Actor, reference: str, fields: CustomerFields) -> InvalidField | None:
    """Returns what the customer refuses of the ids that a request gives, without changing anything.

    An unknown source counts as absent. Raises CustomerNotFound, a Fault.
    """
    uow = UnitOfWork(ledger, actor)
    customer = await uow.find(CUSTOMERS, reference)
    try:
        source_id, _ = await _source(uow, customer, fields.source_id)
    except CustomerNotFound:
        source_id = UNSET
    external_id = UNSET if fields.external_id is None else fields.external_id
    try:
        decide_change(customer, ChangeCustomer(at=uow.now, external_id=external_id, source_id=source_id))
    except InvalidField as refused:
        return refused
    return None


async def _source(uow: UnitOfWork, customer: Customer, given: str | None | UnsetType) -> tuple[Any, list[Change]]:
    """Returns the service id that `sourceId` names, and the check of its customer in the commit.

    A source that stays the same is not looked up: it may be erased by now.
    """
    if given is None or isinstance(given, UnsetType):
        return given, []
    if customer.source_id is not None and parse_uuid(given) == customer.source_id:
        return UNSET, []
    check = await find_source(uow, given)
    return check.stream_id, [check]


def _preferences(
    customer: Customer, given: Mapping[str, Any] | None | UnsetType
) -> NotificationPreferences | None | UnsetType:
    return given if given is None or isinstance(given, UnsetType) else replace(customer.preferences, **given)
