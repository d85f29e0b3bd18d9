"""What an audit lists first, and its page."""

import re
from pathlib import Path
from uuid import UUID

import pytest

import ledger.audit
from ledger.audit.page import RULES, render_page
from ledger.audit.report import LISTED_MAX, ROW, TREE, Findings, Report, Sealed, Violation

MERCHANT = UUID("01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44")
KEY = "127.0.0.1/v1/log/01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44+8bcb4ac5+AeaUYvjcUB+Uwct27kdGPqqqc6TiyW7k/OofB0H9LSSJ"


def violation(rule, order_id=None):
    return Violation(invariant=rule, merchant_id=MERCHANT, message=f"{rule} does not hold", order_id=order_id)


def report_of(*violations):
    from datetime import UTC, datetime

    sealed = [Sealed(merchant_id=MERCHANT, size=7, checkpoint="the checkpoint\n", keys=[KEY], outside=12345)]
    return Report(
        snapshot_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
        merchants=1,
        events=7,
        orders=1,
        rows=9,
        seconds=0.1,
        sealed_to=sealed,
        violations_total=len(violations),
        violations=violations,
    )


def test_what_is_wrong_with_the_log_is_listed_before_what_follows_from_it():
    findings, more = Findings(), Findings()
    for _ in range(LISTED_MAX + 5):
        findings.add(violation(ROW))
    more.add(violation(ROW))
    more.add(violation(TREE))
    findings.merge(more.total, more.listed)
    assert findings.total == LISTED_MAX + 7
    assert [each.invariant for each in findings.listed] == [TREE] + [ROW] * (LISTED_MAX - 1)


def test_a_changed_text_of_any_length_makes_no_report_of_any_length():
    findings = Findings()
    long = Violation(
        invariant="ROW", merchant_id=UUID(int=1), message="é" * 2000, expected="x" * 1000, found="y" * 10**6
    )
    findings.add(long)
    (kept,) = findings.listed
    assert (kept.message, kept.expected, kept.found) == ("é" * 1000 + "…", "x" * 1000, "y" * 1000 + "…")


def test_every_rule_is_explained():
    named = set()
    for module in Path(ledger.audit.__file__).parent.rglob("*.py"):
        named |= set(re.findall(r'"([ISV][0-9]+|TREE|EVENT|ROW|PROCESSOR)"', module.read_text(encoding="utf-8")))
    assert named <= RULES.keys()
    assert len(named) > 10


@pytest.mark.parametrize(("number", "verdict"), [(0, "No violation."), (1, "1 violation."), (2, "2 violations.")])
def test_a_page_has_the_keys_and_explains_the_rules_that_do_not_hold(number, verdict):
    page = render_page(report_of(*[violation(ROW, MERCHANT)] * number), "https://ledger.example/api")
    assert verdict in page
    assert KEY in page
    assert "12,345" in page
    assert page.count(RULES[ROW]) == min(number, 1)
    assert RULES[TREE] not in page
    assert page.count(f'href="https://ledger.example/api/v2/payment-orders/{MERCHANT}/events"') == number
