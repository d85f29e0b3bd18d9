"""Which refusal, fault or failure is answered how: the one table from codes of the domain to HTTP (contract 5.1, N71).

The rule a stranger would break: a 500 says nothing but its request id, and its log line names types and places, never the
exception's text, which may repeat what a customer typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import structlog

from api.http.errors import ApiError, FieldError, TooManyRequests, invalid
from api.http.response import REPLAYED, ApiResponse, Headers, json_response
from ledger.domain import rejections
from ledger.domain.money import shortest
from ledger.domain.rejections import Rejected
from ledger.journal.append import CommitUnknown, DataRefused
from ledger.postgres.faults import Fault
from ledger.processors.contract import ProcessorUnavailable
from ledger.telemetry.logs import stack_locations

_log = structlog.get_logger()

STATUS: Final[Mapping[type[Rejected], int]] = {
    rejections.InvalidField: 400,
    rejections.CustomerNotFound: 404,
    rejections.OrderNotFound: 404,
    rejections.PaymentMethodNotFound: 404,
    rejections.ApiKeyNotFound: 404,
    rejections.AmountMismatch: 409,
    rejections.ConcurrentUpdate: 409,
    rejections.DuplicateExternalId: 409,
    rejections.IdempotencyKeyReused: 409,
    rejections.IdempotencyMismatch: 409,
    rejections.OrderNotPayable: 409,
    rejections.PartialsNotAllowed: 409,
    rejections.RequestInProgress: 409,
    rejections.AmountExceedsPending: 422,
    rejections.PaymentNotFound: 404,
    rejections.RefundNotFound: 404,
    rejections.InvalidOrderState: 409,
    rejections.OrderHasCapturedFunds: 409,
    rejections.OrderNotRefundable: 409,
    rejections.RefundInProgress: 409,
    rejections.RefundExceedsBalance: 422,
    rejections.RefundWindowExpired: 422,
    rejections.CaptureExceedsAuthorized: 422,
    rejections.PayerAuthenticationFailed: 422,
    rejections.MethodNotEnabled: 422,
}
"""The status of every refusal of the domain. A test holds it complete."""

RETRY_AFTER_S: Final = 1
_RETRY: Final[Headers] = ((b"retry-after", b"%d" % RETRY_AFTER_S),)


def error_response(failure: Exception, request_id: str) -> ApiResponse:
    """The answer to a request that ended in this exception."""
    match failure:
        case ApiError():
            return _refused(failure, request_id)
        case TooManyRequests():
            return _too_many(failure, request_id)
        case Rejected():
            return _rejected(failure, request_id)
        case ProcessorUnavailable():
            return _unavailable("PROCESSOR_UNAVAILABLE", "The payment processor cannot be reached.", request_id)
        case CommitUnknown():
            return _unavailable(
                "DATABASE_UNAVAILABLE", "The service is stopping; the request may have been carried out.", request_id
            )
        case Fault():
            return _unavailable("DATABASE_UNAVAILABLE", "The service cannot store anything at the moment.", request_id)
        case TimeoutError():
            return _unavailable(
                "REQUEST_TIMEOUT", "The request took too long; it may still be carried out.", request_id
            )
        case DataRefused():
            _log_failure(failure, request_id)
            return _refused(invalid("body", "holds a value that cannot be stored"), request_id)
        case _:
            _log_failure(failure, request_id)
            return _failed(request_id)


def error_body(code: str, message: str, request_id: str, errors: tuple[FieldError, ...] = ()) -> dict[str, Any]:
    """The error object that all answers share."""
    body: dict[str, Any] = {"message": message, "code": code, "requestId": request_id}
    if errors:
        body["errors"] = errors
    return body


def _refused(refusal: ApiError, request_id: str) -> ApiResponse:
    body = error_body(refusal.code, refusal.message, request_id, refusal.errors)
    return json_response(refusal.status, body, refusal.headers)


def _rejected(rejected: Rejected, request_id: str) -> ApiResponse:
    status = STATUS[type(rejected)]
    if isinstance(rejected, rejections.InvalidField):
        errors = (FieldError(rejected.field, rejected.problem, "INVALID_VALUE"),)
        return json_response(status, error_body(rejected.code, rejected.message, request_id, errors))
    facts = {name: _fact(value) for name, value in rejected.facts.items()}
    return json_response(status, facts | error_body(rejected.code, rejected.message, request_id), _headers(rejected))


def _headers(rejected: Rejected) -> Headers:
    if rejected.repeated:
        return REPLAYED
    return _RETRY if isinstance(rejected, rejections.RequestInProgress) else ()


def _fact(value: Any) -> Any:
    if isinstance(value, Decimal):
        return shortest(value)
    return sorted(value) if isinstance(value, frozenset | set) else value


def _too_many(refusal: TooManyRequests, request_id: str) -> ApiResponse:
    code, message = "RATE_LIMIT_EXCEEDED", "Too many requests with this API key."
    inner = {"code": code, "message": message, "retryAfter": refusal.retry_after}
    headers: Headers = ((b"retry-after", b"%d" % refusal.retry_after), *refusal.headers)
    return json_response(429, {"error": inner, **error_body(code, message, request_id)}, headers)


def _unavailable(code: str, message: str, request_id: str) -> ApiResponse:
    return json_response(503, error_body(code, f"{message} Try again in a moment.", request_id), _RETRY)


def _failed(request_id: str) -> ApiResponse:
    message = "Something went wrong on our side. Tell us the request id if it happens again."
    return json_response(500, error_body("INTERNAL_ERROR", message, request_id))


def _log_failure(failure: Exception, request_id: str) -> None:
    _log.error("request_failed", request_id=request_id, reason=type(failure).__name__, at=stack_locations(failure))
