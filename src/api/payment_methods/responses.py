"""The answer with a payment method that a request has saved or is saving."""

from __future__ import annotations

from api.payment_methods.show import method_not_found
from api.response import REPLAYED, ApiResponse
from ledger.operations.payment_methods.verify import CardResult
from projections.payment_methods import render


def method_response(result: CardResult) -> ApiResponse:
    """Returns the method: 201 if its verification has begun. Raises PaymentMethodNotFound if it was deleted since."""
    document = render(result.methods, result.payment_method_id)
    if document is None:
        raise method_not_found()
    headers = REPLAYED if result.replayed or result.repeated else ()
    return ApiResponse(201 if result.created else 200, document, headers)
