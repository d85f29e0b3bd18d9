"""A short run of `python -m campaigns fuzz`, with the same requests every time."""

from __future__ import annotations

import re

import pytest
from campaigns.fuzz.corpus import judge, send_all
from campaigns.fuzz.running import fuzzed

# Their bounds make two thirds of all requests, and are sent by name below and in tests/api; of the two helpers, each request takes
# half a second. `make fuzz` covers them.
LONG = (
    "createPaymentOrder",
    "chargePaymentOrder",
    "addPayment",
    "listPaymentOrders",
    "createCustomer",
    "changeCustomer",
    "listCustomers",
    "moveClock",
    "reportDispute",
)


@pytest.mark.long
def test_the_service_answers_as_it_describes_whatever_it_is_asked():
    status, report = fuzzed(["--max-examples", "5", "--seed", "20261120"], patience_s=540, uncovered=LONG)
    assert status == 0, report
    tested = re.search(r"Selected: (\d+)/\1\n\s+Tested: \1\n", report)
    assert tested, report
    sent = re.search(r"(\d+) generated, \1 passed", report)
    assert sent, report
    assert int(sent[1]) > 700


@pytest.mark.long
def test_every_malformed_request_is_refused_correctly():
    found = send_all(passes=1)
    assert found.wrong == []
    assert len(found.sent) > 300
    assert {each.status for each in found.sent} == {400, 401, 413, 415, 431}


def test_an_id_of_ours_is_no_card_number_whatever_its_digits():
    answer = b'HTTP/1.1 400 X\r\n\r\n{"message":"","code":"BAD_REQUEST","requestId":"req-%s"}'
    assert judge(answer % b"424242424242424242424242") == (400, [])
    assert judge(answer % b"4242424242424242-00000001") == (400, [])


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (b"", "there is no answer"),
        (b"HTTP/1.1 500 X\r\n\r\n{}", "it was answered with 500"),
        (b"HTTP/1.1 400 X\r\n\r\n<p>", "the answer is no JSON"),
        (b'HTTP/1.1 400 X\r\n\r\n{"message":"4242424242424242"}', "the answer repeats what was sent"),
        (b'HTTP/1.1 400 X\r\n\r\n{"requestId":"4242424242424242"}', "the answer repeats what was sent"),
        (b'HTTP/1.1 400 X\r\n\r\n{"message":"","code":"VALIDATION_ERROR","requestId":""}', "the answer lacks errors"),
    ],
)
def test_a_wrong_answer_is_found_out(answer: bytes, wrong: str):
    assert wrong in judge(answer)[1]
