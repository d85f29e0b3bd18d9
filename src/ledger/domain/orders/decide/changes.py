"""The decider that changes an order's terms after its creation: an event for each that a request changes.

What is so already gives no event and is never refused, so that a repeated request changes nothing.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw, UnsetType, to_builtins
from msgspec.structs import replace

from ledger.domain.merge_patch import patched
from ledger.domain.money import shortest
from ledger.domain.orders.commands import ChangeOrder, OrderChanges
from ledger.domain.orders.decide.guards import require_amount, require_lines, wrong_state
from ledger.domain.orders.events import (
    OrderAmountChanged,
    OrderCreated,
    OrderDescriptionChanged,
    OrderDueDateChanged,
    OrderEvent,
    OrderInvoiceNumberChanged,
    OrderLineItemsChanged,
    OrderMetadataChanged,
    OrderReceiverChanged,
    RemindersScheduled,
)
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NOTHING_OWED, OrderStatus
from ledger.domain.orders.terms import METADATA_BYTES_MAX, FiscalData
from ledger.domain.rejections import InvalidField, OrderInvoiced

_OWING: Final = tuple(status for status in OrderStatus if status not in NOTHING_OWED)


def decide_change(order: Order, command: ChangeOrder) -> list[OrderEvent]:
    """Returns an event for each term that the command changes.

    Raises InvalidOrderState for an amount after the first payment, the due date of an order that owes nothing, and
    personal data after the erasure of the payer; OrderInvoiced for what the invoice states, once it is stamped or being
    stamped. Only then InvalidField for lines that do not add up: no lines make an amount right that cannot change.
    """
    before, after = order.terms, terms_after(order, command.changes)
    receiver = _new_receiver(order, command.changes)
    changes_lines = after.line_items != before.line_items
    changes_number = after.invoice_number != before.invoice_number
    if after.amount != before.amount:
        require_amount(after.amount)
        _require_no_payment(order)
    if after.due_date != before.due_date and order.status in NOTHING_OWED:
        raise wrong_state(order, f"An order that is {order.status} has no due date: nothing is owed.", *_OWING)
    if order.payer_forgotten and (receiver is not None or after.metadata != before.metadata):
        raise wrong_state(order, "The customer of the order was erased: it takes no metadata and no fiscal data.")
    if after.amount != before.amount or changes_lines or changes_number or receiver is not None:
        require_not_invoiced(order)
    if after.amount != before.amount or changes_lines:
        _require_sum(after, command.changes)
    return _events(command, before, after, receiver)


def terms_after(order: Order, changes: OrderChanges) -> OrderCreated:
    """Returns the order's terms after the changes, without the receiver's. Raises InvalidField for metadata that grow
    too long.
    """
    given = {
        "amount": changes.amount,
        "description": changes.description,
        "invoice_number": changes.invoice_number,
        "due_date": changes.due_date,
        "line_items": changes.line_items,
    }
    after = {name: value for name, value in given.items() if value is not UNSET}
    return replace(order.terms, metadata=_metadata_after(order.terms.metadata, changes.metadata), **after)


def require_not_invoiced(order: Order) -> None:
    """Raises OrderInvoiced if an invoice of the order is stamped, or a call about it is open, or a global invoice
    states it. A further invoice has the receiver and the taxes of the order's own, also once that one is cancelled.
    """
    if order.global_invoice_id is not None:
        raise OrderInvoiced(
            f"The global invoice {order.global_invoice_id} states the order: its amount, lines and receiver stay."
        )
    issued = () if order.invoices is None else order.invoices.issued_invoices
    invoice = next(iter(issued), None)
    if invoice is None:
        return
    if invoice.supplements is not None:
        raise OrderInvoiced(
            f"The further invoice {invoice.document_id} of the order is stamped, or being stamped, with its lines and its "
            "receiver: cancel it with POST …/cfdi-cancel and its documentId first."
        )
    if invoice.stamp is not None:
        raise OrderInvoiced(
            "The invoice of the order is stamped and states its amount, its lines and its receiver: cancel it with POST "
            "…/cfdi-cancel first."
        )
    raise OrderInvoiced("The invoice of the order is being stamped: send the request again once it has an outcome.")


def _metadata_after(current: Raw | UnsetType, patch: Raw | None | UnsetType) -> Raw | UnsetType:
    """Returns metadata after a patch. Those that are absent stay so if the patch only takes members away."""
    if patch is None or isinstance(patch, UnsetType):
        return UNSET if patch is None else current
    after = patched(current, patch)
    if isinstance(after, UnsetType) or (isinstance(current, UnsetType) and bytes(after) == b"{}"):
        return UNSET
    if after != current and len(bytes(after)) > METADATA_BYTES_MAX:
        raise InvalidField("metadata", f"must have at most {METADATA_BYTES_MAX} bytes as compact JSON after the change")
    return after


def _new_receiver(order: Order, changes: OrderChanges) -> FiscalData | None:
    """Returns the receiver that the changes bring, None if the order has it already. Raises InvalidField for null."""
    if changes.fiscal is None and order.is_fiscal:
        raise InvalidField("customerFiscalData", "cannot be taken away: name another receiver, or cancel the order")
    if changes.fiscal is None or isinstance(changes.fiscal, UnsetType):
        return None
    given = to_builtins(changes.fiscal)  # structs of two classes are never equal
    is_same = any(known is not None and to_builtins(known) == given for known in (order.fiscal, order.invoiced_to))
    return None if is_same else changes.fiscal


def _require_sum(after: OrderCreated, changes: OrderChanges) -> None:
    try:
        require_lines(after.line_items, after.amount)
    except InvalidField:
        if changes.line_items is not UNSET:
            raise
        raise InvalidField("amount", "must be what lineItems add up to: send the lines as well") from None


def _require_no_payment(order: Order) -> None:
    if order.payments or order.status is not OrderStatus.PENDING:
        message = (
            "The amount changes only before the first payment of the order: create another order, and cancel this one "
            "if it is open."
        )
        raise wrong_state(order, message, OrderStatus.PENDING)


def _events(
    command: ChangeOrder, before: OrderCreated, after: OrderCreated, receiver: FiscalData | None
) -> list[OrderEvent]:
    at, events = command.at, list[OrderEvent]()
    if after.amount != before.amount:
        events.append(OrderAmountChanged(amount=shortest(after.amount), at=at))
    if after.description != before.description:
        events.append(OrderDescriptionChanged(description=after.description, at=at))
    if after.invoice_number != before.invoice_number:
        events.append(OrderInvoiceNumberChanged(invoice_number=after.invoice_number, at=at))
    if after.metadata != before.metadata:
        patch = command.changes.metadata
        events.append(OrderMetadataChanged(patch=UNSET if patch is None else patch, removed=patch is None, at=at))
    if after.due_date != before.due_date:
        events.append(OrderDueDateChanged(due_date=after.due_date, at=at))
        if after.due_date is not None:
            events.append(RemindersScheduled(due_date=after.due_date, policy=command.reminders, at=at))
    if after.line_items != before.line_items:
        events.append(OrderLineItemsChanged(line_items=after.line_items, at=at))
    if receiver is not None:
        events.append(OrderReceiverChanged(fiscal=receiver, at=at))
    return events
