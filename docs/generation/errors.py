"""`errors.md`: every error code, its status, and when it comes.

Codes and statuses come from the code: from the table of rejections, from the errors of the `api` package and from those of the
connections below it. This module has only words. A code without words, or words without a code, stop the generation.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from docs.generation.markdown import block, code, table
from docs.generation.markdown import page as markdown_page

import api
from api.decoding.field_warnings import WarningCode
from api.http.error_responses import STATUS
from api.openapi.error_descriptions import ADVICE_WORDS, FIELD_WORDS, WARNING_WORDS, WORDS, words
from ledger.domain.orders.declines import DECLINES
from ledger.service.http.http_messages import PROTOCOL_ERRORS

API = Path(api.__file__).parent

# Codes of answers without an `ApiError` with a literal status and without a `Rejected`.
_ELSEWHERE: Mapping[str, tuple[int, ...]] = {
    "VALIDATION_ERROR": (400,),
    "CONFLICTING_FIELDS": (400,),
    "UNKNOWN_FIELD": (400,),
    "UNKNOWN_PARAMETER": (400,),
    "CARD_NUMBER_NOT_ALLOWED": (400,),
    "SECURITY_CODE_NOT_ALLOWED": (400,),
    "PAYMENT_DECLINED": (422,),
    "INSTALLMENTS_NOT_AVAILABLE": (422,),
    "RISK_REJECTED": (422,),
    "RATE_LIMIT_EXCEEDED": (429,),
    "INTERNAL_ERROR": (500,),
    "PROCESSOR_UNAVAILABLE": (503,),
    "DATABASE_UNAVAILABLE": (503,),
    "REQUEST_TIMEOUT": (408, 503),
    "FEED_BEHIND": (503,),
    "DATA_KEY_UNAVAILABLE": (503,),
    "FILE_MISSING": (503,),
}

_SHAPE = """
{
  "message": "amount is required.",
  "code": "VALIDATION_ERROR",
  "requestId": "req-710f82784f337f2f-00000004",
  "docUrl": "https://pay.example.com/docs/errors#VALIDATION_ERROR",
  "errors": [{ "field": "amount", "message": "is required", "code": "REQUIRED" }]
}
"""

_DECLINE_SHAPE = """
{
  "message": "The card has insufficient funds.",
  "code": "PAYMENT_DECLINED",
  "requestId": "req-710f82784f337f2f-00000004",
  "docUrl": "https://pay.example.com/docs/errors#PAYMENT_DECLINED",
  "payerMessage": "La tarjeta no tiene fondos suficientes.",
  "declineCode": "INSUFFICIENT_FUNDS",
  "retryable": true,
  "advice": "RETRY_WITH_OTHER_METHOD",
  "id": "01a1f8e3-3e4a-7525-a048-fe0093cb03d7",
  "externalId": "TAZA-1",
  "status": "FAILED",
  "paymentOrder": { "id": "01a1f8e3-3e4a-7525-a048-fe0093cb03d7", "status": "FAILED" }
}
"""


def page() -> str:
    """Returns the page as it should be."""
    statuses = known_codes()
    assert statuses.keys() == WORDS.keys(), f"codes and words differ: {sorted(statuses.keys() ^ WORDS.keys())}"
    rows = sorted((status, name) for name, found in statuses.items() for status in found)
    declines = [(code(d.code), "yes" if d.retryable else "no", code(d.advice), d.message) for d in DECLINES.values()]
    return markdown_page(
        "Errors",
        "Every answer except a 2xx has this shape. Only a 400 has `errors`. Codes are permanent; messages are for people and "
        "may change. Match on `code`. `docUrl` leads to the code on a page that the service serves at `/docs/errors`; it has this table.",
        block(_SHAPE, "json"),
        "Some answers carry facts beside these fields, such as `currentStatus`. [N72](contract.md#n72) gives the order in which "
        "a request is checked: a client without a key learns nothing about a body.",
        "## Codes",
        table(("status", "code", "when"), [(str(status), code(name), words(name, status)) for status, name in rows]),
        "A 503 carries `Retry-After`. A 429 has, beside the fields above, the object "
        '`"error": {"code", "message", "retryAfter"}`.',
        "## Codes of single fields",
        table(("code", "meaning"), sorted((code(name), FIELD_WORDS[name]) for name in _field_codes())),
        "## Codes of warnings",
        "A request with a body that is carried out may be answered with `warnings`, a list of `{field, code, message}`: fields "
        "that were accepted and probably mean something else than their author expects. A repeated request gets the same. An "
        "answer without the list has no warning.",
        table(("code", "meaning"), [(code(name), WARNING_WORDS[name]) for name in sorted(WarningCode)]),
        "## Declines",
        "A declined payment is answered 422, and the order exists: it has the failed payment and can be read "
        "([N24](contract.md#n24)). `paymentOrder` is the whole order; it is shortened here.",
        block(_DECLINE_SHAPE, "json"),
        table(("declineCode", "retryable", "advice", "message"), declines),
        table(("advice", "what to do"), [(code(advice), words) for advice, words in ADVICE_WORDS.items()]),
        "`retryable` is true where the same card, unchanged, may be approved another time. A processor's code without a "
        "counterpart in this table is shown as `GENERIC_DECLINE`.",
    )


def known_codes() -> dict[str, tuple[int, ...]]:
    """Returns every code with its statuses."""
    found: dict[str, set[int]] = {name: set(statuses) for name, statuses in _ELSEWHERE.items()}
    for status, (name, _) in PROTOCOL_ERRORS.items():
        found.setdefault(name, set()).add(status)
    for rejection, status in STATUS.items():
        found.setdefault(rejection.code, set()).add(status)
    for call in _calls("ApiError"):
        match call.args[:2]:
            case [ast.Constant(value=int(status)), ast.Constant(value=str(name))]:
                found.setdefault(name, set()).add(status)
    spelled = {name for name in _constants() if name in WORDS or name.endswith(("_NOT_FOUND", "_UNAVAILABLE"))}
    assert spelled <= found.keys(), f"codes without a status: {sorted(spelled - found.keys())}"
    return {name: tuple(sorted(statuses)) for name, statuses in found.items()}


def _field_codes() -> set[str]:
    """Returns the codes of `errors[]`: the third argument of `invalid`, `FieldError` and `InvalidField`, its default, and
    those of whole errors about fields, and that of an import.
    """
    found = {
        "INVALID_VALUE",
        "CONFLICTING_FIELDS",
        "CARD_NUMBER_NOT_ACCEPTED",
        "CARD_NUMBER_NOT_ALLOWED",
        "SECURITY_CODE_NOT_ALLOWED",
        "DUPLICATE_ID",
        "UNKNOWN_FIELD",
        "UNKNOWN_PARAMETER",
    }
    for call in (call for name in ("invalid", "FieldError", "InvalidField") for call in _calls(name)):
        found |= {argument.value for argument in call.args[2:3] if isinstance(argument, ast.Constant)}
    assert found == FIELD_WORDS.keys(), f"field codes and words differ: {sorted(found ^ FIELD_WORDS.keys())}"
    return found


def _calls(name: str) -> Iterator[ast.Call]:
    for node in _nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def _constants() -> Iterator[str]:
    for node in _nodes():
        match node:
            case ast.Constant(value=str(text)) if re.fullmatch("[A-Z_]{4,}", text):
                yield text


@cache
def _nodes() -> Sequence[ast.Call | ast.Constant]:
    """Returns the calls and constants of all modules of the interface, which are read once."""
    return [
        node
        for path in sorted(API.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call | ast.Constant)
    ]
