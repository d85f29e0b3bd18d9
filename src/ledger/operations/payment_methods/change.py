"""Changes and deletes saved payment methods.

Deleting is three steps: the number is marked, the method is deleted in the log, the number is destroyed. A crash in
between leaves the mark, by which `sweep` destroys the number, or settles it where the method is still there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.payment_methods.commands import DeletePaymentMethod, UpdatePaymentMethod
from ledger.domain.payment_methods.decide import decide_delete, decide_update, not_found
from ledger.domain.payment_methods.evolve import evolve
from ledger.domain.payment_methods.state import SavedMethod, SavedMethods, stream_of
from ledger.domain.rejections import CustomerNotFound
from ledger.journal.append import Conflict
from ledger.operations.inputs import Actor
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.idempotency import completed_before
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork

_DONE: Final = Raw(b"{}")
"""The recorded result of a request: billing details are personal, so a repeated request is answered from the state."""


class MethodUpdate(Struct, frozen=True, kw_only=True):
    """What a request changes: `billing` by the names of `Billing`'s fields, None clears one."""

    billing: Mapping[str, str | None]
    nickname: str | None | UnsetType = UNSET
    is_default: bool | UnsetType = UNSET


async def find_customer(ledger: Ledger, merchant_id: UUID, reference: str) -> UUID:
    """Returns the customer that a path names by service id or external id. Raises CustomerNotFound, a Fault."""
    found = await ledger.customers.by_reference(merchant_id, reference)
    if found is None or found.customer.erased:
        raise CustomerNotFound("The merchant has no customer with this id.")
    return found.customer.customer_id


async def update_payment_method(
    ledger: Ledger,
    actor: Actor,
    customer_id: UUID,
    payment_method_id: UUID,
    request: MethodUpdate,
    key: IdempotencyKey | None = None,
) -> tuple[SavedMethod, bool]:
    """Changes billing details of a customer's method (contract N59). Returns the method as it is now, and whether the
    request was carried out under this key before.

    Raises PaymentMethodNotFound, InvalidField, ConcurrentUpdate, a Fault; with a key also IdempotencyKeyReused,
    RequestInProgress.
    """
    uow = UnitOfWork(ledger, actor, key)
    if key is not None and await completed_before(uow) is not None:
        method = (await _methods(uow, customer_id)).method(payment_method_id)
        if method is None:
            raise not_found()
        return method, True

    async def attempt(_: Conflict | None) -> Plan:
        command = UpdatePaymentMethod(
            payment_method_id=payment_method_id,
            at=uow.now,
            billing=request.billing,
            nickname=request.nickname,
            is_default=request.is_default,
        )
        events = decide_update(await _methods(uow, customer_id), command)
        return Plan(changes=[uow.change(stream_of(customer_id), evolve, events)], result=None if key is None else _DONE)

    plan = await execute(uow, attempt)
    if plan.result is not None and not plan.events:
        await uow.record_result(plan.result)
    methods: SavedMethods = plan.changes[0].after
    method = methods.method(payment_method_id)
    assert method is not None, "only a live method is updated"
    return method, False


async def delete_payment_method(
    ledger: Ledger,
    actor: Actor,
    customer_id: UUID,
    payment_method_id: UUID,
    *,
    force: bool = False,
    key: IdempotencyKey | None = None,
) -> bool:
    """Deletes a customer's method and destroys its number (contract N58). Returns whether that was done under this key
    before.

    Raises PaymentMethodNotFound, also the second time without a key; PaymentMethodInUse, ConcurrentUpdate, a Fault;
    with a key also IdempotencyKeyReused, RequestInProgress.
    """
    return await ledger.complete(_delete(UnitOfWork(ledger, actor, key), customer_id, payment_method_id, force))


async def _delete(uow: UnitOfWork, customer_id: UUID, payment_method_id: UUID, force: bool) -> bool:
    ledger = uow.ledger
    if uow.key is not None and await completed_before(uow) is not None:
        return True

    async def attempt(_: Conflict | None) -> Plan:
        # This release has no subscriptions: no method is used by one.
        command = DeletePaymentMethod(payment_method_id=payment_method_id, at=uow.now, used_by=(), force=force)
        events = decide_delete(await _methods(uow, customer_id), command)
        if ledger.vault is not None:
            await ledger.vault.unsettle(uow.merchant_id, [payment_method_id])
        return Plan(
            changes=[uow.change(stream_of(customer_id), evolve, events)], result=None if uow.key is None else _DONE
        )

    await execute(uow, attempt)
    if ledger.vault is not None:
        await ledger.vault.destroy(uow.merchant_id, [payment_method_id])
    return False


async def _methods(uow: UnitOfWork, customer_id: UUID) -> SavedMethods:
    methods: SavedMethods | None = await uow.load(stream_of(customer_id), evolve)
    if methods is None:
        raise not_found()
    return methods
