"""When each error code comes, in words, for the published description and for docs/reference.

Codes and statuses themselves are where they are raised. Generating the pages fails for a code without words and for
words without a code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WORDS: Final[Mapping[str, str | Mapping[int, str]]] = {
    "BAD_REQUEST": "What was sent is no HTTP request.",
    "VALIDATION_ERROR": "A field is missing or cannot stand there; `errors` names it, the first where there are several.",
    "CONFLICTING_FIELDS": "Two names of one field came with different values.",
    "CARD_NUMBER_NOT_ALLOWED": "A card number stands in a text that would be stored. It is not repeated.",
    "INVALID_API_KEY": "The key is missing, unknown or revoked.",
    "INVALID_SIGNATURE": "A processor's message is not signed with its key, or more than five minutes ago.",
    "KEY_EXPIRED": "The key has reached its `expiresAt`.",
    "KEY_ENVIRONMENT_MISMATCH": "A sandbox key in production, or the other way round.",
    "INSUFFICIENT_SCOPE": "The key was not issued for this operation.",
    "MERCHANT_NOT_FOUND": "`x-merchant-id` is not the key's merchant, whether it exists or not.",
    "NOT_FOUND": "No operation has this address.",
    "ORDER_NOT_FOUND": "The merchant has no order with this id or external id.",
    "CUSTOMER_NOT_FOUND": "`customer.id` names nobody.",
    "PAYMENT_METHOD_NOT_FOUND": "The saved payment method does not exist.",
    "API_KEY_NOT_FOUND": "The merchant has no such key. Only the command line meets it.",
    "METHOD_NOT_ALLOWED": "The address exists, the method does not; `Allow` names those that do.",
    "REQUEST_TIMEOUT": {
        408: "The body did not arrive in time.",
        503: "The answer took longer than `LEDGER_REQUEST_TIMEOUT_S`. The request may still be carried out: send the same "
        "`externalId` again to learn.",
    },
    "ORDER_NOT_PAYABLE": "The order's status does not allow a payment; `currentStatus` and `allowedStatuses` say more.",
    "DUPLICATE_EXTERNAL_ID": "The order with this `externalId` was cancelled.",
    "IDEMPOTENCY_MISMATCH": "The same `externalId` with another amount or currency; `field` says which.",
    "IDEMPOTENCY_KEY_REUSED": "The same `Idempotency-Key` came with another request before.",
    "REQUEST_IN_PROGRESS": "A request with the same `Idempotency-Key` is being carried out. Ask again in a second.",
    "PARTIALS_NOT_ALLOWED": "The order was created without `allowPartials`: it is paid by `charge`.",
    "PAYMENT_NOT_FOUND": "The order has no payment with this id.",
    "REFUND_NOT_FOUND": "The order has no refund with this id.",
    "AMOUNT_MISMATCH": "Stores take the exact amount of a cash reference only: `expectedAmount`. Sandbox only.",
    "INVALID_ORDER_STATE": "Nothing leads from the order's status to what was asked; `currentStatus` and `allowedStatuses` say more.",
    "ORDER_HAS_CAPTURED_FUNDS": "Money is held: refund the order, or cancel it with `refundCaptured`.",
    "ORDER_NOT_REFUNDABLE": "Nothing was captured, or what was is contested.",
    "REFUND_IN_PROGRESS": "A refund of the same payment has no outcome yet. Ask again later.",
    "REFUND_AMOUNT_EXCEEDS_BALANCE": "More than is held; `refundableAmount` is what can be refunded.",
    "REFUND_WINDOW_EXPIRED": "The card was charged too long ago to be refunded.",
    "CAPTURE_EXCEEDS_AUTHORIZED": "More than was granted; `authorizedAmount` is what is left of it.",
    "PAYER_AUTHENTICATION_FAILED": "The payer failed the challenge; the payment failed.",
    "CONCURRENT_UPDATE": "Too many requests change the same thing at once. Nothing happened; ask again.",
    "BODY_TOO_LARGE": "The body exceeds `LEDGER_BODY_LIMIT`.",
    "URI_TOO_LONG": "Path and query together exceed 8 KiB.",
    "UNSUPPORTED_MEDIA_TYPE": "The body is not `application/json` in UTF-8, or it is compressed.",
    "HEADERS_TOO_LARGE": "More than 100 headers, or more than 32 KiB of them.",
    "AMOUNT_EXCEEDS_PENDING": "The part is larger than what is unpaid and not reserved; `amountPending` and `amountReserved`.",
    "METHOD_NOT_ENABLED": "The merchant, or this release, does not take this payment method, or its processor not in the order's currency.",
    "PAYMENT_DECLINED": "The issuer said no, or the payment was given up. See below.",
    "RISK_REJECTED": "Risk rules said no before any issuer was asked. The body is that of a decline.",
    "RATE_LIMIT_EXCEEDED": "The key has used up its requests; `Retry-After` says when there is one again.",
    "INTERNAL_ERROR": "A bug of ours. The log has the details under the `requestId`.",
    "PROCESSOR_UNAVAILABLE": "The processor could not be reached. Nothing was sent; the payment stands as FAILED on the order.",
    "DATABASE_UNAVAILABLE": "The database is away, or too many commands wait. Send the same `externalId` again: it tells what "
    "became of the first try.",
}


def words(code: str, status: int) -> str:
    """Returns the words for a code that comes with this status."""
    text = WORDS[code]
    return text if isinstance(text, str) else text[status]
