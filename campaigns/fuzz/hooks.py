"""The refusals that Schemathesis may see although the description allows the request: rules between several fields.

Excuse a refusal by its exact words, each with its reason. Any other refusal of an allowed request, and every 5xx, is a failure.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.openapi.checks import RejectedPositiveData
from tests.api.bodies import by_card, card, order, paid_order
from tests.api.payer import CHALLENGED, FRICTIONLESS

# "status code", for a 400 followed by " field-code field message": why a request that fits the description may be refused so.
EXCUSED = {
    r"400 CONFLICTING_FIELDS .*": "two names of one field may not differ, which a description cannot express",
    r"400 VALIDATION_ERROR REQUIRED .*": "which fields are required depends on other fields: either of two names, the type",
    r"400 VALIDATION_ERROR LINE_ITEMS_SUM .*": "the lines add up to the amount",
    r"400 VALIDATION_ERROR INVALID_CARD_NUMBER .*": "a card number's last digit follows from the others",
    r"400 VALIDATION_ERROR CARD_EXPIRED .*": "whether a month has passed depends on the day",
    r"400 VALIDATION_ERROR OUT_OF_RANGE \S*(amount(Min|Max)?|quantity|unitPrice|discount|rate) .*": "a number is written with few "
    "decimals and no exponent, and schemas do not describe how a number is written",
    r"400 VALIDATION_ERROR OUT_OF_RANGE (from must not be above to|size must be at least the position).*": "the bound of one parameter "
    "is another one",
    r"400 VALIDATION_ERROR OUT_OF_RANGE dueDate .*": "an order is due in the years 1970 to 2999",
    r"400 VALIDATION_ERROR INVALID_VALUE intervalCount .*": "a period has at most three years, whatever its unit",
    r"400 VALIDATION_ERROR INVALID_\w+ (\S*\.exp\w+|times|settings\.\w+|\w+(Count|Days|Retries|Hours|Seconds|Sequence)) must be a whole number.*": "a schema's integer may be written 12.0",
    r"400 VALIDATION_ERROR INVALID_FORMAT \S*[eE]mail .*": "some addresses of the right form cannot exist",
    r"400 VALIDATION_ERROR INVALID_FORMAT .* (printable|control) characters": "Unicode decides which characters are printable",
    r"400 VALIDATION_ERROR INVALID_VALUE \S*cvc is for a saved card alone.*": "a token has the code, and a number its own",
    r"400 VALIDATION_ERROR INVALID_VALUE amount .*": "only some orders are paid in parts, and in multiples of a step",
    r"400 VALIDATION_ERROR INVALID_VALUE paymentMethod\.type must be card.*": "of the kinds of payment methods, cards are saved",
    r"400 VALIDATION_ERROR \w+ (month|firstDay|periodicity) .*": "a global invoice is of a period that has ended, whose days "
    "follow from its length",
    r"400 (VALIDATION_ERROR|UNKNOWN_FIELD) UNKNOWN_FIELD .* (has an effect elsewhere|chooses .* elsewhere|did you mean).*": "any other member is "
    "accepted, and a description lists no names that are refused",
    r"400 (VALIDATION_ERROR|UNKNOWN_FIELD) UNKNOWN_FIELD .* is unknown here and changes nothing": "a change has a field that it "
    "changes",
    r"400 VALIDATION_ERROR INVALID_VALUE fromSequence is .* above toSequence.*": "a range begins before it ends",
    r"400 VALIDATION_ERROR \w+ methods\[.*": "a method and currency is limited once, to what the processor takes",
    r"400 VALIDATION_ERROR INVALID_VALUE paymentMethod\.(persist|installments|cardTokens\S*) .*": "a card comes by its "
    "number or by its tokens, one for each account, and a card alone is paid in months",
    r"400 VALIDATION_ERROR INVALID_(VALUE|FORMAT) (processor|secretKey|webhookSecrets\S*|publishableKey) .*": "the processor decides "
    "which keys an account has, and their form",
    r"400 VALIDATION_ERROR INVALID_VALUE cursor .*": "a cursor has to be one that was answered",
    r"400 VALIDATION_ERROR (INVALID_VALUE|OUT_OF_RANGE) advance(To|By) .*": "a clock goes neither back nor beyond 2200",
    r"400 VALIDATION_ERROR INVALID_FORMAT advance(To|By) .*": "a format is only a hint, and a pattern may be followed by a line end",
    r"400 VALIDATION_ERROR (INVALID_VALUE|OUT_OF_RANGE|INVALID_FORMAT) (trialEnd|startDate) .*": "a subscription begins within two years",
    r"400 VALIDATION_ERROR (OUT_OF_RANGE|INVALID_FORMAT) asOf .*": "a read of the past is of a time that has been, and a format is "
    "only a hint",
    r"400 VALIDATION_ERROR INVALID_CLABE .*": "a CLABE's last digit follows from the others",
    r"400 VALIDATION_ERROR INVALID_VALUE allocations.*": "the allocations add up to the amount",
    r"400 VALIDATION_ERROR INVALID_VALUE (referenceId|authenticationTransactionId) .*": "a session has one id of each",
    r"400 VALIDATION_ERROR INVALID_VALUE (externalId|sourceId) .*": "a customer or a plan keeps its id, and no customer is its own source",
    r"400 (VALIDATION_ERROR )?SECURITY_CODE_NOT_ALLOWED .*": "the text decides what is a security code",
    r"400 VALIDATION_ERROR CARD_NUMBER_NOT_ALLOWED .*": "the same as the next, beside another error",
    r"400 VALIDATION_ERROR CONFLICTING_FIELDS .*": "the same as the first, beside another error",
    r"400 VALIDATION_ERROR INVALID_FORMAT (\S*\.)?returnUrl .*": "a format is only a hint, and a payer returns to an address of the web",
    r"400 VALIDATION_ERROR (INVALID_VALUE|OUT_OF_RANGE|INVALID_FORMAT) paidAt .*": "a payout lies between its refund and now",
    r"400 VALIDATION_ERROR (INVALID_VALUE|OUT_OF_RANGE|INVALID_FORMAT) expiresAt .*": "a key expires in the future",
    r"400 VALIDATION_ERROR INVALID_VALUE settings\.timeZone .*": "a database lists the time zones",
    r"400 VALIDATION_ERROR INVALID_VALUE settings\.surchargeRate .*": "schemas do not describe how a number is written",
    r"400 VALIDATION_ERROR INVALID_VALUE (lineItems|metadata|customerFiscalData) .*": "the order has the amount, the other "
    "metadata and the customer",
    r"400 VALIDATION_ERROR READ_ONLY settings\..*": "only the operator changes the rate limits",
    r"400 VALIDATION_ERROR INVALID_VALUE \S*\.(taxSystem|cfdiUse) .*": "the regime follows from the tax number, the use from the regime",
    r"400 VALIDATION_ERROR INVALID_VALUE \S*\.zipCode .*": "a catalogue lists the postal codes",
    r"400 VALIDATION_ERROR INVALID_VALUE (\S*\.)?(productKey|unitKey|taxes\[\d+\]\.(rate|factor)) .*": "catalogues list the products, "
    "the units and the rates of taxes",
    r"400 VALIDATION_ERROR \w+ (settings\.)?exchangeRate .*": "schemas do not describe how a number is written",
    r"400 VALIDATION_ERROR \w+ (certificate|privateKey|password|image) .*": "schemas do not describe what a file contains",
    r"400 VALIDATION_ERROR INVALID_VALUE settings\.reminderDays .*": "the same as a whole number, in a list",
    r"400 VALIDATION_ERROR INVALID_VALUE substitutedBy .*": "the motive of a cancellation decides whether it is needed",
    r"400 VALIDATION_ERROR (INVALID_FORMAT|URL_NOT_ALLOWED) url .*": "a format is only a hint, and events are posted to "
    "the public internet alone",
    r"400 VALIDATION_ERROR INVALID_VALUE resume .*": "it goes with the status ENABLED alone",
    r"422 WEBHOOK_ENDPOINT_LIMIT_REACHED": "a merchant has sixteen endpoints",
    r"413 BODY_TOO_LARGE": "a text may be longer than a body",
    r"422 FISCAL_DATA_INCOMPLETE.*": "the order may have the data that the request lacks",
    r"400 CARD_NUMBER_NOT_ALLOWED .*": "the check digit decides what is a card number",
    r"422 METHOD_NOT_ENABLED": "what this merchant may use",
    r"422 PAYMENT_DECLINED": "the bank decides",
    r"422 RISK_REJECTED": "the risk rules decide",
    r"422 REFUND_AMOUNT_EXCEEDS_BALANCE": "what can still be refunded",
    r"422 CAPTURE_EXCEEDS_AUTHORIZED": "what was authorised",
    r"422 PAYER_AUTHENTICATION_FAILED": "what the payer did",
    r"422 AMOUNT_EXCEEDS_PENDING": "what is still to be paid",
}

# Orders for links to start from: one for each action on an order.
STARTING_POINTS = (
    order(allowPartials=True),
    paid_order(),
    paid_order(captureMethod="MANUAL"),
    paid_order(paymentMethod=by_card(cardDetails=card(number=CHALLENGED))),
    paid_order(paymentMethod=by_card(cardDetails=card(number=FRICTIONLESS))),
    order(pending=False, paymentMethod={"type": "spei"}),
)

# What the body of a linked request takes of the answer. The published links have no body, which generators of clients refuse.
LINKED_BODIES = {
    "cancelInvoice": {"motive": "02"},
    "sendDeviceData": {"referenceId": "$response.body#/payerAuthentication/referenceId"},
    "validate": {"authenticationTransactionId": "$response.body#/payerAuthentication/authenticationTransactionId"},
    "contest": {"paymentId": "$response.body#/payment/id", "outcome": "OPENED"},
}

_DISABLING = {"paymentMethods", "requireMerchantHeader"}  # settings that would refuse most later requests

_AGO = timedelta(seconds=1)
_PAST_READS = count()
_NUMBERS = count(1)
_TURNS = count()


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Gives the links the bodies that they take of an answer."""
    for name, body in LINKED_BODIES.items():
        raw_schema["components"]["links"][name]["requestBody"] = body


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Gives every valid create an external id of its own, since otherwise nearly all would be answered with the first order.

    It also keeps the sandbox's processor up, the merchant's settings such that later requests are accepted, and every second
    valid read of the past at a time of this run: a generated time is of the future, or before there was anything.
    """
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if is_valid and case.query and "asOf" in case.query and next(_PAST_READS) % 2:
        case.query = case.query | {"asOf": (datetime.now(UTC) - _AGO).isoformat().replace("+00:00", "Z")}
    if isinstance(case.body, dict) and case.body.get("mode") in ("DOWN", "SLOW"):
        case.body = case.body | {"mode": "OK"}  # otherwise every later payment is correctly answered 503
    if isinstance(case.body, dict) and isinstance(case.body.get("settings"), dict):
        kept = {name: value for name, value in case.body["settings"].items() if name not in _DISABLING}
        case.body = case.body | {"settings": kept}
    is_create = case.operation.definition.raw.get("operationId") == "createPaymentOrder"
    if is_create and is_valid and case.meta.phase.name.value == "stateful":
        case.body = STARTING_POINTS[
            next(_TURNS) % len(STARTING_POINTS)
        ]  # a generated order is refused nearly always, and has no links
    if is_create and is_valid and isinstance(case.body, dict) and isinstance(case.body.get("externalId"), str):
        case.body = case.body | {"externalId": f"fuzzed-{next(_NUMBERS)}"}
        if "Idempotency-Key" in case.headers:
            case.headers["Idempotency-Key"] = f"fuzzed-{next(_NUMBERS)}"


@schemathesis.hook
def filter_failure(context: Any, failure: Failure, case: Any, response: Any) -> bool:
    """Returns whether a failure counts: all but valid requests that were refused for one of the reasons above.

    An import with wrong products is answered 200 with the errors of those products.
    """
    if isinstance(failure, AcceptedNegativeData) and case.operation.definition.raw["operationId"] == "importProducts":
        return bool(response.json()["success"])
    if not isinstance(failure, RejectedPositiveData):
        return True
    body = response.json()
    errors = body.get("errors", [])
    # The code of an answer about several fields is that of the first one.
    codes = {body["code"], "VALIDATION_ERROR"} if len(errors) > 1 else {body["code"]}
    refusals = [
        [f"{response.status_code} {code} {field['code']} {field['field']} {field['message']}" for code in codes]
        for field in errors
    ]
    return not all(map(_is_excused, refusals or [[f"{response.status_code} {body['code']}"]]))


def _is_excused(refusals: list[str]) -> bool:
    """Returns whether one of the ways to write a refusal is excused."""
    return any(re.fullmatch(excused, refusal) for excused in EXCUSED for refusal in refusals)
