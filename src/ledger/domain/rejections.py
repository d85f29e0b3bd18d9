"""The domain's refusals: a closed list of facts that stand in the way, each with a stable public code.

The rule a stranger would break: a rejection knows no HTTP. Statuses stand in one table of the `api` package, and a test
holds that table complete.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Rejected(Exception):
    """The domain says no. `code` is public and permanent; `facts` are what the caller may know beside it.

    `lasting` rejections are the business's: under the same idempotency key the same one is given again. `repeated` says that
    this is such a repetition.
    """

    code: ClassVar[str]
    lasting: ClassVar[bool] = False
    repeated = False

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts


class InvalidField(Rejected):
    """A field of the request cannot stand on this order; `field` in the facts names it in the interface's spelling.

    `problem` completes the field's name, as in "amount" "must be a multiple of 1".
    """

    code = "VALIDATION_ERROR"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}.", field=field)
        self.field = field
        self.problem = problem


class CustomerNotFound(Rejected):
    code = "CUSTOMER_NOT_FOUND"


class PaymentMethodNotFound(Rejected):
    code = "PAYMENT_METHOD_NOT_FOUND"


class ApiKeyNotFound(Rejected):
    code = "API_KEY_NOT_FOUND"


class MethodNotEnabled(Rejected):
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
    """A store's network takes the exact amount only; `expectedAmount` in the facts."""

    code = "AMOUNT_MISMATCH"


class InvalidOrderState(Rejected):
    """No edge of the state tables leads from here to what was asked."""

    code = "INVALID_ORDER_STATE"


class OrderHasCapturedFunds(Rejected):
    """Money is held: the order is refunded, or cancelled with `refundCaptured`."""

    code = "ORDER_HAS_CAPTURED_FUNDS"


class OrderNotRefundable(Rejected):
    """Nothing was captured, or what was is contested."""

    code = "ORDER_NOT_REFUNDABLE"


class RefundInProgress(Rejected):
    """A refund of the same payment has no outcome yet."""

    code = "REFUND_IN_PROGRESS"


class RefundExceedsBalance(Rejected):
    """More than is held; `refundableAmount` in the facts."""

    code = "REFUND_AMOUNT_EXCEEDS_BALANCE"
    lasting = True


class RefundWindowExpired(Rejected):
    """The card's money can be given back no longer."""

    code = "REFUND_WINDOW_EXPIRED"
    lasting = True


class CaptureExceedsAuthorized(Rejected):
    """More than was granted; `authorizedAmount` in the facts is what is left of it."""

    code = "CAPTURE_EXCEEDS_AUTHORIZED"
    lasting = True


class PayerAuthenticationFailed(Rejected):
    """The payer failed the challenge."""

    code = "PAYER_AUTHENTICATION_FAILED"
    lasting = True


class ConcurrentUpdate(Rejected):
    code = "CONCURRENT_UPDATE"


class IdempotencyKeyReused(Rejected):
    """The idempotency key belongs to another request."""

    code = "IDEMPOTENCY_KEY_REUSED"


class RequestInProgress(Rejected):
    """The request under this idempotency key is still being carried out."""

    code = "REQUEST_IN_PROGRESS"


def rejection_of(code: str) -> type[Rejected]:
    """The rejection with this public code."""
    return next(known for known in Rejected.__subclasses__() if known.code == code)
