"""The domain's rejections: a closed list of the facts that prevent a command, each with a stable public code.

Keep HTTP out of this module: one table of the `api` package gives every rejection its status. A test holds it complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class Rejected(Exception):
    """The domain refuses a command. `code` is public and permanent; `facts` are further members of the error answer.

    A `lasting` rejection follows from the rules of the business: a repeated request under the same idempotency key
    receives it again. `repeated` is True if this rejection is such a repetition.
    """

    code: ClassVar[str]
    lasting: ClassVar[bool] = False
    repeated = False

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts


def sentence(field: str, problem: str) -> str:
    """Returns a field's name with what is wrong with it, as a sentence: a question has its sign already."""
    return f"{field} {problem}" if problem.endswith("?") else f"{field} {problem}."


class InvalidField(Rejected):
    """A field of the request has a value that this order cannot take. `field` is its name in the interface.

    `problem` completes the field's name, as in "amount" "must be a multiple of 1". `kind` is the code of that, for
    programs. `others` are further wrong fields.
    """

    code = "VALIDATION_ERROR"

    def __init__(
        self, field: str, problem: str, kind: str = "INVALID_VALUE", others: Sequence[InvalidField] = ()
    ) -> None:
        super().__init__(sentence(field, problem), field=field)
        self.field = field
        self.problem = problem
        self.kind = kind
        self.others = others


def refuse_fields(problems: Sequence[InvalidField]) -> None:
    """Raises the first of these problems, with the others in `others`. Returns if there is none."""
    if problems:
        first, *others = problems
        raise InvalidField(first.field, first.problem, first.kind, others)


class CustomerNotFound(Rejected):
    code = "CUSTOMER_NOT_FOUND"


class PaymentMethodNotFound(Rejected):
    code = "PAYMENT_METHOD_NOT_FOUND"


class PaymentMethodExpired(Rejected):
    """The saved card has expired: `declineCode`, `retryable` and `advice` in the facts, as in a decline."""

    code = "PAYMENT_METHOD_EXPIRED"


class PaymentMethodLimitReached(Rejected):
    """The customer has as many saved payment methods as it may have."""

    code = "PAYMENT_METHOD_LIMIT_REACHED"


class TooManyCardVerifications(Rejected):
    """So many verifications of the customer's cards have lately saved none that no further one is made today."""

    code = "TOO_MANY_CARD_VERIFICATIONS"


class InvalidPaymentMethodState(Rejected):
    """The payment method does not wait for its payer, or not for this step."""

    code = "INVALID_PAYMENT_METHOD_STATE"


class PaymentMethodInUse(Rejected):
    """A subscription is charged to this method (contract N58)."""

    code = "PAYMENT_METHOD_IN_USE"


class ProductNotFound(Rejected):
    code = "PRODUCT_NOT_FOUND"


class PlanNotFound(Rejected):
    """The merchant has no such plan, or it is archived and a new subscription needs one."""

    code = "PLAN_NOT_FOUND"


class PlanInUse(Rejected):
    """A subscription has used the plan, so what it charges is fixed: `field` in the facts (contract N66)."""

    code = "PLAN_IN_USE"


class SubscriptionNotFound(Rejected):
    code = "SUBSCRIPTION_NOT_FOUND"


class SubscriptionInvoiceNotFound(Rejected):
    code = "SUBSCRIPTION_INVOICE_NOT_FOUND"


class EventNotFound(Rejected):
    code = "EVENT_NOT_FOUND"


class VersionNotFound(Rejected):
    """The resource has fewer events than the version that a read of its past asks for."""

    code = "VERSION_NOT_FOUND"


class ReportTooLarge(Rejected):
    """A report would be of too many orders: `orders` in the facts, or how many were counted before it was given up."""

    code = "REPORT_TOO_LARGE"


class SubscriptionCanceled(Rejected):
    """The subscription is cancelled, which is final (contract 2.3)."""

    code = "SUBSCRIPTION_CANCELED"


class TooManyPendingLines(Rejected):
    """As many lines of changes of plan wait for the subscription's next invoice as may wait."""

    code = "TOO_MANY_PENDING_LINES"


class NoNextInvoice(Rejected):
    """The subscription ends with its current period, and nothing is left to invoice."""

    code = "NO_NEXT_INVOICE"


class CurrencyMismatch(Rejected):
    """The plan charges in another currency than the subscription was charged in, or than the card can pay."""

    code = "CURRENCY_MISMATCH"


class ChargeRefused(Rejected):
    """A charge of a subscription, or a card that was to be saved, was declined.

    The facts have `declineCode`, `retryable` and `advice` (contract 5.1).
    """

    code = "PAYMENT_DECLINED"
    lasting = True


class ChargeRefusedByRisk(Rejected):
    """Risk rules refused it before its issuer was asked. The facts as in ChargeRefused."""

    code = "RISK_REJECTED"
    lasting = True


class ApiKeyNotFound(Rejected):
    code = "API_KEY_NOT_FOUND"


class ApiKeyNotActive(Rejected):
    """The API key is revoked or has expired, so no other can take its place."""

    code = "API_KEY_NOT_ACTIVE"


class ApiKeyLimitReached(Rejected):
    """The merchant has as many valid API keys as it may have."""

    code = "API_KEY_LIMIT_REACHED"


class MerchantIsClosed(Rejected):
    """An operator has closed the merchant, so it gets no API key."""

    code = "MERCHANT_CLOSED"


class LastManagingKey(Rejected):
    """No key would be left with which the merchant could make every key that it needs."""

    code = "LAST_API_KEY"


class InsufficientScope(Rejected):
    """The key of the request lacks a scope that it would give to another."""

    code = "INSUFFICIENT_SCOPE"


class ActingKeyEnded(Rejected):
    """The key of the request was revoked or has expired since the request was authenticated."""

    code = "INVALID_API_KEY"


class ProcessorAccountNotFound(Rejected):
    code = "PROCESSOR_ACCOUNT_NOT_FOUND"


class WebhookEndpointNotFound(Rejected):
    code = "WEBHOOK_ENDPOINT_NOT_FOUND"


class WebhookEndpointDisabled(Rejected):
    """Nothing is posted to the endpoint until it is enabled."""

    code = "WEBHOOK_ENDPOINT_DISABLED"


class ReplayInProgress(Rejected):
    """Events that were asked for again have not all been delivered to the endpoint yet."""

    code = "REPLAY_IN_PROGRESS"


class AuditRunning(Rejected):
    """An audit of the merchant waits or runs."""

    code = "AUDIT_RUNNING"


class AuditNotFound(Rejected):
    """The merchant has no audit with this id."""

    code = "AUDIT_NOT_FOUND"


class WebhookEndpointLimitReached(Rejected):
    """The merchant has as many webhook endpoints as it may have."""

    code = "WEBHOOK_ENDPOINT_LIMIT_REACHED"


class ProcessorAccountExists(Rejected):
    """The merchant has an account of this name with another processor, or another account at its processor."""

    code = "PROCESSOR_ACCOUNT_EXISTS"


class ProcessorAccountLimitReached(Rejected):
    """The merchant has as many accounts with processors as it may have."""

    code = "PROCESSOR_ACCOUNT_LIMIT_REACHED"


class ProcessorAccountKeysErased(Rejected):
    """The keys of a disconnected account were erased after the end of its refund window."""

    code = "PROCESSOR_ACCOUNT_KEYS_ERASED"


class ProcessorKeyRefused(Rejected):
    """The processor does not accept the secret key of an account."""

    code = "PROCESSOR_KEY_REFUSED"


class CardTokenInvalid(Rejected):
    code = "CARD_TOKEN_INVALID"


class MethodNotEnabled(Rejected):
    """No account of the merchant takes the payment: `accounts` in the facts has the reason of each, `amountMin` and
    `amountMax` are the amounts that would be taken, in minor units.
    """

    code = "METHOD_NOT_ENABLED"
    lasting = True


class OrderNotFound(Rejected):
    code = "ORDER_NOT_FOUND"


class OrderNotPayable(Rejected):
    code = "ORDER_NOT_PAYABLE"


class DuplicateExternalId(Rejected):
    code = "DUPLICATE_EXTERNAL_ID"


class IdempotencyMismatch(Rejected):
    code = "IDEMPOTENCY_MISMATCH"


class AmountExceedsPending(Rejected):
    code = "AMOUNT_EXCEEDS_PENDING"
    lasting = True


class PartialsNotAllowed(Rejected):
    code = "PARTIALS_NOT_ALLOWED"


class PaymentNotFound(Rejected):
    """The order has no such payment."""

    code = "PAYMENT_NOT_FOUND"


class RefundNotFound(Rejected):
    """The order has no such refund."""

    code = "REFUND_NOT_FOUND"


class AmountMismatch(Rejected):
    """A store's network takes the exact amount only: `expectedAmount` in the facts, in minor units."""

    code = "AMOUNT_MISMATCH"


class InvalidOrderState(Rejected):
    """The current status allows no such move: the tables of `orders.statuses` have no edge for it."""

    code = "INVALID_ORDER_STATE"


class OrderHasCapturedFunds(Rejected):
    """The order holds captured money: the merchant can refund it, or cancel the order with `refundCaptured`."""

    code = "ORDER_HAS_CAPTURED_FUNDS"


class OrderInvoiced(Rejected):
    """The order's invoice is stamped or being stamped, and states what the command would change."""

    code = "ORDER_INVOICED"


class OrderNotRefundable(Rejected):
    """Nothing was captured, or the captured money is disputed."""

    code = "ORDER_NOT_REFUNDABLE"


class RefundInProgress(Rejected):
    """A refund of the same payment has no outcome yet."""

    code = "REFUND_IN_PROGRESS"


class RefundExceedsBalance(Rejected):
    """The refund exceeds the money that is held: `refundableAmount` in the facts, gross, in minor units."""

    code = "REFUND_AMOUNT_EXCEEDS_BALANCE"
    lasting = True


class RefundWindowExpired(Rejected):
    """The processor's period for refunds to the card has ended."""

    code = "REFUND_WINDOW_EXPIRED"
    lasting = True


class CaptureExceedsAuthorized(Rejected):
    """The capture exceeds the authorisation: `authorizedAmount` in the facts is its uncaptured rest, in minor units."""

    code = "CAPTURE_EXCEEDS_AUTHORIZED"
    lasting = True


class PayerAuthenticationFailed(Rejected):
    """The payer failed the 3-D Secure challenge."""

    code = "PAYER_AUTHENTICATION_FAILED"
    lasting = True


class FiscalDataIncomplete(Rejected):
    """A document cannot be composed: `missing` names every field that it lacks, by its path in a request to stamp.

    `wrong` are the fields of the order's own lines that no document can state, each with what it must be.
    """

    code = "FISCAL_DATA_INCOMPLETE"

    def __init__(self, message: str, missing: Sequence[str] = (), wrong: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.missing = tuple(missing)
        self.wrong = tuple(wrong)


class AmountNotStampable(Rejected):
    """An amount has a fraction of a centavo, or is too small for its taxes, so that no document can state it.

    `field` is the part of the order that has the amount.
    """

    code = "AMOUNT_NOT_STAMPABLE"

    def __init__(self, message: str, field: str = "lineItems") -> None:
        super().__init__(message, field=field)
        self.field = field


class AmountNotChargeable(Rejected):
    """The amount has a fraction of a minor unit that the processor cannot move or the invoice cannot state, or a change
    of plan leads to a subscription invoice above the largest amount.
    """

    code = "AMOUNT_NOT_CHARGEABLE"
    lasting = True


class DocumentNotFound(Rejected):
    """The order has no such invoice document."""

    code = "DOCUMENT_NOT_FOUND"


class InvoiceNotReady(Rejected):
    """Nothing of the order is stamped, or the document is not."""

    code = "INVOICE_NOT_READY"


class InvoiceInUse(Rejected):
    """Receipts or credit notes refer to the invoice."""

    code = "INVOICE_IN_USE"


class OrderInGlobalInvoice(Rejected):
    """A global invoice states the order: a second invoice would state its money twice."""

    code = "ORDER_IN_GLOBAL_INVOICE"


class GlobalInvoiceNotFound(Rejected):
    code = "GLOBAL_INVOICE_NOT_FOUND"


class SelfInvoiceUnavailable(Rejected):
    """The payer may not request the order's invoice now. `state` is why, as the page for the payer shows it."""

    code = "SELF_INVOICE_UNAVAILABLE"

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.state = state


class ConcurrentUpdate(Rejected):
    code = "CONCURRENT_UPDATE"


class IdempotencyKeyReused(Rejected):
    """The idempotency key belongs to another request."""

    code = "IDEMPOTENCY_KEY_REUSED"


class RequestInProgress(Rejected):
    """The first request under this idempotency key, or a subscription's charge, is still being carried out."""

    code = "REQUEST_IN_PROGRESS"


def rejection_of(code: str) -> type[Rejected]:
    """Returns the class of the rejection with this public code."""
    return next(rejection for rejection in Rejected.__subclasses__() if rejection.code == code)
