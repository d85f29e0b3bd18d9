"""The errors that the interface itself answers, before it asks the ledger anything.

Never repeat a value that was sent: it may be a card number in the wrong place. Name the field, and what it must be.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from api.response import Headers
from ledger.domain import streams
from ledger.domain.rejections import Rejected, sentence

_DIFFER: Final = "are two names of one field and have different values: send one of them"


class FieldError(Struct, frozen=True):
    """What is wrong with one field. `message` completes the field's name: "amount" "must be greater than 0"."""

    field: Annotated[
        str,
        Meta(
            description="The path of the field in the body, or the name of the parameter or header.",
            examples=["customer.email", "lineItems[0].quantity"],
        ),
    ]
    message: Annotated[str, Meta(description="What it must be, for people.")]
    code: Annotated[str, Meta(description="What is wrong with it, for programs. Permanent.", examples=["REQUIRED"])]


class ApiError(Exception):
    """An answer with this status and public code instead of the one that was asked for."""

    def __init__(
        self, status: int, code: str, message: str, *, errors: tuple[FieldError, ...] = (), headers: Headers = ()
    ) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.message = message
        self.errors = errors
        self.headers = headers

    def within(self, place: str) -> ApiError:
        """Returns the error with its fields inside this place: `quantity` becomes `lineItems[0].quantity`."""
        errors = tuple(FieldError(f"{place}.{each.field}", each.message, each.code) for each in self.errors)
        return ApiError(self.status, self.code, f"{place}.{self.message}", errors=errors, headers=self.headers)


class TooManyRequests(Exception):
    """A rate is used up. The message names it without a stop; `retry_after` is in whole seconds; `headers` are the
    RateLimit headers.
    """

    def __init__(self, message: str, retry_after: int, headers: Headers) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.headers = headers


class DatabaseAway(Exception):
    """The database went away while the request waited. What the request began may still be carried out."""


class ClientGone(Exception):
    """The client has closed the connection: an answer could not be delivered."""


def invalid(field: str, message: str, code: str = "INVALID_VALUE") -> ApiError:
    """Returns a 400 about one field. `message` completes the field's name and never contains what was sent."""
    return ApiError(400, "VALIDATION_ERROR", sentence(field, message), errors=(FieldError(field, message, code),))


def required(field: str) -> ApiError:
    """Returns a 400 about a missing field."""
    return invalid(field, "is required", "REQUIRED")


def method_not_allowed(*allowed: str) -> ApiError:
    """Returns a 405 that names the methods of the address."""
    methods = ", ".join(sorted(allowed))
    headers = ((b"allow", methods.encode()),)
    return ApiError(405, "METHOD_NOT_ALLOWED", f"This address accepts only {methods}.", headers=headers)


def conflicting(one: str, other: str, why: str = _DIFFER) -> ApiError:
    """Returns a 400 about two names of one field with different values, or two fields of which one excludes the
    other.
    """
    code, message = "CONFLICTING_FIELDS", f"{one} and {other} {why}"
    problem = "differs from" if why == _DIFFER else "must not be sent together with"
    errors = (FieldError(one, f"{problem} {other}", code), FieldError(other, f"{problem} {one}", code))
    return ApiError(400, code, f"{message}.", errors=errors)


def card_number_in(field: str) -> ApiError:
    """Returns a 400 about a card number in a text that would be stored."""
    code, message = "CARD_NUMBER_NOT_ALLOWED", "must not contain a card number"
    return ApiError(400, code, f"{field} {message}.", errors=(FieldError(field, message, code),))


def card_number_not_accepted(field: str) -> ApiError:
    """Returns a 400 about a card's number or security code for a merchant whose cards come as tokens."""
    message = (
        "is not accepted by this merchant: send paymentMethod.cardTokens, or set settings.cardEntry to NUMBERS with "
        "PUT /v1/merchant"
    )
    errors = (FieldError(field, message, "CARD_NUMBER_NOT_ACCEPTED"),)
    return ApiError(400, "CARD_NUMBER_NOT_ACCEPTED", f"{field} {message}.", errors=errors)


def security_code_in(field: str) -> ApiError:
    """Returns a 400 about a card's security code in a text that would be stored."""
    code, message = "SECURITY_CODE_NOT_ALLOWED", "must not contain a card's security code"
    return ApiError(400, code, f"{field} {message}.", errors=(FieldError(field, message, code),))


def no_such_operation(*, has_slash_too_many: bool = False, meant: str | None = None) -> ApiError:
    """Returns the 404 for an address without an operation, also if it is that of one but for a slash at its end, or for
    what makes it the path `meant`.
    """
    advice = "leave out the slash at its end." if has_slash_too_many else "check the path. /docs shows them all."
    if meant is not None:
        advice = f"did you mean {meant}?"
    return ApiError(404, "NOT_FOUND", f"There is no operation at this address: {advice}")


def order_not_found() -> Rejected:
    """Returns the rejection of an id under which the merchant has no order."""
    return streams.ORDERS.missing()


def customer_not_found() -> Rejected:
    """Returns the rejection of an id under which the merchant has no customer, or an erased one."""
    return streams.CUSTOMERS.missing()
