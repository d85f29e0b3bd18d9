"""How each rejection, fault and failure is answered: the table from the domain's rejections to HTTP (contract 5.1,
N71).

Give a 500 nothing but its request id, and its log line only types and places: an exception's text may repeat what a
customer typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import structlog
from msgspec import UNSET, Meta, Struct, UnsetType

from api import errors
from api.errors import ApiError, FieldError, invalid
from api.response import ERRORS_PAGE, REPLAYED, ApiResponse, Headers, json_response
from ledger.domain import rejections
from ledger.domain.money import shortest
from ledger.domain.orders.statuses import Advice, OrderStatus
from ledger.domain.rejections import Rejected
from ledger.domain.streams import STREAMS
from ledger.invoicing.contract import ProviderTimedOut, ProviderUnavailable
from ledger.invoicing.files import FileMissing, FilesUnavailable
from ledger.journal.append import CommitUnknown, DataRefused, KeyUnavailable, SealBroken
from ledger.journal.event_archive import ArchiveUnavailable
from ledger.operations.context.event_feed import FeedBehind
from ledger.operations.context.results import NothingSent
from ledger.postgres.faults import Fault, ReadModelBehind
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.registry import KeysUnchecked
from ledger.telemetry.logs import stack_locations
from projections.events.feed import EventUnreadable

_log = structlog.get_logger()

STATUS: Final[Mapping[type[Rejected], int]] = {
    **{stream.not_found: 404 for stream in STREAMS if stream.not_found is not None},
    rejections.InvalidField: 400,
    rejections.ProcessorAccountExists: 409,
    rejections.ProcessorAccountLimitReached: 409,
    rejections.ProcessorAccountKeysErased: 409,
    rejections.ProcessorKeyRefused: 422,
    rejections.PaymentMethodExpired: 422,
    rejections.PaymentMethodInUse: 409,
    rejections.PaymentMethodLimitReached: 409,
    rejections.TooManyCardVerifications: 409,
    rejections.InvalidPaymentMethodState: 409,
    rejections.PlanInUse: 409,
    rejections.SubscriptionInvoiceNotFound: 404,
    rejections.EventNotFound: 404,
    rejections.VersionNotFound: 404,
    rejections.ReportTooLarge: 422,
    rejections.SubscriptionCanceled: 409,
    rejections.TooManyPendingLines: 409,
    rejections.NoNextInvoice: 409,
    rejections.CurrencyMismatch: 422,
    rejections.ChargeRefused: 422,
    rejections.ChargeRefusedByRisk: 422,
    rejections.ApiKeyNotFound: 404,
    rejections.ApiKeyNotActive: 409,
    rejections.ApiKeyLimitReached: 409,
    rejections.MerchantIsClosed: 409,
    rejections.LastManagingKey: 409,
    rejections.InsufficientScope: 401,
    rejections.ActingKeyEnded: 401,
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
    rejections.OrderInvoiced: 409,
    rejections.OrderNotRefundable: 409,
    rejections.RefundInProgress: 409,
    rejections.RefundExceedsBalance: 422,
    rejections.RefundWindowExpired: 422,
    rejections.CaptureExceedsAuthorized: 422,
    rejections.PayerAuthenticationFailed: 422,
    rejections.MethodNotEnabled: 422,
    rejections.CardTokenInvalid: 422,
    rejections.ProcessorAccountNotFound: 404,
    rejections.WebhookEndpointNotFound: 404,
    rejections.WebhookEndpointDisabled: 409,
    rejections.ReplayInProgress: 409,
    rejections.AuditRunning: 409,
    rejections.AuditNotFound: 404,
    rejections.WebhookEndpointLimitReached: 422,
    rejections.FiscalDataIncomplete: 422,
    rejections.AmountNotStampable: 422,
    rejections.AmountNotChargeable: 422,
    rejections.DocumentNotFound: 404,
    rejections.InvoiceNotReady: 409,
    rejections.InvoiceInUse: 409,
    rejections.SelfInvoiceUnavailable: 409,
    rejections.OrderInGlobalInvoice: 409,
    rejections.GlobalInvoiceNotFound: 404,
}
"""The status of every rejection of the domain. A test holds it complete."""

RETRY_AFTER_S: Final = 1
_RETRY: Final[Headers] = ((b"retry-after", b"%d" % RETRY_AFTER_S),)

_UNAVAILABLE: Final[Mapping[type[Exception], tuple[str, str]]] = {
    ProcessorUnavailable: ("PROCESSOR_UNAVAILABLE", "The payment processor cannot be reached; nothing was charged."),
    # Operations record it as an outcome; the sandbox's helpers and pages raise it.
    ProcessorTimedOut: (
        "PROCESSOR_UNAVAILABLE",
        "The payment processor did not answer; it may still carry out the request.",
    ),
    KeysUnchecked: (
        "PROCESSOR_UNAVAILABLE",
        "The payment processor did not answer, so that the account's key could not be checked; nothing was stored.",
    ),
    ProviderUnavailable: ("PROCESSOR_UNAVAILABLE", "The stamping provider cannot be reached."),
    ProviderTimedOut: ("PROCESSOR_UNAVAILABLE", "The stamping provider did not answer; it may still stamp."),
    errors.DatabaseAway: ("DATABASE_UNAVAILABLE", "The database is away; the request may still be carried out."),
    CommitUnknown: (
        "DATABASE_UNAVAILABLE",
        "The database has not confirmed the request; it may have been carried out.",
    ),
    KeyUnavailable: ("DATA_KEY_UNAVAILABLE", "The service lacks the key of this record."),
    SealBroken: ("DATA_KEY_UNAVAILABLE", "This record cannot be opened."),
    FileMissing: ("FILE_MISSING", "The file of this document is missing from the store of the service."),
    ArchiveUnavailable: (
        "FILE_MISSING",
        "A file of this record's archived events cannot be read from the store of the service.",
    ),
    FilesUnavailable: ("DATABASE_UNAVAILABLE", "The store of the documents' files cannot be read."),
    ReadModelBehind: (
        "DATABASE_UNAVAILABLE",
        "Orders of an earlier release cannot be filtered so yet: the operator of the service has to run `ledger rebuild`.",
    ),
    FeedBehind: ("FEED_BEHIND", "The feed does not have all events of the merchant yet."),
    Fault: ("DATABASE_UNAVAILABLE", "The service cannot store anything at the moment."),
    TimeoutError: ("REQUEST_TIMEOUT", "The request took too long; it may still be carried out."),
}
"""The code and the message of a 503, by the first of these classes that the failure has."""


class Error(Struct, kw_only=True, rename="camel"):
    """The fields of every answer other than a 2xx. Match on `code`; messages are for people and may change."""

    message: Annotated[str, Meta(description="What is wrong, for people. Never repeats a value that was sent.")]
    code: Annotated[str, Meta(description="What is wrong, for programs. Permanent.", examples=["VALIDATION_ERROR"])]
    request_id: Annotated[str, Meta(description="The request's id, as in the header x-request-id.")]
    doc_url: Annotated[
        str,
        Meta(
            description="The address of the service's page about the code.",
            examples=["https://pay.example.com/docs/errors#VALIDATION_ERROR"],
        ),
    ]
    errors: Annotated[
        list[FieldError] | UnsetType, Meta(description="The fields that are wrong, or that a document lacks.")
    ] = UNSET


class AccountRefusal(Struct, kw_only=True, rename="camel"):
    """Why an account with a processor does not take a payment."""

    account: Annotated[str, Meta(description="The name of the merchant's account.")]
    reason: Annotated[str, Meta(description="Why it does not take the payment, for people.")]
    amount_min: Annotated[
        Decimal | UnsetType, Meta(description="The smallest amount that it takes, in minor units.")
    ] = UNSET
    amount_max: Annotated[
        Decimal | UnsetType, Meta(description="The largest amount that it takes, in minor units.")
    ] = UNSET


class Conflict(Error, kw_only=True, rename="camel"):
    """The answer to a valid request that the current state does not allow."""

    field: Annotated[
        str | UnsetType, Meta(description="The field that conflicts with the existing order or payment.")
    ] = UNSET
    current_status: Annotated[
        str | UnsetType, Meta(description="The status of the order, or of the payment that prevents the operation.")
    ] = UNSET
    allowed_statuses: Annotated[
        list[OrderStatus] | UnsetType, Meta(description="The statuses that allow the operation.")
    ] = UNSET
    amount_pending: Annotated[Decimal | UnsetType, Meta(description="The unpaid amount, in minor units.")] = UNSET
    amount_reserved: Annotated[
        Decimal | UnsetType,
        Meta(description="The part of the unpaid amount that other payments have reserved, in minor units."),
    ] = UNSET
    refundable_amount: Annotated[
        Decimal | UnsetType, Meta(description="The amount that can be refunded, in minor units.")
    ] = UNSET
    authorized_amount: Annotated[
        Decimal | UnsetType, Meta(description="The rest of the authorisation, in minor units.")
    ] = UNSET
    expected_amount: Annotated[
        Decimal | UnsetType, Meta(description="The only amount that is accepted, in minor units.")
    ] = UNSET
    payment_id: Annotated[UUID | UnsetType, Meta(description="The payment that prevents the operation.")] = UNSET
    decline_code: Annotated[str | UnsetType, Meta(description="CARD_EXPIRED for a saved card that has expired.")] = (
        UNSET
    )
    retryable: Annotated[bool | UnsetType, Meta(description="Whether the same card, unchanged, may be used later.")] = (
        UNSET
    )
    advice: Annotated[Advice | UnsetType, Meta(description="What the merchant should do about the saved card.")] = UNSET
    accounts: Annotated[
        list[AccountRefusal] | UnsetType, Meta(description="The merchant's accounts, none of which takes the payment.")
    ] = UNSET
    amount_min: Annotated[
        Decimal | UnsetType, Meta(description="The smallest amount that an account takes, in minor units.")
    ] = UNSET
    amount_max: Annotated[
        Decimal | UnsetType, Meta(description="The largest amount that an account takes, in minor units.")
    ] = UNSET
    orders: Annotated[
        int | UnsetType, Meta(description="Of how many orders a report would be, as far as they were counted.")
    ] = UNSET


class Unavailable(Error, kw_only=True, rename="camel"):
    """The answer to a request that could not be sent to a processor. The order it is about exists all the same."""

    id: Annotated[UUID | UnsetType, Meta(description="The order, where the request made one or is about one.")] = UNSET
    external_id: Annotated[str | UnsetType, Meta(description="The merchant's id of the order.")] = UNSET
    status: Annotated[
        OrderStatus | UnsetType, Meta(description="The order's status: FAILED where this was its only payment.")
    ] = UNSET


class Wait(Struct, rename="camel"):
    """The time to wait before the next request."""

    code: Annotated[
        Literal["RATE_LIMIT_EXCEEDED"], Meta(description="The same as in the object that contains this one.")
    ]
    message: Annotated[str, Meta(description="The same as in the object that contains this one.")]
    retry_after: Annotated[int, Meta(description="The number of seconds, as in the header Retry-After.")]


class TooManyRequests(Error, kw_only=True, rename="camel"):
    """The answer to a request with a key that has used up its requests."""

    error: Wait


_FACTS: Final = {
    name: field
    for name, field in zip(Conflict.__struct_encode_fields__, Conflict.__struct_fields__, strict=True)
    if field not in Error.__struct_fields__
}
"""The fields of `Conflict` by the names that rejections give their facts. A test holds that every fact has a field."""


class Answered(Struct, frozen=True):
    """The request that an error answers: its id, and the address of the service's page about errors."""

    request_id: str
    errors_url: str = ERRORS_PAGE

    def about(self, code: str, message: str) -> dict[str, Any]:
        """Returns the fields of every error."""
        return {
            "message": message,
            "code": code,
            "request_id": self.request_id,
            "doc_url": f"{self.errors_url}#{code}",
        }


def error_response(failure: Exception, request_id: str, errors_url: str = ERRORS_PAGE) -> ApiResponse:
    """Returns the answer to a request that ended in this exception."""
    answered = Answered(request_id, errors_url)
    match failure:
        case ApiError():
            return _refused(failure, answered)
        case errors.TooManyRequests():
            return _too_many(failure, answered)
        case Rejected():
            return _rejected(failure, answered)
        case DataRefused():
            _log_failure(failure, request_id)
            return _refused(invalid("body", "contains a value that cannot be stored"), answered)
        case EventUnreadable(sequence=number, fault=fault):
            place = (
                f"It is shown by event {number} of the feed: read on with afterSequence={number}, or try again later."
            )
            return _without(fault, place, answered) or _failed(answered)
        case FeedBehind(cause=KeyUnavailable() | SealBroken() | ArchiveUnavailable() as fault):
            return _without(fault, "The feed ends before it. Try again later.", answered) or _failed(answered)
        case _:
            answer = _without(failure, "Try again in a moment.", answered)
            if answer is None:
                _log_failure(failure, request_id)
                return _failed(answered)
            return answer


def _without(failure: Exception, todo: str, answered: Answered) -> ApiResponse | None:
    """Returns the 503 for what a request needs and does not have, None for another failure."""
    for kind, (code, message) in _UNAVAILABLE.items():
        if isinstance(failure, kind):
            if code == "DATA_KEY_UNAVAILABLE":
                _log.error("record_unopened", reason=type(failure).__name__, request_id=answered.request_id)
            return _unavailable(failure, answered.about(code, f"{message} {todo}"))
    return None


def _refused(error: ApiError, answered: Answered) -> ApiResponse:
    body = Error(**answered.about(error.code, error.message), errors=list(error.errors) if error.errors else UNSET)
    return json_response(error.status, body, error.headers)


def _rejected(rejected: Rejected, answered: Answered) -> ApiResponse:
    status = STATUS[type(rejected)]
    if isinstance(rejected, rejections.InvalidField):
        wrong = (rejected, *rejected.others)
        problems = tuple(FieldError(each.field, each.problem, each.kind) for each in wrong)
        error = ApiError(status, rejected.code, rejected.message, errors=problems)
        return _refused(error, answered)
    if isinstance(rejected, rejections.FiscalDataIncomplete):
        lacking = [FieldError(field, "is required", "REQUIRED") for field in rejected.missing]
        lacking += [FieldError(field, problem, "INVALID_VALUE") for field, problem in rejected.wrong]
        return _refused(ApiError(status, rejected.code, rejected.message, errors=tuple(lacking)), answered)
    facts = {_FACTS[name]: _fact(value) for name, value in rejected.facts.items() if name in _FACTS}
    body = Conflict(**answered.about(rejected.code, rejected.message), **facts)
    return json_response(status, body, _headers(rejected))


def _headers(rejected: Rejected) -> Headers:
    if rejected.repeated:
        return REPLAYED
    return _RETRY if isinstance(rejected, rejections.RequestInProgress) else ()


def _fact(value: Any) -> Any:
    if isinstance(value, Decimal):
        return shortest(value)
    return sorted(value) if isinstance(value, frozenset | set) else value


def _too_many(error: errors.TooManyRequests, answered: Answered) -> ApiResponse:
    message = f"{error}: wait for the seconds in Retry-After."
    body = TooManyRequests(
        **answered.about("RATE_LIMIT_EXCEEDED", message),
        error=Wait(code="RATE_LIMIT_EXCEEDED", message=message, retry_after=error.retry_after),
    )
    headers: Headers = ((b"retry-after", b"%d" % error.retry_after), *error.headers)
    return json_response(429, body, headers)


def _unavailable(failure: Exception, about: dict[str, Any]) -> ApiResponse:
    body = Error(**about)
    if isinstance(failure, NothingSent):
        terms = failure.order.terms
        body = Unavailable(**about, id=terms.order_id, external_id=terms.external_id, status=failure.order.status)
    return json_response(503, body, _RETRY)


def _failed(answered: Answered) -> ApiResponse:
    message = "The service failed because of an error of its own. If it happens again, report the request id."
    return json_response(500, Error(**answered.about("INTERNAL_ERROR", message)))


def _log_failure(failure: Exception, request_id: str) -> None:
    _log.error("request_failed", request_id=request_id, reason=type(failure).__name__, at=stack_locations(failure))
