"""Changes and deletes saved payment methods.

Deleting is three steps: the card is marked, the method is deleted in the log, the number is destroyed, or the processor
that keeps the card forgets it. A crash in between leaves the mark, by which `sweep` does the rest, or settles the card
if the method is still there.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from ledger.domain.payment_methods.commands import DeletePaymentMethod, UpdatePaymentMethod
from ledger.domain.payment_methods.decide import decide_delete, decide_update, not_found
from ledger.domain.payment_methods.events import PaymentMethodDeleted
from ledger.domain.payment_methods.state import SavedMethods, stream_of
from ledger.domain.streams import CUSTOMERS, PAYMENT_METHODS
from ledger.journal.append import Conflict
from ledger.operations.context.card_vault import VaultMissing
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.payment_methods.kept_cards import forget_method
from ledger.operations.pipeline.execute_stream import execute_on_stream
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork


class MethodUpdate(Struct, frozen=True, kw_only=True):
    """What a request changes: `billing` by the names of `Billing`'s fields, None clears one."""

    billing: Mapping[str, str | None]
    nickname: str | None | UnsetType = UNSET
    is_default: bool | UnsetType = UNSET


class UpdatedMethod(Struct, frozen=True, kw_only=True):
    """The methods after a request. `replayed` is set if the request changed nothing, or repeats one under its key."""

    methods: SavedMethods
    replayed: bool


async def find_customer(ledger: Ledger, merchant_id: UUID, reference: str) -> UUID:
    """Returns the customer that a path names by service id or external id. Raises CustomerNotFound, a Fault."""
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id))
    return (await uow.find(CUSTOMERS, reference)).customer_id


async def update_payment_method(
    ledger: Ledger,
    actor: Actor,
    customer_id: UUID,
    payment_method_id: UUID,
    request: MethodUpdate,
    key: IdempotencyKey | None = None,
) -> UpdatedMethod:
    """Changes billing details of a customer's method (contract N59), and returns the method.

    Raises like `execute_on_stream`; PaymentMethodNotFound, also if the method was deleted after the answer that the
    key received; InvalidField.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        methods = await _methods(uow, customer_id)
        command = UpdatePaymentMethod(
            payment_method_id=payment_method_id,
            at=uow.now,
            billing=request.billing,
            nickname=request.nickname,
            is_default=request.is_default,
        )
        events = decide_update(methods, command)
        return Plan(changes=[uow.change(PAYMENT_METHODS, stream_of(customer_id), events)])

    result = await ledger.complete(execute_on_stream(uow, attempt, PAYMENT_METHODS))
    assert result.state.method(payment_method_id) is not None, "only a live method is updated"
    if any(
        isinstance(event, PaymentMethodDeleted) and event.payment_method_id == payment_method_id
        for event in result.later
    ):
        raise not_found()
    return UpdatedMethod(methods=result.state, replayed=result.replayed or result.repeated)


async def delete_payment_method(
    ledger: Ledger,
    actor: Actor,
    customer_id: UUID,
    payment_method_id: UUID,
    key: IdempotencyKey | None = None,
    *,
    force: bool = False,
) -> bool:
    """Deletes a customer's method with its card (contract N58). Returns whether the key was answered before.

    Raises like `execute_on_stream`; PaymentMethodNotFound, also the second time; PaymentMethodInUse; VaultMissing where
    the number could not be destroyed.
    """
    return await ledger.complete(_delete(UnitOfWork(ledger, actor, key), customer_id, payment_method_id, force))


async def _delete(uow: UnitOfWork, customer_id: UUID, payment_method_id: UUID, force: bool) -> bool:
    vault, references = uow.ledger.vault, uow.ledger.card_references

    async def attempt(_: Conflict | None) -> Plan:
        methods = await _methods(uow, customer_id)
        command = DeletePaymentMethod(payment_method_id=payment_method_id, at=uow.now, force=force)
        return Plan(changes=[uow.change(PAYMENT_METHODS, stream_of(customer_id), decide_delete(methods, command))])

    methods = await uow.load(PAYMENT_METHODS, stream_of(customer_id))
    if methods is not None and methods.is_kept(payment_method_id):
        method = methods.method(payment_method_id)
        if vault is None and method is not None and method.account is None:
            raise VaultMissing
        # If the deletion is refused, the sweep finds the method in the log and settles the card again.
        if vault is not None:
            await vault.unsettle(uow.merchant_id, [payment_method_id])
        if references is not None:
            await references.unsettle(uow.merchant_id, payment_method_id)
    result = await execute_on_stream(uow, attempt, PAYMENT_METHODS)
    if vault is not None:
        await vault.destroy(uow.merchant_id, [payment_method_id])
    uow.ledger.begin(forget_method(uow.ledger, uow.merchant_id, payment_method_id))
    return result.repeated


async def _methods(uow: UnitOfWork, customer_id: UUID) -> SavedMethods:
    methods = await uow.load(PAYMENT_METHODS, stream_of(customer_id))
    if methods is None:
        raise not_found()
    return methods
