"""What must hold of customers, saved cards and the vault: compares the clients' record, the log and the vault's rows.

An operation of unknown outcome may have happened or not. A card number is nowhere outside the memory of a process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from tests.api.payment_methods.flood import found_in, tables

from campaigns.chaos.acknowledged import Record
from campaigns.chaos.evidence import MerchantEvidence
from campaigns.chaos.witness import Operation
from ledger.audit.invariants.vault import broken_vault
from ledger.domain.orders.events import PaymentStarted
from ledger.domain.streams import ClaimKind

_NO_CODE = "\0"  # the security code of these requests is found in many places by chance


def lost(record: Record) -> Iterator[str]:
    """Yields acknowledged changes that are not in the log."""
    for operation, answer in record.acknowledged:
        evidence = record.evidence[operation.asked.merchant_id]
        if answer.method_id is not None and answer.method_id not in evidence.saved_methods:
            yield f"operation {operation.n}: method {answer.method_id} is not saved"
        if not _is_recorded(operation, evidence):
            yield f"operation {operation.n}: {operation.asked.do} of {operation.asked.customer!r} is not in the log"


def doubled(record: Record) -> Iterator[str]:
    """Yields changes under an idempotency key that were made twice, and cards that are saved as two live methods."""
    live: dict[tuple[UUID, str, str], set[UUID]] = {}
    for operation, answer in record.acknowledged:
        asked, evidence = operation.asked, record.evidence[operation.asked.merchant_id]
        if asked.key is not None and asked.value is not None and evidence.written_values[asked.value] > 1:
            yield f"operation {operation.n}: {asked.do} was made {evidence.written_values[asked.value]} times"
        if (
            asked.number is not None
            and answer.method_id is not None
            and answer.method_id not in evidence.deleted_methods
        ):
            live.setdefault((asked.merchant_id, asked.customer or "", asked.number), set()).add(answer.method_id)
    for (_, customer, _), methods in live.items():
        if len(methods) > 1:
            yield f"a card of {customer!r} is saved {len(methods)} times"


def the_vault_agrees(evidence: MerchantEvidence) -> Iterator[str]:
    """Every saved method has its number, and no settled number is left without its method."""
    live = evidence.saved_methods - evidence.deleted_methods.keys()
    yield from map(str, broken_vault(live, evidence.vault))


def nothing_is_paid_by_a_deleted_method(evidence: MerchantEvidence) -> Iterator[str]:
    """No payment is announced by a saved method after its deletion."""
    deleted = evidence.deleted_methods
    for recorded in evidence.log:
        if isinstance(recorded.event, PaymentStarted):
            method_id = recorded.event.method.method_id
            if method_id in deleted and deleted[method_id] < recorded.position:
                yield f"payment {recorded.event.payment_id} is by {method_id}, which was deleted before"


def numbers_outside(url: str, operations: Sequence[Operation], log: Path) -> Iterator[str]:
    """Yields where a number that a client saved is found: in a table, the vault's included, or in the service's log."""
    numbers = {operation.asked.number for operation in operations if operation.asked.number is not None}
    places = tables(url) | ({log.name: log.read_bytes()} if log.exists() else {})
    for place, content in places.items():
        if found := found_in(content, numbers, _NO_CODE) - {"cvc"}:
            yield f"{len(found)} card numbers are in {place}"


def _is_recorded(operation: Operation, evidence: MerchantEvidence) -> bool:
    asked = operation.asked
    customer_id = evidence.claims.get((ClaimKind.CUSTOMER_EXTERNAL_ID, asked.customer or ""))
    erased = customer_id in evidence.erased_customers
    match asked.do:
        case "erase-customer":
            return erased
        case "delete-method":
            return asked.method in evidence.deleted_methods
        case "change-customer" | "change-method":  # what an erased customer had cannot be read
            return erased or bool(evidence.written_values[asked.value or ""])
        case _:
            return True
