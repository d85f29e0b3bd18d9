"""Stripe's errors: an HTTP status and an object with type, code, param and message."""

from __future__ import annotations

from typing import Any


class StripeError(Exception):
    """An answer other than 200. `facts` are further fields of the error object, without those that are None."""

    def __init__(self, status: int, error_type: str, message: str, *, code: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.status = status
        self._facts = {"type": error_type, "message": message, "code": code, **facts}

    @property
    def body(self) -> dict[str, Any]:
        """Returns the JSON body."""
        error = {key: value for key, value in self._facts.items() if value is not None}
        if code := error.get("code"):
            error["doc_url"] = f"https://stripe.com/docs/error-codes/{str(code).replace('_', '-')}"
        return {"error": error}


class NotSupported(StripeError):
    """Stripe knows it, this fake does not."""

    def __init__(self, what: str) -> None:
        super().__init__(501, "api_error", f"fake_stripe does not support {what}; Stripe does")


def invalid(message: str, param: str | None = None, *, code: str | None = None, **facts: Any) -> StripeError:
    """Returns a 400."""
    return StripeError(400, "invalid_request_error", message, code=code, param=param, **facts)


def missing(kind: str, name: str, param: str, *, status: int, hint: str = "") -> StripeError:
    """Returns the refusal of an id that names nothing. Stripe answers 404 for the path, and 400 for a parameter."""
    return StripeError(
        status, "invalid_request_error", f"No such {kind}: '{name}'{hint}", code="resource_missing", param=param
    )


def unexpected_state(message: str, intent: dict[str, Any], param: str | None = None) -> StripeError:
    """Returns the refusal of an action that the intent's status does not allow."""
    return invalid(message, param, code="payment_intent_unexpected_state", payment_intent=intent)
