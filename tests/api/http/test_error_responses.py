"""The answers to rejections, errors and failures, as the contract has them."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.api.bodies import APPROVED
from tests.sources import nodes

import ledger
from api.errors import ApiError, TooManyRequests, card_number_in, conflicting, invalid, method_not_allowed
from api.http.error_responses import STATUS, Conflict, error_response
from api.response import ApiResponse
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.rejections import (
    AmountExceedsPending,
    InvalidField,
    OrderNotPayable,
    Rejected,
    SelfInvoiceUnavailable,
)
from ledger.journal.append import CommitUnknown, DataRefused
from ledger.postgres.faults import DatabaseUnavailable, QueueFull
from ledger.processors.contract import ProcessorUnavailable

SOURCES = Path(ledger.__path__[0]).parent


def said(answer: ApiResponse) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(answer.body)
    return content


def rejections(of: type[Rejected] = Rejected) -> set[type[Rejected]]:
    return {kind for sub in of.__subclasses__() for kind in {sub} | rejections(sub)}


def test_every_rejection_of_the_domain_has_a_status():
    for module in pkgutil.walk_packages(ledger.__path__, "ledger."):
        if not module.name.startswith("benchmarks"):
            importlib.import_module(module.name)
    assert set(STATUS) == rejections()
    assert set(STATUS.values()) <= {400, 401, 404, 409, 422}


@pytest.mark.parametrize("kind", sorted(STATUS, key=lambda kind: kind.__name__))
def test_a_refusal_is_answered_with_its_status_code_and_message(kind: type[Rejected]):
    if kind is InvalidField:
        rejected: Rejected = InvalidField("Too", "much")
    elif kind is SelfInvoiceUnavailable:
        rejected = SelfInvoiceUnavailable("Too much.", "open")
    else:
        rejected = kind("Too much.")
    answer = error_response(rejected, "r-1")
    assert answer.status == STATUS[kind]
    body = said(answer)
    assert (body["message"], body["code"], body["requestId"]) == ("Too much.", kind.code, "r-1")
    assert ("errors" in body) == (answer.status == 400)


def test_codes_are_unique():
    codes = [kind.code for kind in STATUS]
    assert len(codes) == len(set(codes))


def test_facts_are_members_beside_the_message():
    rejected = AmountExceedsPending("Too much.", amountPending=Decimal("1E+4"), amountReserved=Decimal("0.50"))
    body = error_response(rejected, "r").body
    assert b'"amountPending":10000' in body
    assert b'"amountReserved":0.5' in body
    allowed = frozenset({OrderStatus.PENDING, OrderStatus.FAILED})
    refused = OrderNotPayable("No.", currentStatus=OrderStatus.COMPLETED, allowedStatuses=allowed)
    assert said(error_response(refused, "r"))["allowedStatuses"] == ["FAILED", "PENDING"]


def test_every_fact_of_a_rejection_is_a_field_of_the_answer():
    names = {kind.__name__ for kind in STATUS}
    facts = {
        keyword.arg
        for _, call in nodes(*(f"{name}(" for name in names))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in names and call.args  # events have no message
        for keyword in call.keywords
    }
    assert len(facts) > 5
    assert facts <= set(Conflict.__struct_encode_fields__)


def test_a_fact_cannot_replace_the_message():
    assert said(error_response(OrderNotPayable("No.", code="X", requestId="Y"), "r"))["code"] == "ORDER_NOT_PAYABLE"


def test_a_field_of_the_domain_is_named_like_any_other():
    body = said(error_response(InvalidField("amount", "must be even"), "r"))
    assert body["message"] == "amount must be even."
    assert body["errors"] == [{"field": "amount", "message": "must be even", "code": "INVALID_VALUE"}]


def test_two_fields_that_exclude_each_other_do_not_differ():
    page, offset = conflicting(
        "page", "offset", "cannot be sent together, because each of them sets where the page begins"
    ).errors
    assert (page.field, page.message) == ("page", "must not be sent together with offset")
    assert (offset.field, offset.message) == ("offset", "must not be sent together with page")
    assert conflicting("items", "lineItems").errors[0].message == "differs from lineItems"


def test_what_is_wrong_with_a_field_completes_its_name():
    """As in "amount" "must be even": without a capital and a full stop, wherever it is raised."""
    problems = [
        (path.name, text)
        for path, call in nodes("InvalidField(", "invalid(")
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in {"InvalidField", "invalid"}
        for text in [ast.unparse(call.args[1]).lstrip("f").strip("'\"")]
    ]
    assert len(problems) > 60
    assert [each for each in problems if each[1][0].isupper() or each[1].endswith(".")] == []


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (invalid("amount", "must be greater than 0"), "VALIDATION_ERROR"),
        (conflicting("items", "lineItems"), "CONFLICTING_FIELDS"),
        (card_number_in("description"), "CARD_NUMBER_NOT_ALLOWED"),
    ],
)
def test_a_400_lists_its_fields(refusal: ApiError, code: str):
    answer = error_response(refusal, "r")
    body = said(answer)
    assert (answer.status, body["code"]) == (400, code)
    assert body["errors"]
    assert all(set(error) == {"field", "message", "code"} for error in body["errors"])


def test_a_405_says_what_is_allowed():
    answer = error_response(method_not_allowed("POST", "GET"), "r")
    assert (answer.status, dict(answer.headers)[b"allow"]) == (405, b"GET, POST")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (DatabaseUnavailable("down"), "DATABASE_UNAVAILABLE"),
        (QueueFull("full"), "DATABASE_UNAVAILABLE"),
        (CommitUnknown("ended"), "DATABASE_UNAVAILABLE"),
        (ProcessorUnavailable("down"), "PROCESSOR_UNAVAILABLE"),
        (TimeoutError(), "REQUEST_TIMEOUT"),
    ],
)
def test_a_fault_is_a_503_that_says_when_to_come_back(fault: Exception, code: str):
    answer = error_response(fault, "r")
    assert (answer.status, said(answer)["code"]) == (503, code)
    assert int(dict(answer.headers)[b"retry-after"]) > 0


def test_a_429_carries_the_rate():
    answer = error_response(
        TooManyRequests("Too many requests with this API key", 7, ((b"ratelimit-remaining", b"0"),)), "r"
    )
    assert said(answer)["error"]["retryAfter"] == 7
    assert dict(answer.headers) == {b"retry-after": b"7", b"ratelimit-remaining": b"0"}


def test_an_unexpected_failure_is_answered_with_its_request_id_only():
    with structlog.testing.capture_logs() as logs:
        try:
            int(APPROVED + "x")
        except ValueError as failure:
            answer = error_response(failure, "r-7")
    assert answer.status == 500
    assert said(answer)["code"] == "INTERNAL_ERROR"
    assert said(answer)["requestId"] == "r-7"
    assert APPROVED not in answer.body.decode() + json.dumps(logs)
    assert "ValueError" not in answer.body.decode()
    assert (logs[0]["request_id"], logs[0]["reason"]) == ("r-7", "ValueError")
    assert "test_error_responses.py" in logs[0]["at"][0]


def test_a_value_that_only_the_database_refuses_is_the_senders_fault():
    with structlog.testing.capture_logs() as logs:
        answer = error_response(DataRefused("22P05"), "r")
    assert (answer.status, said(answer)["errors"][0]["field"]) == (400, "body")
    assert logs, "it is a gap in our validation too"
