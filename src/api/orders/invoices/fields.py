"""What the requests about electronic invoices have in common."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Final

from msgspec import Meta, Raw, UnsetType

from api.errors import invalid
from api.fields.values import is_given, measure
from api.operation import Codes
from ledger.domain.merchants.settings import EXCHANGE_RATE_MAX

TAG: Final = "Electronic invoices"

ExchangeRate = Annotated[
    Raw | UnsetType,
    Meta(
        description="For an order in another currency than MXN: pesos per unit, with at most six decimals.",
        examples=[17.2545],
        extra_json_schema={"type": "number", "exclusiveMinimum": 0, "maximum": EXCHANGE_RATE_MAX},
    ),
]

KEYED: Final[Codes] = {
    404: ("ORDER_NOT_FOUND", "DOCUMENT_NOT_FOUND"),
    409: ("IDEMPOTENCY_KEY_REUSED", "REQUEST_IN_PROGRESS", "CONCURRENT_UPDATE"),
    503: ("PROCESSOR_UNAVAILABLE",),
}
"""The codes of every request that calls the stamping provider."""


def exchange_rate(raw: Raw | UnsetType, field: str = "exchangeRate") -> Decimal | None:
    """Returns pesos per unit of a foreign currency, or None if the field is absent. Raises ApiError (400)."""
    if not is_given(raw):
        return None
    rate = measure(raw, field)
    if not 0 < rate <= EXCHANGE_RATE_MAX:
        raise invalid(field, f"must be greater than 0 and at most {EXCHANGE_RATE_MAX}", "OUT_OF_RANGE")
    return rate
