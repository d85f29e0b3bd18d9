"""When each error code comes, in words, for the published description and for docs/reference.

The modules that raise a code define it and its status. Generating the pages fails for a code without words and for
words without a code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.decoding.field_warnings import WarningCode
from ledger.domain.orders.statuses import Advice
from ledger.domain.streams import STREAMS

WORDS: Final[Mapping[str, str | Mapping[int, str]]] = {
    **{stream.not_found.code: stream.not_found_text for stream in STREAMS if stream.not_found is not None},
    "BAD_REQUEST": "The request is not valid HTTP.",
    "VALIDATION_ERROR": "A field is missing or has an invalid value. `errors` names every wrong field, up to twenty; "
    "helpers of the sandbox name the first.",
    "CONFLICTING_FIELDS": "Two names of one field have different values, or two fields were sent of "
    "which one excludes the "
    "other.",
    "UNKNOWN_FIELD": "A field is unknown, and its name is that of another one at its place but for case, `_`, `-` or two "
    "letters: `errors` names the one that was probably meant. Or a field has an effect elsewhere, such as one that moves money in other "
    "payment APIs: `errors` has what to send instead. Or it chooses one payment or document in other operations, and would be ignored here. Or the merchant's setting `unknownFields` is REJECT.",
    "UNKNOWN_PARAMETER": "The query has a parameter that the operation does not have: `errors` names the one that was "
    "probably meant, or those that there are.",
    "CARD_NUMBER_NOT_ACCEPTED": "The merchant's cards come as `cardTokens` alone (`settings.cardEntry` is TOKENS). The "
    "answer does not repeat the number.",
    "CARD_NUMBER_NOT_ALLOWED": "A text that would be stored contains a card number. The answer does not "
    "repeat the number.",
    "SECURITY_CODE_NOT_ALLOWED": "A text that would be stored contains a card's security code under its name, "
    "such as `cvc` or `securityCode`. The answer does not repeat the code.",
    "INVALID_API_KEY": "The API key is missing, unknown or revoked.",
    "INVALID_SIGNATURE": "A processor's message is not signed with the processor's key, or its timestamp "
    "is more than five "
    "minutes from the present.",
    "KEY_EXPIRED": "The `expiresAt` of the key has passed.",
    "KEY_ENVIRONMENT_MISMATCH": "The key is a sandbox key and the service is in production, or the reverse.",
    "INSUFFICIENT_SCOPE": "The key was not issued for this operation, or lacks a scope that it would give to another "
    "key.",
    "MERCHANT_NOT_FOUND": "`x-merchant-id` is not the key's merchant. The answer is the same whether "
    "that merchant exists or "
    "not.",
    "NOT_FOUND": "There is no operation at this address.",
    "ORDER_NOT_FOUND": "The merchant has no order with this id or external id.",
    "CUSTOMER_NOT_FOUND": "The merchant has no customer with this id or external id, or the customer was erased. The "
    "id is that of the path, `customer.id` or `sourceId`.",
    "PAYMENT_METHOD_NOT_FOUND": "The saved payment method does not exist, was deleted, is another customer's, or is not "
    "saved yet: its `status` is not `ACTIVE`.",
    "PAYMENT_METHOD_EXPIRED": "The saved card has expired; nothing was charged. `advice` has what to do.",
    "PAYMENT_METHOD_LIMIT_REACHED": "The customer has 100 saved payment methods, the most that it may have: delete one, or "
    "send the card without `persist`.",
    "TOO_MANY_CARD_VERIFICATIONS": "20 verifications of the customer's cards have saved none within 24 hours, the most that "
    "may fail, or 100 could not be sent to the processor: try again later, or let the customer pay an order by the card with `persist`.",
    "INVALID_PAYMENT_METHOD_STATE": "The payment method does not wait for this step of its payer: read its `status` and "
    "`nextAction`.",
    "PAYMENT_METHOD_IN_USE": "A subscription is charged to the method: it is live, or has ended and its last invoice is "
    "still to be charged. `?force=true` deletes it anyway.",
    "CARD_DETAILS_IMMUTABLE": "Card details cannot be updated: pay with the new card and `persist`.",
    "PLAN_NOT_FOUND": "The merchant has no plan with this id or external id, or the plan is archived and the request "
    "needs an active one.",
    "PLAN_IN_USE": "A subscription has used the plan, so its amount, currency and period never change. `field` names "
    "the one that differs.",
    "SUBSCRIPTION_NOT_FOUND": "The merchant has no subscription with this id or external id.",
    "SUBSCRIPTION_INVOICE_NOT_FOUND": "The merchant has no subscription invoice with this id.",
    "EVENT_NOT_FOUND": "The merchant has no event with this id.",
    "REPORT_TOO_LARGE": "The report would be of more orders than one request folds or counts: `orders` is how many. Ask "
    "as of a later time, or look in the file that the operator's `ledger export` writes.",
    "VERSION_NOT_FOUND": "The resource has fewer events than `version`: `message` has its newest one.",
    "LOG_EMPTY": "The merchant's log has no checkpoint yet: the worker signs the first one some seconds after the merchant "
    "exists.",
    "ENTRY_NOT_FOUND": "The merchant's log has no event at this position.",
    "ENTRY_NOT_SEALED": "No checkpoint has the event yet. Ask again after the seconds in `Retry-After`.",
    "CHECKPOINT_NOT_FOUND": "No checkpoint was signed at this `size`: leave it out for the newest one.",
    "TILE_NOT_FOUND": "The tree of the merchant's log has no tile at this path, or not of this width yet.",
    "LOG_CHANGED": "An event of the merchant's log was changed or removed in the database after a checkpoint had it. The "
    "operator of the service has to restore it.",
    "AUDIT_RUNNING": "An audit of the merchant waits or runs: wait for its end, which `GET /v1/audits` shows.",
    "AUDIT_NOT_FOUND": "The merchant has no audit with this id, or a hundred newer ones.",
    "DATA_KEY_UNAVAILABLE": "The record cannot be opened: the service lacks the key under which it is sealed, or it was "
    "damaged. The operator has to bring the key back; nothing was changed.",
    "FILE_MISSING": "A file is missing from the store of the service, or was changed: that of a stamped document, or one "
    "with archived events of the record. The operator has to bring it back; the request, and the link to a document, "
    "work again then.",
    "FEED_BEHIND": "The feed does not have all events yet: the merchant's past is being numbered for the first time, or "
    "its log cannot be read to its end. Ask again after the seconds in `Retry-After`.",
    "SUBSCRIPTION_CANCELED": "The subscription has ended, which is final: create another one.",
    "TOO_MANY_PENDING_LINES": "100 lines of changes of plan wait for the subscription's next invoice, the most that may "
    "wait: invoice the change now, or change the plan without proration or in the next period.",
    "NO_NEXT_INVOICE": "The subscription ends with its current period and nothing is left to invoice: resume it, or give "
    "it another plan.",
    "CURRENCY_MISMATCH": "The plan is in another currency than the subscription was charged in, or than the card can pay.",
    "PROCESSOR_ACCOUNT_EXISTS": "The merchant has an account with another processor under this name, or the key is of "
    "another account at the processor: connect that one under another name.",
    "PROCESSOR_ACCOUNT_KEYS_ERASED": "A payment of the order was made at an account that was disconnected so long ago that "
    "its keys are erased. Nothing was sent: connect the account again with a key of its own, and repeat the request.",
    "PROCESSOR_ACCOUNT_LIMIT_REACHED": "The merchant has 20 accounts with processors, disconnected ones included, the most "
    "that it may have.",
    "WEBHOOK_ENDPOINT_DISABLED": "The webhook endpoint is DISABLED, and nothing is posted to it: enable it by `PUT` first.",
    "REPLAY_IN_PROGRESS": "Events that were asked for again have not all been delivered to the endpoint yet: wait until "
    "`GET …/deliveries?status=PENDING` has none of them.",
    "WEBHOOK_ENDPOINT_LIMIT_REACHED": "The merchant has 16 webhook endpoints, the most that it may have.",
    "PROCESSOR_KEY_REFUSED": "The processor does not accept the secret key. `message` has its own words; nothing was "
    "stored.",
    "API_KEY_NOT_FOUND": "The merchant has no API key with this id.",
    "API_KEY_NOT_ACTIVE": "The API key is revoked or has expired, so it cannot be rotated: create another key.",
    "MERCHANT_CLOSED": "An operator has closed the merchant: no API key is issued for it any more.",
    "API_KEY_LIMIT_REACHED": "The merchant has 100 valid API keys, the most that it may have: revoke one.",
    "LAST_API_KEY": "No other API key with the scope `keys` has every scope in use and is valid for another day. Create "
    "such a key first; the service's operator can revoke every key.",
    "METHOD_NOT_ALLOWED": "The address does not accept this method. `Allow` lists the methods that it accepts.",
    "REQUEST_TIMEOUT": {
        408: "The body did not arrive in time: send the request again.",
        503: "The answer took longer than `LEDGER_REQUEST_TIMEOUT_S`. The request may still be carried out: send "
        "it again with the same `externalId` to get its result.",
    },
    "ORDER_NOT_PAYABLE": "The order's status, `currentStatus`, does not allow a payment. "
    "`allowedStatuses` are those that do.",
    "DUPLICATE_EXTERNAL_ID": "The order with this `externalId` was cancelled, or another customer, plan or "
    "subscription has or had this `externalId`.",
    "IDEMPOTENCY_MISMATCH": "An earlier request with the same `externalId` had another amount or "
    "currency. `field` names the "
    "one that differs.",
    "IDEMPOTENCY_KEY_REUSED": "The same `Idempotency-Key` was used before with another request.",
    "REQUEST_IN_PROGRESS": "A request with the same `Idempotency-Key` is being carried out. Send the "
    "request again after a "
    "second.",
    "PARTIALS_NOT_ALLOWED": "The order was created without `allowPartials`: pay it with `charge`.",
    "PAYMENT_NOT_FOUND": "The order has no payment with this id.",
    "REFUND_NOT_FOUND": "The order has no refund with this id.",
    "AMOUNT_MISMATCH": "A store accepts only the exact amount of a cash reference, `expectedAmount`. Sandbox only.",
    "INVALID_ORDER_STATE": "The status of the order or of the payment, `currentStatus`, does not allow the operation. "
    "`allowedStatuses` are those that do.",
    "ORDER_HAS_CAPTURED_FUNDS": "The order holds captured money: refund the order, or cancel it with `refundCaptured`.",
    "ORDER_INVOICED": "The invoice of the order is stamped, or being stamped, and states what the request would change: "
    "cancel the invoice first.",
    "ORDER_NOT_REFUNDABLE": "Nothing was captured, or the request names a payment that is disputed or holds no "
    "captured money.",
    "REFUND_IN_PROGRESS": "A refund of the same payment has no outcome yet. Send the request again later.",
    "REFUND_AMOUNT_EXCEEDS_BALANCE": "The amount exceeds the money that is held and not disputed. `refundableAmount` is "
    "the amount that can be refunded: 0 where all of it is disputed.",
    "REFUND_WINDOW_EXPIRED": "The card was charged too long ago for a refund.",
    "CAPTURE_EXCEEDS_AUTHORIZED": "The amount exceeds the rest of the authorisation, which is `authorizedAmount`.",
    "PAYER_AUTHENTICATION_FAILED": "The payer failed the challenge, and the payment failed.",
    "AMOUNT_NOT_CHARGEABLE": "The amount has a fraction of a centavo, which an invoice could not state: the order has fiscal data, or "
    "the customer of a new subscription. Or the processor moves no fraction; or a change of plan would have more wait for the next invoice than one payment "
    "can have. Nothing was charged or recorded.",
    "FISCAL_DATA_INCOMPLETE": "A document lacks fiscal data, of its receiver or its issuer, or the order has lines with keys or rates that SAT's "
    "catalogues do not have. `errors` names every field.",
    "AMOUNT_NOT_STAMPABLE": "An amount has a fraction of a centavo, or is too small for its taxes. `field` names the part of the order.",
    "DOCUMENT_NOT_FOUND": "The order has no document with this id.",
    "INVOICE_NOT_READY": "The document, or every document that was asked for, is not stamped yet.",
    "INVOICE_IN_USE": "Payment receipts or credit notes refer to the invoice: cancel them first.",
    "ORDER_IN_GLOBAL_INVOICE": "A global invoice states the order, so that it gets no invoice of its own. `message` names the global "
    "invoice.",
    "GLOBAL_INVOICE_NOT_FOUND": "The merchant has no global invoice with this id.",
    "SELF_INVOICE_UNAVAILABLE": "The payer cannot request the order's invoice: it is not paid in full, was refunded or "
    "cancelled, or has its invoice already. `message` has the reason.",
    "CONCURRENT_UPDATE": "Too many requests change the same data at once. Nothing was changed: send the request again.",
    "BODY_TOO_LARGE": "The body exceeds `LEDGER_BODY_LIMIT`, or that of an import of products `LEDGER_IMPORT_BODY_LIMIT`.",
    "URI_TOO_LONG": "The path and the query together exceed 8 KiB.",
    "UNSUPPORTED_MEDIA_TYPE": "The body is not `application/json` in UTF-8, or it is compressed.",
    "HEADERS_TOO_LARGE": "The request has more than 100 headers, or more than 32 KiB of headers.",
    "AMOUNT_EXCEEDS_PENDING": "The amount exceeds the part of `amountPending` that is not reserved. "
    "`amountReserved` is the "
    "reserved part.",
    "CARD_TOKEN_INVALID": "No card can be charged by the token of `field`: its account is not connected, or its processor "
    "does not know it, or it is used up. No order, payment or card was recorded. A payment method of Stripe (`pm_…`) that "
    "was charged before without being kept is declined instead, because Stripe shows it only then: the order is FAILED "
    "with the `declineCode` CARD_TOKEN_INVALID, no bank was asked, and the same order takes a new token.",
    "METHOD_NOT_ENABLED": "The merchant does not accept this payment method, or none of its accounts with processors "
    "takes it in the order's currency and amount. `accounts` has the reason of each account, `amountMin` and `amountMax` "
    "the amounts that would be taken.",
    "PAYMENT_DECLINED": "The issuer declined the payment or a card that was to be saved, or the service abandoned the "
    "payment. `declineCode` is the reason.",
    "RISK_REJECTED": "Risk rules refused the payment, or a card that was to be saved, before the issuer was asked. The body "
    "is that of a decline.",
    "INSTALLMENTS_NOT_AVAILABLE": "The card's bank does not offer `paymentMethod.installments`, and nothing was charged. "
    "`available` has the numbers of months that it offers, none if the list is empty. The body is that of a decline.",
    "RATE_LIMIT_EXCEEDED": "The key has used up its requests. `Retry-After` is the number of seconds "
    "until one is allowed again.",
    "INTERNAL_ERROR": "An error in the service. Its log has the details under the `requestId`.",
    "PROCESSOR_UNAVAILABLE": "The processor could not be reached. Nothing was sent to it; the order has "
    "the payment as FAILED, and the answer names the order. The same request tries again. Or the processor did not show "
    "the card of a token, and there is no order. Or it did not answer whether it accepts the key of an account; nothing "
    "was stored.",
    "DATABASE_UNAVAILABLE": "The database is unavailable, or too many commands wait. Send the request "
    "again with the same "
    "`externalId` to get the result of the first attempt.",
}

FIELD_WORDS: Final[Mapping[str, str]] = {
    "REQUIRED": "It is missing.",
    "INVALID_TYPE": "It has another JSON type.",
    "INVALID_FORMAT": "It does not have the required form.",
    "INVALID_VALUE": "It cannot have this value.",
    "INVALID_LENGTH": "It is too long, too short, or nested too deeply.",
    "INVALID_ENCODING": "It is not UTF-8.",
    "INVALID_JSON": "The body is not JSON.",
    "INVALID_CARD_NUMBER": "The card number fails Luhn's check.",
    "INVALID_CLABE": "It is not a CLABE of 18 digits with a correct check digit.",
    "CARD_DETAILS_IMMUTABLE": "It is a detail of a saved card, which cannot be changed.",
    "CARD_EXPIRED": "The card's month has passed.",
    "READ_ONLY": "Only the operator of the service can change it, or it is fixed when the order is created.",
    "OUT_OF_RANGE": "The number or the time is outside the bounds.",
    "FRACTION_NOT_ALLOWED": "The amount has a fraction of a centavo, and the merchant's `fractionalAmounts` is false.",
    "LINE_ITEMS_SUM": "The lines do not add up to the amount.",
    "CONFLICTING_FIELDS": "It came twice, or under two names, with different values.",
    "DUPLICATE_FIELD": "The object has it twice: send it once.",
    "DUPLICATE_ID": "An earlier product of the import has the same id.",
    "UNKNOWN_PARAMETER": "The operation has no such parameter.",
    "UNKNOWN_FIELD": "It does not exist, and a field at the same place has almost the same name, or it has an "
    "effect elsewhere, or it chooses what other operations act on, or the merchant's `unknownFields` is REJECT.",
    "CARD_NUMBER_NOT_ACCEPTED": "It is a card's number or security code, and the merchant takes tokens alone.",
    "CARD_NUMBER_NOT_ALLOWED": "It contains a card number.",
    "SECURITY_CODE_NOT_ALLOWED": "It contains a card's security code.",
}
"""What each code of a single field means."""

WARNING_WORDS: Final[Mapping[WarningCode, str]] = {
    WarningCode.UNKNOWN_FIELD: "The field does not exist and had no effect. A merchant whose `unknownFields` is REJECT gets "
    "400 instead.",
    WarningCode.READ_ONLY: "The resource has the field, and the operation does not change it: it was sent with another value "
    "than it has.",
    WarningCode.DUE_DATE_IN_PAST: "The due date had passed when it was set: the order is overdue at once.",
    WarningCode.FRACTION_OF_MINOR_UNIT: "The amount has a fraction of a centavo, as if it were in pesos: `message` has what "
    "it means, and what to send if pesos are meant. A merchant whose `fractionalAmounts` is false gets 400 instead.",
    WarningCode.NOT_IN_SAT_CATALOG: "SAT's catalogues do not have the key or the rate of a line: the order could not be "
    "invoiced. With fiscal data it is 400 instead.",
    WarningCode.RFC_CHECK_DIGIT: "The check digit of the RFC does not fit: check it. SAT has registered a few such numbers.",
    WarningCode.DESTINATION_NOT_USED: "No money of the refund goes to the account: it goes back to the card, or the refund "
    "was there already and keeps its account.",
}
"""What each code of a warning means."""

ADVICE_WORDS: Final[Mapping[Advice, str]] = {
    Advice.RETRY_LATER: "The same payment may go through in a while.",
    Advice.RETRY_WITH_OTHER_METHOD: "Ask the payer for another card or method.",
    Advice.FIX_DATA: "Correct the card's data: a detail is mistyped or out of date.",
    Advice.DO_NOT_RETRY: "Do not send this card again.",
}
"""What a merchant should do, by the advice of a decline."""


def words(code: str, status: int) -> str:
    """Returns the words for a code that comes with this status."""
    text = WORDS[code]
    return text if isinstance(text, str) else text[status]
