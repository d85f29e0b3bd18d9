"""A report of an audit as a page of HTML without script, for a screen or a printer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from ledger.audit.report import Report, Sealed, Violation
from projections.histories.pages import page, table

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
    verdict = "No violation." if report.is_clean else f"{report.violations_total:,} violations."
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
    rows = [[str(each.merchant_id), f"{each.size:,}", f"<pre>{escape(each.checkpoint or '')}</pre>"] for each in logs]
    return (
        table(["Merchant", "Events", "Newest checkpoint"], rows, 3, "days") if rows else "<p>No log is signed yet.</p>"
    )


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
    return table(["Rule", "Where", "Position", "What is wrong", "Expected", "Found"], rows, 6, "days") + more


def _place(violation: Violation, base: str) -> str:
    if violation.order_id is not None:
        return f'<a href="{base}/v2/payment-orders/{violation.order_id}/events">order {violation.order_id}</a>'
    if violation.stream_id is not None:
        return f"stream {violation.stream_id}"
    return f"merchant {violation.merchant_id}"
