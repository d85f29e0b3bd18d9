"""The kinds of public events: what a merchant's programs can learn of, and the patterns by which they choose.

A kind's name is permanent: consumers compare it. Add kinds; never rename one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ledger.py311_speedups import fast_members


@fast_members
class ResourceType(StrEnum):
    """What a public event is about. Its value is the first part of the names of the kinds."""

    PAYMENT_ORDER = "payment_order"
    PAYMENT = "payment"
    INVOICE = "invoice"
    COMPLEMENT = "complement"
    CREDIT_NOTE = "credit_note"
    CUSTOMER = "customer"
    PAYMENT_METHOD = "payment_method"
    PLAN = "plan"
    PRODUCT = "product"
    SUBSCRIPTION = "subscription"
    SUBSCRIPTION_INVOICE = "subscription_invoice"
    WEBHOOK_ENDPOINT = "webhook_endpoint"


class Kind(Struct, frozen=True, kw_only=True, eq=False):  # each is a constant, compared by identity
    """One kind of public event. `description` is a sentence for people.

    `is_status`: it announces a change of status, and names the status before unless the resource is new.
    """

    name: str
    resource_type: ResourceType
    description: str
    is_status: bool = False


def _kind(resource_type: ResourceType, action: str, description: str) -> Kind:
    return Kind(name=f"{resource_type}.{action}", resource_type=resource_type, description=description)


def _status(resource_type: ResourceType, action: str, description: str) -> Kind:
    name = f"{resource_type}.{action}"
    return Kind(name=name, resource_type=resource_type, description=description, is_status=True)


_ORDER, _PAYMENT, _METHOD = ResourceType.PAYMENT_ORDER, ResourceType.PAYMENT, ResourceType.PAYMENT_METHOD
_COMPLEMENT, _NOTE = ResourceType.COMPLEMENT, ResourceType.CREDIT_NOTE
_SUBSCRIPTION, _SUBSCRIPTION_INVOICE = ResourceType.SUBSCRIPTION, ResourceType.SUBSCRIPTION_INVOICE

ORDER_CREATED: Final = _kind(_ORDER, "created", "A payment order was created, in whatever status its creation left it.")
ORDER_PENDING: Final = _status(_ORDER, "pending", "A payment order became PENDING: it waits for a payment again.")
ORDER_PROCESSING: Final = _status(
    _ORDER, "processing", "A payment order became PROCESSING: a payment is being carried out."
)
ORDER_ACTION_REQUIRED: Final = _status(
    _ORDER,
    "action_required",
    "The payer of a payment order has to act: it became ACTION_REQUIRED or got a 3-D Secure status, or another of them.",
)
ORDER_REFERENCE_GENERATED: Final = _status(
    _ORDER, "reference_generated", "A payment order became REFERENCE_GENERATED: its reference can be paid."
)
ORDER_AUTHORIZED: Final = _status(_ORDER, "authorized", "A payment order became AUTHORIZED: its money is reserved.")
ORDER_PARTIALLY_AUTHORIZED: Final = _status(
    _ORDER, "partially_authorized", "A payment order became PARTIALLY_AUTHORIZED: a part of its money is reserved."
)
ORDER_PARTIALLY_PAID: Final = _status(
    _ORDER, "partially_paid", "A payment order became PARTIALLY_PAID: it holds a part of its amount."
)
ORDER_COMPLETED: Final = _status(_ORDER, "completed", "A payment order became COMPLETED: it is paid.")
ORDER_FAILED: Final = _status(
    _ORDER, "failed", "A payment order became FAILED: its payment was declined, or ended without money."
)
ORDER_CANCELLATION_REQUESTED: Final = _status(
    _ORDER, "cancellation_requested", "A payment order became CANCELLATION_REQUESTED: a processor has to answer first."
)
ORDER_CANCELLED: Final = _status(
    _ORDER, "cancelled", "A payment order became CANCELLED: no money is held and none is expected."
)
ORDER_REFUND_PROCESSING: Final = _status(
    _ORDER, "refund_processing", "A payment order became REFUND_PROCESSING: a refund has no outcome yet."
)
ORDER_PARTIALLY_REFUNDED: Final = _status(
    _ORDER, "partially_refunded", "A payment order became PARTIALLY_REFUNDED: a part of its money went back."
)
ORDER_REFUNDED: Final = _status(_ORDER, "refunded", "A payment order became REFUNDED: all of its money went back.")
ORDER_UPDATED: Final = _kind(
    _ORDER,
    "updated",
    "The terms of a payment order were changed, the rest of an authorisation was released, or a refund got its account.",
)
ORDER_OVERPAID: Final = _kind(_ORDER, "overpaid", "The overpaidAmount of a payment order rose.")
ORDER_REMINDER_DUE: Final = _kind(
    _ORDER, "reminder_due", "The time of a reminder came before the due date of an unpaid payment order."
)
ORDER_OVERDUE: Final = _kind(_ORDER, "overdue", "The due date of an unpaid payment order passed.")

PAYMENT_CREATED: Final = _kind(_PAYMENT, "created", "A payment of a payment order was begun.")
PAYMENT_REQUIRES_ACTION: Final = _status(
    _PAYMENT, "requires_action", "A payment waits for its payer: for an authentication, or to pay a reference."
)
PAYMENT_AUTHORIZED: Final = _status(
    _PAYMENT, "authorized", "A payment was authorised, in full or in part, and not captured at the same time."
)
PAYMENT_CAPTURED: Final = _kind(
    _PAYMENT, "captured", "Money of a payment came in: by a capture, by a deposit, or by a late report."
)
PAYMENT_LATE_DEPOSIT: Final = _kind(
    _PAYMENT, "late_deposit", "A deposit came after its payment had ended. It is announced beside payment.captured."
)
PAYMENT_FAILED: Final = _status(
    _PAYMENT, "failed", "A payment became FAILED: it was declined, or its call had no effect."
)
PAYMENT_EXPIRED: Final = _status(
    _PAYMENT, "expired", "A payment became EXPIRED: its reference, its session or its authorisation ran out."
)
PAYMENT_CANCELLED: Final = _status(_PAYMENT, "cancelled", "A payment became CANCELLED, without money.")
PAYMENT_REFUNDED: Final = _kind(_PAYMENT, "refunded", "Money of a payment went back to the payer by a refund.")
PAYMENT_REFUND_FAILED: Final = _kind(
    _PAYMENT, "refund_failed", "The part of a refund that a payment was to give back failed: its money is still held."
)
PAYMENT_SETTLED: Final = _kind(_PAYMENT, "settled", "The processor paid out the batch that lists a payment.")
PAYMENT_DISPUTED: Final = _kind(_PAYMENT, "disputed", "The payer disputed a payment at the bank.")
PAYMENT_DISPUTE_CLOSED: Final = _kind(
    _PAYMENT, "dispute_closed", "A dispute of a payment was won, or lost as a chargeback."
)

INVOICE_STAMPED: Final = _status(ResourceType.INVOICE, "stamped", "An invoice of a payment order was stamped.")
INVOICE_FAILED: Final = _status(
    ResourceType.INVOICE, "failed", "An invoice was refused, or a document of a payment order could not be drawn up."
)
INVOICE_CANCELLED: Final = _kind(ResourceType.INVOICE, "cancelled", "SAT cancelled an invoice of a payment order.")
INVOICE_CANCELLATION_REFUSED: Final = _kind(
    ResourceType.INVOICE, "cancellation_refused", "The cancellation of an invoice was refused: it stays valid."
)
COMPLEMENT_EMITTED: Final = _status(_COMPLEMENT, "emitted", "The payment receipt (REP) of a capture was stamped.")
COMPLEMENT_FAILED: Final = _status(_COMPLEMENT, "failed", "The payment receipt (REP) of a capture was refused.")
COMPLEMENT_CANCELLED: Final = _kind(_COMPLEMENT, "cancelled", "SAT cancelled a payment receipt (REP).")
COMPLEMENT_CANCELLATION_REFUSED: Final = _kind(
    _COMPLEMENT, "cancellation_refused", "The cancellation of a payment receipt (REP) was refused: it stays valid."
)
COMPLEMENT_DEADLINE_NEAR: Final = _kind(
    _COMPLEMENT, "deadline_near", "The legal deadline of a payment receipt (REP) is near, and it is not stamped."
)
CREDIT_NOTE_EMITTED: Final = _status(_NOTE, "emitted", "The credit note of a refund was stamped.")
CREDIT_NOTE_FAILED: Final = _status(_NOTE, "failed", "The credit note of a refund was refused.")
CREDIT_NOTE_CANCELLED: Final = _kind(_NOTE, "cancelled", "SAT cancelled a credit note.")
CREDIT_NOTE_CANCELLATION_REFUSED: Final = _kind(
    _NOTE, "cancellation_refused", "The cancellation of a credit note was refused: it stays valid."
)

CUSTOMER_CREATED: Final = _kind(ResourceType.CUSTOMER, "created", "A customer was named for the first time.")
CUSTOMER_UPDATED: Final = _kind(ResourceType.CUSTOMER, "updated", "The data of a customer were changed.")
CUSTOMER_DELETED: Final = _kind(
    ResourceType.CUSTOMER, "deleted", "A customer was deleted, with all personal data in orders and cards."
)
METHOD_SAVED: Final = _kind(_METHOD, "saved", "A card was saved for a customer.")
METHOD_UPDATED: Final = _kind(
    _METHOD, "updated", "A saved card was changed, became its customer's default, or is not the default any more."
)
METHOD_DELETED: Final = _kind(_METHOD, "deleted", "A saved card was deleted.")

PLAN_CREATED: Final = _kind(ResourceType.PLAN, "created", "A plan was created.")
PLAN_UPDATED: Final = _kind(ResourceType.PLAN, "updated", "A plan was changed. Its subscriptions keep their terms.")
PLAN_ARCHIVED: Final = _kind(ResourceType.PLAN, "archived", "A plan was archived: no new subscription can use it.")
PRODUCT_CREATED: Final = _kind(ResourceType.PRODUCT, "created", "A product was imported for the first time.")
PRODUCT_UPDATED: Final = _kind(ResourceType.PRODUCT, "updated", "A product was imported with a change.")

SUBSCRIPTION_CREATED: Final = _kind(
    _SUBSCRIPTION, "created", "A subscription started: with its trial, or once its first charge was approved."
)
SUBSCRIPTION_TRIAL_WILL_END: Final = _kind(
    _SUBSCRIPTION, "trial_will_end", "The trial of a subscription ends within three days."
)
SUBSCRIPTION_ACTIVATED: Final = _status(
    _SUBSCRIPTION, "activated", "A subscription became ACTIVE: its first charge after the trial, or its debt, was paid."
)
SUBSCRIPTION_RENEWED: Final = _kind(
    _SUBSCRIPTION, "renewed", "The invoice of a further period was paid: the subscription stays ACTIVE."
)
SUBSCRIPTION_PAST_DUE: Final = _status(_SUBSCRIPTION, "past_due", "A subscription became PAST_DUE: a charge failed.")
SUBSCRIPTION_UNPAID: Final = _status(
    _SUBSCRIPTION, "unpaid", "A subscription became UNPAID: no retry of its charge is left."
)
SUBSCRIPTION_CANCELED: Final = _status(_SUBSCRIPTION, "canceled", "A subscription became CANCELED, which is final.")
SUBSCRIPTION_UPDATED: Final = _kind(
    _SUBSCRIPTION,
    "updated",
    "The plan, card or metadata of a subscription was changed, or its cancellation was scheduled or taken back.",
)
SUBSCRIPTION_INVOICE_CREATED: Final = _kind(
    _SUBSCRIPTION_INVOICE,
    "created",
    "An invoice of a subscription was made. The first one is announced with its subscription.",
)
SUBSCRIPTION_INVOICE_PAID: Final = _status(_SUBSCRIPTION_INVOICE, "paid", "An invoice of a subscription became PAID.")
SUBSCRIPTION_INVOICE_PAYMENT_FAILED: Final = _kind(
    _SUBSCRIPTION_INVOICE, "payment_failed", "A charge of a subscription's invoice was declined."
)
SUBSCRIPTION_INVOICE_VOIDED: Final = _status(
    _SUBSCRIPTION_INVOICE, "voided", "An invoice of a subscription became VOID."
)
SUBSCRIPTION_INVOICE_UNCOLLECTIBLE: Final = _status(
    _SUBSCRIPTION_INVOICE, "uncollectible", "An invoice of a subscription became UNCOLLECTIBLE."
)

ENDPOINT_DISABLED: Final = _kind(
    ResourceType.WEBHOOK_ENDPOINT,
    "disabled",
    "A webhook endpoint was disabled because of its receiver: it answered 410, or accepted nothing for five days.",
)

KINDS: Final = (
    ORDER_CREATED,
    ORDER_PENDING,
    ORDER_PROCESSING,
    ORDER_ACTION_REQUIRED,
    ORDER_REFERENCE_GENERATED,
    ORDER_AUTHORIZED,
    ORDER_PARTIALLY_AUTHORIZED,
    ORDER_PARTIALLY_PAID,
    ORDER_COMPLETED,
    ORDER_FAILED,
    ORDER_CANCELLATION_REQUESTED,
    ORDER_CANCELLED,
    ORDER_REFUND_PROCESSING,
    ORDER_PARTIALLY_REFUNDED,
    ORDER_REFUNDED,
    ORDER_UPDATED,
    ORDER_OVERPAID,
    ORDER_REMINDER_DUE,
    ORDER_OVERDUE,
    PAYMENT_CREATED,
    PAYMENT_REQUIRES_ACTION,
    PAYMENT_AUTHORIZED,
    PAYMENT_CAPTURED,
    PAYMENT_LATE_DEPOSIT,
    PAYMENT_FAILED,
    PAYMENT_EXPIRED,
    PAYMENT_CANCELLED,
    PAYMENT_REFUNDED,
    PAYMENT_REFUND_FAILED,
    PAYMENT_SETTLED,
    PAYMENT_DISPUTED,
    PAYMENT_DISPUTE_CLOSED,
    INVOICE_STAMPED,
    INVOICE_FAILED,
    INVOICE_CANCELLED,
    INVOICE_CANCELLATION_REFUSED,
    COMPLEMENT_EMITTED,
    COMPLEMENT_FAILED,
    COMPLEMENT_CANCELLED,
    COMPLEMENT_CANCELLATION_REFUSED,
    COMPLEMENT_DEADLINE_NEAR,
    CREDIT_NOTE_EMITTED,
    CREDIT_NOTE_FAILED,
    CREDIT_NOTE_CANCELLED,
    CREDIT_NOTE_CANCELLATION_REFUSED,
    CUSTOMER_CREATED,
    CUSTOMER_UPDATED,
    CUSTOMER_DELETED,
    METHOD_SAVED,
    METHOD_UPDATED,
    METHOD_DELETED,
    PLAN_CREATED,
    PLAN_UPDATED,
    PLAN_ARCHIVED,
    PRODUCT_CREATED,
    PRODUCT_UPDATED,
    SUBSCRIPTION_CREATED,
    SUBSCRIPTION_TRIAL_WILL_END,
    SUBSCRIPTION_ACTIVATED,
    SUBSCRIPTION_RENEWED,
    SUBSCRIPTION_PAST_DUE,
    SUBSCRIPTION_UNPAID,
    SUBSCRIPTION_CANCELED,
    SUBSCRIPTION_UPDATED,
    SUBSCRIPTION_INVOICE_CREATED,
    SUBSCRIPTION_INVOICE_PAID,
    SUBSCRIPTION_INVOICE_PAYMENT_FAILED,
    SUBSCRIPTION_INVOICE_VOIDED,
    SUBSCRIPTION_INVOICE_UNCOLLECTIBLE,
    ENDPOINT_DISABLED,
)
"""Every kind, in the order of the reference."""

KIND_OF: Final[Mapping[str, Kind]] = {each.name: each for each in KINDS}
"""Every kind by its name."""


PATTERNS: Final[tuple[str, ...]] = (*[f"{each}.*" for each in ResourceType], *KIND_OF)
"""All that chooses kinds: the resource types with every action, and the names of the kinds."""


def matches(pattern: str, kind: Kind) -> bool:
    """Returns whether a pattern chooses a kind: its name, or its resource type with every action, as in `payment.*`."""
    return pattern in (kind.name, f"{kind.resource_type}.*")


def kinds_of(patterns: Iterable[str]) -> frozenset[str]:
    """Returns the names of the kinds that at least one of the patterns chooses."""
    chosen = list(patterns)
    return frozenset(kind.name for kind in KINDS if any(matches(pattern, kind) for pattern in chosen))


def unknown_patterns(patterns: Sequence[str]) -> list[int]:
    """Returns the indexes of the patterns that choose no kind."""
    return [n for n, pattern in enumerate(patterns) if not any(matches(pattern, kind) for kind in KINDS)]
