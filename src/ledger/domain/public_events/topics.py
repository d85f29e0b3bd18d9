"""The table of the log's topics: which public events an event of each topic can cause, or why it causes none.

The announcers of this package read it: an event announces no kind that its topic's line lacks. Give a new topic a line
here; a test fails without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ledger.domain.public_events.kinds import (
    COMPLEMENT_CANCELLATION_REFUSED,
    COMPLEMENT_CANCELLED,
    COMPLEMENT_DEADLINE_NEAR,
    COMPLEMENT_EMITTED,
    COMPLEMENT_FAILED,
    CREDIT_NOTE_CANCELLATION_REFUSED,
    CREDIT_NOTE_CANCELLED,
    CREDIT_NOTE_EMITTED,
    CREDIT_NOTE_FAILED,
    CUSTOMER_CREATED,
    CUSTOMER_DELETED,
    CUSTOMER_UPDATED,
    ENDPOINT_DISABLED,
    INVOICE_CANCELLATION_REFUSED,
    INVOICE_CANCELLED,
    INVOICE_FAILED,
    INVOICE_STAMPED,
    KINDS,
    METHOD_DELETED,
    METHOD_SAVED,
    METHOD_UPDATED,
    ORDER_CREATED,
    ORDER_OVERDUE,
    ORDER_OVERPAID,
    ORDER_REMINDER_DUE,
    ORDER_UPDATED,
    PAYMENT_AUTHORIZED,
    PAYMENT_CANCELLED,
    PAYMENT_CAPTURED,
    PAYMENT_CREATED,
    PAYMENT_DISPUTE_CLOSED,
    PAYMENT_DISPUTED,
    PAYMENT_EXPIRED,
    PAYMENT_FAILED,
    PAYMENT_LATE_DEPOSIT,
    PAYMENT_REFUND_FAILED,
    PAYMENT_REFUNDED,
    PAYMENT_REQUIRES_ACTION,
    PAYMENT_SETTLED,
    PLAN_ARCHIVED,
    PLAN_CREATED,
    PLAN_UPDATED,
    PRODUCT_CREATED,
    PRODUCT_UPDATED,
    SUBSCRIPTION_ACTIVATED,
    SUBSCRIPTION_CANCELED,
    SUBSCRIPTION_CREATED,
    SUBSCRIPTION_INVOICE_CREATED,
    SUBSCRIPTION_INVOICE_PAID,
    SUBSCRIPTION_INVOICE_PAYMENT_FAILED,
    SUBSCRIPTION_INVOICE_UNCOLLECTIBLE,
    SUBSCRIPTION_INVOICE_VOIDED,
    SUBSCRIPTION_PAST_DUE,
    SUBSCRIPTION_RENEWED,
    SUBSCRIPTION_TRIAL_WILL_END,
    SUBSCRIPTION_UNPAID,
    SUBSCRIPTION_UPDATED,
    Kind,
    ResourceType,
)

_ORDER_STATUSES: Final = tuple(
    kind for kind in KINDS if kind.is_status and kind.resource_type is ResourceType.PAYMENT_ORDER
)
"""What an event that moves a payment or an order can make of the order: by all its payments, any status."""


class Line(Struct, frozen=True):
    """The kinds that an event of a topic can cause; without any, why it causes none."""

    kinds: tuple[Kind, ...] = ()
    why_none: str = ""


def _kinds(*kinds: Kind) -> Line:
    return Line(kinds)


def _moves(*kinds: Kind) -> Line:
    """Returns the line of an event after which the order can have another status."""
    return Line((*kinds, *_ORDER_STATUSES))


_CALL: Final = Line(why_none="A call is begun or repeated, or has no answer yet: its outcome is announced.")
_UNSUCCESSFUL: Final = Line(why_none="A call changed nothing: what was announced before it still holds.")
_MESSAGE: Final = Line(why_none="A message to a person changes nothing of the resource.")
_SETTLING: Final = Line(why_none="The batch is not paid out: payment.settled announces that it is.")
_STAMPING: Final = Line(why_none="The document waits for its stamp or its cancellation: the outcome is announced.")
_VERIFICATION: Final = Line(why_none="The card is not saved yet: payment_method.saved announces that it is.")
_NOT_SAVED: Final = Line(why_none="No card was saved: the customer has the same cards as before.")
_LINES_WAIT: Final = Line(why_none="The lines wait for the next invoice: subscription_invoice.created announces it.")
_GLOBAL: Final = Line(why_none="A global invoice is the merchant's document for many orders, and has no kind.")
_MERCHANT: Final = Line(why_none="The merchant and its API keys are no resource of the feed.")
_ACCOUNT: Final = Line(why_none="An account with a processor is no resource of the feed.")
_ENDPOINT: Final = Line(why_none="Where events are posted is no resource of the feed.")
_REQUEST: Final = Line(why_none="The record of a request under its idempotency key shows nothing of its own.")

_ORDERS: Final = {
    "order-created.v1": _kinds(ORDER_CREATED),
    "order-amount-changed.v1": _kinds(ORDER_UPDATED),
    "order-description-changed.v1": _kinds(ORDER_UPDATED),
    "order-invoice-number-changed.v1": _kinds(ORDER_UPDATED),
    "order-metadata-changed.v1": _kinds(ORDER_UPDATED),
    "order-due-date-changed.v1": _kinds(ORDER_UPDATED),
    "order-line-items-changed.v1": _kinds(ORDER_UPDATED),
    "order-receiver-changed.v1": _kinds(ORDER_UPDATED),
    "payment-started.v1": _moves(PAYMENT_CREATED),
    "authorization-requested.v1": _CALL,
    "payment-authorized.v1": _moves(PAYMENT_AUTHORIZED),
    "capture-scheduled.v1": Line(why_none="The capture is due later: payment.captured announces the money."),
    "capture-requested.v1": _CALL,
    "payment-captured.v1": _moves(PAYMENT_CAPTURED, ORDER_OVERPAID),
    "payment-declined.v1": _moves(PAYMENT_FAILED),
    "authorization-outcome-unknown.v1": _CALL,
    "authorization-abandoned.v1": _moves(PAYMENT_FAILED),
    "late-capture-reported.v1": _moves(PAYMENT_CAPTURED, ORDER_OVERPAID),
    "late-authorization-reported.v1": Line(
        why_none="The payment had ended and stays so; the ledger alerts its operators, who let the money go."
    ),
    "payer-action-required.v1": _moves(PAYMENT_REQUIRES_ACTION),
    "authentication-requested.v1": _CALL,
    "payer-authenticated.v1": _moves(),
    "payer-authentication-failed.v1": _moves(PAYMENT_FAILED),
    "session-end-requested.v1": _CALL,
    "capture-refused.v1": _moves(PAYMENT_FAILED),
    "payment-cancellation-requested.v1": _moves(),
    "void-requested.v1": _moves(),
    "void-refused.v1": _moves(),
    "release-requested.v1": _CALL,
    "authorization-released.v1": _kinds(ORDER_UPDATED),
    "release-refused.v1": _UNSUCCESSFUL,
    "payment-cancelled.v1": _moves(PAYMENT_CANCELLED),
    "payment-expired.v1": _moves(PAYMENT_EXPIRED),
    "reference-requested.v1": _CALL,
    "reference-issued.v1": _moves(PAYMENT_REQUIRES_ACTION),
    "deposit-received.v1": _moves(PAYMENT_CAPTURED, PAYMENT_LATE_DEPOSIT, ORDER_OVERPAID),
    "refund-requested.v1": _moves(),
    "refund-destination-changed.v1": _kinds(ORDER_UPDATED),
    "payout-requested.v1": _CALL,
    "refund-accepted.v1": _CALL,
    "payment-refunded.v1": _moves(PAYMENT_REFUNDED),
    "refund-refused.v1": _moves(PAYMENT_REFUND_FAILED),
    "refund-reopened.v1": _moves(),
    "late-refund-reported.v1": _moves(PAYMENT_REFUNDED),
    "refund-reversed.v1": _moves(PAYMENT_REFUND_FAILED, ORDER_OVERPAID),
    "call-unanswered.v1": _CALL,
    "call-postponed.v1": _CALL,
    "call-repeated.v1": _CALL,
    "call-abandoned.v1": _moves(PAYMENT_FAILED, PAYMENT_REFUND_FAILED),
    "dispute-opened.v1": _kinds(PAYMENT_DISPUTED),
    "dispute-won.v1": _kinds(PAYMENT_DISPUTE_CLOSED),
    "dispute-lost.v1": _moves(PAYMENT_DISPUTE_CLOSED),
    "settlement-listed.v1": _SETTLING,
    "settlement-matched.v1": _kinds(PAYMENT_SETTLED),
    "settlement-refused.v1": _SETTLING,
    "cancellation-requested.v1": _moves(),
    "cancellation-refused.v1": _moves(),
    "order-cancelled.v1": _moves(),
    "payer-forgotten.v1": Line(why_none="customer.deleted announces the erasure of a customer from all orders."),
    "included-in-global-invoice.v1": _GLOBAL,
    "released-from-global-invoice.v1": _GLOBAL,
    "reminders-scheduled.v1": Line(why_none="The times of reminders follow from the due date, which is announced."),
    "reminder-due.v1": _kinds(ORDER_REMINDER_DUE, ORDER_OVERDUE),
    "reminder-requested.v1": _MESSAGE,
    "reminder-postponed.v1": _MESSAGE,
    "reminder-sent.v1": _MESSAGE,
    "reminder-dropped.v1": _MESSAGE,
}

_DOCUMENTS: Final = {
    "invoicing-enabled.v1": Line(why_none="The documents that follow are announced once they are stamped or refused."),
    "invoicing-blocked.v1": _kinds(INVOICE_FAILED),
    "document-announced.v1": _STAMPING,
    "stamping-requested.v1": _STAMPING,
    "stamping-unanswered.v1": _STAMPING,
    "stamping-abandoned.v1": _STAMPING,
    "document-stamped.v1": _kinds(INVOICE_STAMPED, COMPLEMENT_EMITTED, CREDIT_NOTE_EMITTED),
    "document-refused.v1": _kinds(INVOICE_FAILED, COMPLEMENT_FAILED, CREDIT_NOTE_FAILED),
    "receipt-deadline-near.v1": _kinds(COMPLEMENT_DEADLINE_NEAR),
    "document-cancellation-requested.v1": _STAMPING,
    "document-cancellation-pending.v1": _STAMPING,
    "document-cancelled.v1": _kinds(INVOICE_CANCELLED, COMPLEMENT_CANCELLED, CREDIT_NOTE_CANCELLED),
    "document-cancellation-refused.v1": _kinds(
        INVOICE_CANCELLATION_REFUSED, COMPLEMENT_CANCELLATION_REFUSED, CREDIT_NOTE_CANCELLATION_REFUSED
    ),
    "document-mail-requested.v1": _MESSAGE,
    "document-mail-postponed.v1": _MESSAGE,
    "document-mailed.v1": _MESSAGE,
    "document-mail-dropped.v1": _MESSAGE,
}

_CUSTOMERS: Final = {
    "customer-created.v1": _kinds(CUSTOMER_CREATED),
    "customer-details-changed.v1": _kinds(CUSTOMER_UPDATED),
    "customer-source-changed.v1": _kinds(CUSTOMER_UPDATED),
    "customer-metadata-changed.v1": _kinds(CUSTOMER_UPDATED),
    "notification-preferences-changed.v1": _kinds(CUSTOMER_UPDATED),
    "customer-fiscal-data-changed.v1": _kinds(CUSTOMER_UPDATED),
    "customer-erased.v1": _kinds(CUSTOMER_DELETED),
    "payment-method-saved.v1": _kinds(METHOD_SAVED),
    "payment-method-expiry-changed.v1": _kinds(METHOD_UPDATED),
    "payment-method-billing-changed.v1": _kinds(METHOD_UPDATED),
    "payment-method-renamed.v1": _kinds(METHOD_UPDATED),
    "payment-method-made-default.v1": _kinds(METHOD_UPDATED),
    "payment-method-deleted.v1": _kinds(METHOD_DELETED),
    "payment-method-attached.v1": Line(why_none="The subscription shows which card it is charged to."),
    "payment-method-detached.v1": Line(why_none="The subscription shows which card it is charged to."),
    "card-verification-requested.v1": _VERIFICATION,
    "card-verification-challenged.v1": _VERIFICATION,
    "card-verification-resumed.v1": _VERIFICATION,
    "card-verification-unanswered.v1": _VERIFICATION,
    "card-verified.v1": Line(why_none="The same commit saves the card or its expiry, which is announced."),
    "card-verification-declined.v1": _NOT_SAVED,
    "card-verification-abandoned.v1": _NOT_SAVED,
    "card-verification-ended.v1": _NOT_SAVED,
}

_CATALOG: Final = {
    "product-imported.v1": _kinds(PRODUCT_CREATED, PRODUCT_UPDATED),
    "plan-created.v1": _kinds(PLAN_CREATED),
    "plan-details-changed.v1": _kinds(PLAN_UPDATED),
    "plan-terms-changed.v1": _kinds(PLAN_UPDATED),
    "plan-metadata-changed.v1": _kinds(PLAN_UPDATED),
    "plan-first-used.v1": Line(why_none="No change that the merchant made: subscription.created announces the use."),
    "plan-archived.v1": _kinds(PLAN_ARCHIVED),
}

_SUBSCRIPTIONS: Final = {
    "subscription-requested.v1": Line(why_none="Nothing shows the subscription before it starts."),
    "subscription-started.v1": _kinds(SUBSCRIPTION_CREATED, SUBSCRIPTION_INVOICE_CREATED),
    "subscription-refused.v1": Line(why_none="Nothing shows a subscription that never began; its order is announced."),
    "subscription-trial-will-end.v1": _kinds(SUBSCRIPTION_TRIAL_WILL_END),
    "subscription-invoice-opened.v1": _kinds(SUBSCRIPTION_INVOICE_CREATED),
    "subscription-drafts-opened.v1": Line(why_none="The drafts are charged now: each outcome is announced."),
    "subscription-billing-cycle-reset.v1": Line(why_none="subscription.activated announces the return."),
    "subscription-credit-carried.v1": _LINES_WAIT,
    "subscription-proration-deferred.v1": _LINES_WAIT,
    "subscription-charge-begun.v1": _CALL,
    "subscription-charge-declined.v1": _kinds(SUBSCRIPTION_INVOICE_PAYMENT_FAILED),
    "subscription-charge-unsent.v1": _UNSUCCESSFUL,
    "subscription-charge-surplus.v1": Line(why_none="The refund of the charge's payment order is announced."),
    "subscription-invoice-paid.v1": _kinds(SUBSCRIPTION_INVOICE_PAID),
    "subscription-invoice-refunded.v1": Line(why_none="The refund of the invoice's payment order is announced."),
    "subscription-invoice-voided.v1": _kinds(SUBSCRIPTION_INVOICE_VOIDED),
    "subscription-invoice-uncollectible.v1": _kinds(SUBSCRIPTION_INVOICE_UNCOLLECTIBLE),
    "subscription-activated.v1": _kinds(SUBSCRIPTION_ACTIVATED),
    "subscription-renewed.v1": _kinds(SUBSCRIPTION_RENEWED),
    "subscription-past-due.v1": _kinds(SUBSCRIPTION_PAST_DUE),
    "subscription-unpaid.v1": _kinds(SUBSCRIPTION_UNPAID),
    "subscription-cancellation-scheduled.v1": _kinds(SUBSCRIPTION_UPDATED),
    "subscription-resumed.v1": _kinds(SUBSCRIPTION_UPDATED),
    "subscription-canceled.v1": _kinds(SUBSCRIPTION_CANCELED),
    "subscription-plan-changed.v1": _kinds(SUBSCRIPTION_UPDATED),
    "subscription-method-replaced.v1": _kinds(SUBSCRIPTION_UPDATED),
    "subscription-metadata-changed.v1": _kinds(SUBSCRIPTION_UPDATED),
    "subscription-notice-requested.v1": _MESSAGE,
    "subscription-notice-postponed.v1": _MESSAGE,
    "subscription-notice-sent.v1": _MESSAGE,
    "subscription-notice-dropped.v1": _MESSAGE,
}

_OTHERS: Final = {
    "merchant-registered.v1": _MERCHANT,
    "merchant-renamed.v1": _MERCHANT,
    "merchant-closed.v1": _MERCHANT,
    "merchant-settings-changed.v1": _MERCHANT,
    "api-key-issued.v1": _MERCHANT,
    "api-key-revoked.v1": _MERCHANT,
    "api-key-rotated.v1": _MERCHANT,
    "global-invoice-announced.v1": _GLOBAL,
    "global-stamping-requested.v1": _GLOBAL,
    "global-stamping-unanswered.v1": _GLOBAL,
    "global-stamping-abandoned.v1": _GLOBAL,
    "global-invoice-stamped.v1": _GLOBAL,
    "global-invoice-refused.v1": _GLOBAL,
    "global-cancellation-requested.v1": _GLOBAL,
    "global-cancellation-pending.v1": _GLOBAL,
    "global-cancellation-refused.v1": _GLOBAL,
    "global-invoice-cancelled.v1": _GLOBAL,
    "processor-account-connected.v1": _ACCOUNT,
    "processor-account-changed.v1": _ACCOUNT,
    "processor-account-disconnected.v1": _ACCOUNT,
    "processor-account-keys-erased.v1": _ACCOUNT,
    "webhook-endpoint-created.v1": _ENDPOINT,
    "webhook-endpoint-changed.v1": _ENDPOINT,
    "webhook-secret-rotated.v1": _ENDPOINT,
    "webhook-endpoint-disabled.v1": Line((ENDPOINT_DISABLED,)),
    "webhook-endpoint-enabled.v1": _ENDPOINT,
    "webhook-endpoint-deleted.v1": _ENDPOINT,
    "processor-message-dismissed.v1": Line(why_none="A message of a processor that was dismissed changed nothing."),
    "request-accepted.v1": _REQUEST,
    "request-answered.v1": _REQUEST,
    "request-refused.v1": _REQUEST,
    "request-released.v1": _REQUEST,
    "request-completed.v1": _REQUEST,
}

LINES: Final[Mapping[str, Line]] = {**_ORDERS, **_DOCUMENTS, **_CUSTOMERS, **_CATALOG, **_SUBSCRIPTIONS, **_OTHERS}
"""The line of every topic."""

ANNOUNCED: Final = frozenset(topic for topic, line in LINES.items() if line.kinds)
"""The topics that can cause a public event. A command without an event of them has none."""

NO_LINE: Final = Line(why_none="The topic is another application's: the ledger does not read its events.")
