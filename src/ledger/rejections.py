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


class InvalidTerms(Rejected):
    """A field of the request cannot stand on this order; `field` in the facts names it in the interface's spelling."""

    code = "VALIDATION_ERROR"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message, field=field)


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
