"""An event as an English sentence: one template for each topic of an order, a customer and a subscription.

A template names fields of the event, and things that the event is about: `payment`, `method`, `refund`, `document`,
`invoice`. Name no field of a person in one: a sentence is shown after an erasure too.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from ledger.domain.money import plain
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import MethodType
from ledger.domain.subscriptions.state import Subscription
from projections.formats import for_people
from projections.orders.missing_documents import kind_of

SENTENCES: Final[Mapping[str, str]] = {
    "order-created.v1": "Order {order_number} created over {amount}",
    "order-amount-changed.v1": "Amount changed to {amount}",
    "order-description-changed.v1": "Description changed",
    "order-invoice-number-changed.v1": "Invoice number changed to {invoice_number}",
    "order-metadata-changed.v1": "Metadata changed",
    "order-due-date-changed.v1": "Due date changed to {due_date}",
    "order-line-items-changed.v1": "Lines stated anew",
    "order-receiver-changed.v1": "Receiver of the invoice changed",
    "payment-started.v1": "{payment} started",
    "authorization-requested.v1": "Authorisation of {amount} requested from {processor}",
    "payment-authorized.v1": "{method} payment of {amount} authorised",
    "capture-scheduled.v1": "Capture of {amount} scheduled for {due_at}",
    "capture-requested.v1": "Capture of {amount} requested",
    "payment-captured.v1": "{method} payment of {amount} captured",
    "payment-declined.v1": "{payment} declined: {code}",
    "authorization-outcome-unknown.v1": "No answer to the authorisation of the {payment}: its outcome is unknown",
    "authorization-abandoned.v1": "{payment} ended without an outcome: {because}",
    "late-capture-reported.v1": "Capture of {amount} reported after the payment had ended",
    "late-authorization-reported.v1": "Authorisation of {amount} reported after the payment had ended",
    "payer-action-required.v1": "Action of the payer required for the {payment}: {action}",
    "authentication-requested.v1": "Authentication of the payer requested from {processor} ({step})",
    "payer-authenticated.v1": "Payer of the {payment} authenticated",
    "payer-authentication-failed.v1": "Payer of the {payment} not authenticated: {code}",
    "session-end-requested.v1": "End of the session of the {payment} requested: {because}",
    "capture-refused.v1": "Capture of the {payment} refused: {code}",
    "payment-cancellation-requested.v1": "Cancellation of the {payment} requested before its outcome",
    "void-requested.v1": "Void of the {payment} requested",
    "void-refused.v1": "Void of the {payment} refused: {code}",
    "release-requested.v1": "Release of the rest of {amount} requested",
    "authorization-released.v1": "Rest of {amount} released: {because}",
    "release-refused.v1": "Release of the rest of the {payment} refused: {code}",
    "payment-cancelled.v1": "{payment} cancelled: {because}",
    "payment-expired.v1": "{payment} expired: {because}",
    "reference-requested.v1": "Reference for {amount} requested from {processor}",
    "reference-issued.v1": "Reference issued for the {payment}, payable until {expires_at}",
    "deposit-received.v1": "Deposit of {amount} received",
    "refund-requested.v1": "Refund of {amount} requested",
    "refund-destination-changed.v1": "Account of the {refund} changed",
    "payout-requested.v1": "Payout of {amount} requested from {processor}",
    "refund-accepted.v1": "{refund} accepted by the processor",
    "payment-refunded.v1": "{method} payment refunded by {amount}",
    "refund-refused.v1": "{refund} failed: {code}",
    "refund-reopened.v1": "{refund} that had failed is pending again",
    "late-refund-reported.v1": "Refund of {amount} reported after it had failed",
    "refund-reversed.v1": "Refund of {amount} came back: {code}",
    "call-unanswered.v1": "No answer to the call {call}: its outcome is unknown",
    "call-postponed.v1": "Call {call} not sent, to be repeated after {until}",
    "call-repeated.v1": "Call {call} repeated under the same key",
    "call-abandoned.v1": "Call {call} ended without an outcome: {because}",
    "dispute-opened.v1": "Dispute over {amount} opened",
    "dispute-won.v1": "Dispute over the {payment} won",
    "dispute-lost.v1": "Dispute over {amount} lost",
    "settlement-listed.v1": "{payment} listed in settlement {batch_id}",
    "settlement-matched.v1": "{payment} settled by {batch_id}",
    "settlement-refused.v1": "Settlement {batch_id} of the {payment} refused",
    "cancellation-requested.v1": "Cancellation of the order requested",
    "cancellation-refused.v1": "Cancellation of the order failed",
    "order-cancelled.v1": "Order cancelled",
    "payer-forgotten.v1": "Payer erased",
    "included-in-global-invoice.v1": "{amount} stated by a global invoice",
    "released-from-global-invoice.v1": "Released from its global invoice",
    "reminders-scheduled.v1": "Reminders scheduled for the due date {due_date}",
    "reminder-due.v1": "Reminder due: {kind}",
    "reminder-requested.v1": "Reminder handed over for sending",
    "reminder-postponed.v1": "Reminder postponed to {retry_at}: {code}",
    "reminder-sent.v1": "Reminder sent",
    "reminder-dropped.v1": "Reminder not sent: {because}",
    "invoicing-enabled.v1": "Electronic invoices enabled",
    "invoicing-blocked.v1": "Document could not be drawn up: {code}",
    "document-announced.v1": "{document} to be stamped",
    "stamping-requested.v1": "Stamp of the {document} requested from {provider}",
    "stamping-unanswered.v1": "No answer to the stamp of the {document}: its outcome is unknown",
    "stamping-abandoned.v1": "{document} not stamped: {because}",
    "document-stamped.v1": "{document} stamped as {fiscal_uuid}",
    "document-refused.v1": "{document} refused: {code}",
    "receipt-deadline-near.v1": "Payment receipt due on {receipt_due_at} and not stamped",
    "document-cancellation-requested.v1": "Cancellation of the {document} requested, motive {motive}",
    "document-cancellation-pending.v1": "Cancellation of the {document} pending",
    "document-cancelled.v1": "{document} cancelled",
    "document-cancellation-refused.v1": "Cancellation of the {document} refused: {code}",
    "document-mail-requested.v1": "{document} handed over for sending",
    "document-mail-postponed.v1": "Mail of the {document} postponed to {retry_at}: {code}",
    "document-mailed.v1": "{document} mailed",
    "document-mail-dropped.v1": "{document} not mailed: {because}",
    "customer-created.v1": "Customer created",
    "customer-details-changed.v1": "Name, e-mail or phone changed",
    "customer-source-changed.v1": "Source of the customer changed",
    "customer-metadata-changed.v1": "Metadata changed",
    "notification-preferences-changed.v1": "Notification preferences changed",
    "customer-fiscal-data-changed.v1": "Fiscal data changed",
    "customer-erased.v1": "Customer erased",
    "subscription-requested.v1": "Subscription to {plan_name} requested",
    "subscription-started.v1": "Subscription started",
    "subscription-refused.v1": "Subscription refused: {because}",
    "subscription-trial-will-end.v1": "Trial ends on {trial_end}",
    "subscription-invoice-opened.v1": "{invoice} over {amount} made",
    "subscription-drafts-opened.v1": "Charge of missed invoices requested",
    "subscription-billing-cycle-reset.v1": "Periods counted from {anchor}",
    "subscription-credit-carried.v1": "Lines carried to the next invoice",
    "subscription-proration-deferred.v1": "Lines added to the next invoice",
    "subscription-charge-begun.v1": "Charge of {invoice} begun, attempt {attempt}",
    "subscription-charge-declined.v1": "Charge of {invoice} declined: {decline_code}",
    "subscription-charge-unsent.v1": "Charge of {invoice} not sent",
    "subscription-charge-surplus.v1": "Charge of {invoice} refunded: it was paid already",
    "subscription-invoice-paid.v1": "{invoice} paid",
    "subscription-invoice-refunded.v1": "{invoice} refunded, {amount_refunded} in all",
    "subscription-invoice-voided.v1": "{invoice} voided",
    "subscription-invoice-uncollectible.v1": "{invoice} uncollectible",
    "subscription-activated.v1": "Subscription active",
    "subscription-renewed.v1": "Subscription renewed",
    "subscription-past-due.v1": "Subscription past due",
    "subscription-unpaid.v1": "Subscription unpaid, to be cancelled on {cancels_at}",
    "subscription-cancellation-scheduled.v1": "Cancellation at the end of the period scheduled",
    "subscription-resumed.v1": "Cancellation taken back",
    "subscription-canceled.v1": "Subscription cancelled: {because}",
    "subscription-plan-changed.v1": "Plan changed to {plan_name}",
    "subscription-method-replaced.v1": "Card replaced",
    "subscription-metadata-changed.v1": "Metadata changed",
    "subscription-notice-requested.v1": "Message {kind} handed over for sending",
    "subscription-notice-postponed.v1": "Message postponed to {retry_at}: {code}",
    "subscription-notice-sent.v1": "Message sent",
    "subscription-notice-dropped.v1": "Message {kind} not sent: {because}",
}

_METHODS: Final[Mapping[MethodType, str]] = {
    MethodType.CARD: "Card",
    MethodType.SPEI: "SPEI",
    MethodType.CIE_CASH_NET: "Cash",
    MethodType.PAYCASH: "Cash",
}
_DOCUMENTS: Final[Mapping[str, str]] = {"REP": "payment receipt", "CREDIT_NOTE": "credit note"}


def sentence(topic: str, event: Any, state: Any) -> str:
    """Returns an event as a sentence. `state` is that of its stream after the event."""
    text = SENTENCES[topic].format_map(_Values(event, state))
    return text[0].upper() + text[1:]


class _Values(dict[str, str]):
    """The values of a template, looked up when it names them."""

    def __init__(self, event: Any, state: Any) -> None:
        super().__init__()
        self._event, self._state = event, state

    def __missing__(self, name: str) -> str:
        match name:
            case "payment":
                payment = self._payment
                method = _METHODS[payment.started.method.type]
                return f"{method if method == 'SPEI' else method.lower()} payment of {self._money(payment.amount)}"
            case "method":
                return _METHODS[self._payment.started.method.type]
            case "refund":
                refund = self._state.refund(self._event.refund_id)
                amount = next(part.amount for part in refund.parts if part.payment_id == self._event.payment_id)
                return f"refund of {self._money(amount)}"
            case "document":
                terms = getattr(self._event, "terms", None) or self._document
                return _DOCUMENTS.get(kind_of(terms), "invoice")
            case "invoice":
                invoices = (each for each in self._state.invoices if each.invoice_id == self._event.invoice_id)
                return f"invoice {next(invoices).number}"
            case _:
                return self._text(getattr(self._event, name))

    @property
    def _payment(self) -> Any:
        return self._state.payment(self._event.payment_id)

    @property
    def _document(self) -> Any:
        document = self._state.invoices.document(self._event.document_id)
        return None if document is None else document.terms

    def _text(self, value: Any) -> str:
        match value:
            case None:
                return "none"
            case Decimal():
                return self._money(value)
            case datetime():
                return f"{value:%Y-%m-%d %H:%M} UTC"
            case Enum():
                return str(value.value).lower().replace("_", " ")
            case _:
                return str(value)

    def _money(self, amount: Decimal) -> str:
        return money(amount, currency_of(self._state))


def money(amount: Decimal, currency: str) -> str:
    """Returns an amount of minor units in major units, for people: `1,500.00 MXN`."""
    sign, text = ("-" if amount < 0 else ""), for_people(plain(abs(amount)), currency)
    return sign + text.removeprefix("$")


def currency_of(state: Order | Subscription) -> str:
    """Returns the currency of an order's or a subscription's amounts."""
    return state.terms.currency
