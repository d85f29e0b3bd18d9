"""A report of an audit as a page of HTML without script, for a screen or a printer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from ledger.audit.report import Report, Sealed, Violation
from projections.report_pages import page, table

_SUMS: Final = "The sums of an order agree with its payments, after every event."
_DOCUMENTS: Final = "Electronic invoices, receipts and credit notes state no other money than the order's."
RULES: Final = {
    "TREE": "The log, its tiles and its checkpoints are what was signed. First of all, restore what is not.",
    "EVENT": "Every event can be decrypted, read and folded.",
    "ROW": "Every row follows from the log. Where the log is as it was signed, ledger rebuild writes a read model again.",
    **dict.fromkeys(("I1", "I2", "I3", "I4", "I5"), _SUMS),
    "I6": "The status of an order is the one that its payments give it.",
    "I7": "An order, its payments and a subscription move only along their tables.",
    **dict.fromkeys(("I8", "I9"), _DOCUMENTS),
    "I10": "Positions run from 1 to the end of the log, and the versions of each stream from 1.",
    "I11": "An external id has one order.",
    "I13": "No event has a card number.",
    "S1": "The periods of a subscription neither overlap nor leave a gap.",
    "S2": "A paid invoice has one order that captured its amount.",
    "S3": "One charge of a subscription is open at a time.",
    "V1": "Every saved card has its number in the vault, and no other number is there.",
    "PROCESSOR": "The accounts with processors list what the log has.",
}
"""What each rule demands, for people."""
_CHECKED: Final = (
    "Every event was read and folded. Every row of the read models, the claims, the counters and the data keys was "
    "compared with what follows from the events. The invariants were checked after every event. The events were "
    "compared with the signed log, and this one with its checkpoints."
)


def render_page(report: Report, base: str = "") -> str:
    """Returns the page of a report, with links to the histories of orders below `/v2` of the service at `base`."""
    counts = [
        ("Merchants", report.merchants),
        ("Events", report.events),
        ("Orders", report.orders),
        ("Rows compared", report.rows),
        ("Seconds", report.seconds),
        ("Violations", report.violations_total),
    ]
    total = report.violations_total
    verdict = "No violation." if report.is_clean else f"{total:,} violation{'' if total == 1 else 's'}."
    return page(
        "Audit",
        f"""\
<p class="note">As of {report.snapshot_at:%d %B %Y, %H:%M:%S} UTC. {escape(_CHECKED)}</p>
<p class="value">{escape(verdict)}</p>
{table(["What", "Number"], [[name, f"{number:,}"] for name, number in counts], 1, "terms")}
<h2>Signed logs</h2>
{_sealed(report.sealed_to)}
<h2>Violations</h2>
{_violations(report.violations, report.violations_total, base)}
""",
    )


def _sealed(logs: Iterable[Sealed]) -> str:
    rows = [
        [
            str(each.merchant_id),
            f"{each.size:,}",
            _block(each.checkpoint or ""),
            _block("\n".join(each.keys)),
            f"{each.outside:,}",
        ]
        for each in logs
    ]
    columns = ["Merchant", "Events", "Newest checkpoint", "Public keys", "Checkpoints outside the database"]
    return table(columns, rows, len(columns), "days") if rows else "<p>No log is signed yet.</p>"


def _block(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _violations(violations: Sequence[Violation], total: int, base: str) -> str:
    if not violations:
        return "<p>None.</p>"
    rows = [
        [
            each.invariant,
            _place(each, base),
            "" if each.position is None else str(each.position),
            escape(each.message),
            escape(each.expected or ""),
            escape(each.found or ""),
        ]
        for each in violations
    ]
    more = "" if total == len(violations) else f"<p>{total - len(violations):,} more are not listed.</p>"
    broken = dict.fromkeys(each.invariant for each in violations)
    rules = table(["Rule", "What must hold"], [[name, escape(RULES.get(name, ""))] for name in broken], 2, "terms")
    found = table(["Rule", "Where", "Position", "What is wrong", "Expected", "Found"], rows, 6, "days")
    return f"{rules}\n<h3>Each of them</h3>\n{found}{more}"


def _place(violation: Violation, base: str) -> str:
    if violation.order_id is not None:
        return f'<a href="{base}/v2/payment-orders/{violation.order_id}/events">order {violation.order_id}</a>'
    if violation.stream_id is not None:
        return f"stream {violation.stream_id}"
    return f"merchant {violation.merchant_id}"
