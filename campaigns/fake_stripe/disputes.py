"""Disputes: they come of certain test cards, or when a test asks for one, and are won or lost."""

from __future__ import annotations

from typing import Any, Final

from campaigns.fake_stripe import balance
from campaigns.fake_stripe.books import Book, Object, merged
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.errors import invalid
from campaigns.fake_stripe.lists import page

_COMES_AFTER_S: Final = 1.0
_ANSWER_WITHIN_S: Final = 9 * 86400
_REASONS: Final = {
    "dispute_fraudulent": "fraudulent",
    "dispute_product_not_received": "product_not_received",
    "inquiry": "fraudulent",
}
_NETWORK_CODES: Final = {"fraudulent": "10.4", "product_not_received": "13.1", "duplicate": "12.6", "general": "13.9"}
_EVIDENCE: Final = (
    "access_activity_log",
    "billing_address",
    "cancellation_policy",
    "cancellation_policy_disclosure",
    "cancellation_rebuttal",
    "customer_communication",
    "customer_email_address",
    "customer_name",
    "customer_purchase_ip",
    "customer_signature",
    "duplicate_charge_documentation",
    "duplicate_charge_explanation",
    "duplicate_charge_id",
    "product_description",
    "receipt",
    "refund_policy",
    "refund_policy_disclosure",
    "refund_refusal_explanation",
    "service_date",
    "service_documentation",
    "shipping_address",
    "shipping_carrier",
    "shipping_date",
    "shipping_documentation",
    "shipping_tracking_number",
    "uncategorized_file",
    "uncategorized_text",
)


def follow(book: Book, charge: Object) -> None:
    """Opens the dispute of a captured charge whose card disputes its payments, a moment after."""
    afterwards = book.details[charge["id"]]["afterwards"]
    if charge["captured"] and (reason := _REASONS.get(afterwards)):
        inquiry = afterwards == "inquiry"
        book.clock.after(_COMES_AFTER_S, lambda: _open_later(book, charge, reason, inquiry=inquiry))


def _open_later(book: Book, charge: Object, reason: str, *, inquiry: bool) -> None:
    if not charge["disputed"]:
        open_dispute(book, charge, reason, inquiry=inquiry)


def open_dispute(
    book: Book, charge: Object, reason: str, amount: int | None = None, *, inquiry: bool = False
) -> Object:
    """Opens a dispute about a captured charge. An inquiry moves no money."""
    left = charge["amount_captured"] - charge["amount_refunded"]
    amount = left if amount is None else amount
    if charge["disputed"] or not 0 < amount <= charge["amount_captured"] or not charge["captured"]:
        raise invalid(f"The charge {charge['id']} cannot be disputed over {amount}.", "charge")
    card = charge["payment_method_details"].get("card") or {"brand": "visa"}
    dispute = book.add(
        "dispute",
        amount=amount,
        balance_transactions=[],
        charge=charge["id"],
        currency=charge["currency"],
        enhanced_eligibility_types=[],
        evidence={**dict.fromkeys(_EVIDENCE), "enhanced_evidence": {}},
        evidence_details={
            "due_by": book.clock.seconds() + _ANSWER_WITHIN_S,
            "enhanced_eligibility": {},
            "has_evidence": False,
            "past_due": False,
            "submission_count": 0,
        },
        is_charge_refundable=inquiry,
        metadata={},
        payment_intent=charge["payment_intent"],
        payment_method_details={
            "card": {
                "brand": card["brand"],
                "case_type": "inquiry" if inquiry else "chargeback",
                "network": card["brand"],
                "network_reason_code": _NETWORK_CODES.get(reason, "83"),
            },
            "type": "card",
        },
        reason=reason,
        status="warning_needs_response" if inquiry else "needs_response",
    )
    charge["disputed"] = True
    book.event("charge.dispute.created", dispute)
    if not inquiry:
        _move(book, dispute, -amount, balance.DISPUTE_FEE.get(charge["currency"], 0))
        book.moved("DISPUTED", dispute, amount, of=charge["payment_intent"])
        book.event("charge.dispute.funds_withdrawn", dispute)
    return dispute


def end(book: Book, dispute: Object, *, won: bool) -> None:
    """Ends a dispute. What was won comes back, with no fee returned."""
    if dispute["status"] in {"won", "lost", "warning_closed"}:
        raise invalid(f"This dispute is already closed: {dispute['status']}.", "dispute")
    inquiry = dispute["status"].startswith("warning_")
    dispute["status"] = "warning_closed" if inquiry else "won" if won else "lost"
    if won and not inquiry:
        _move(book, dispute, dispute["amount"], 0)
        book.moved("REINSTATED", dispute, dispute["amount"], of=dispute["payment_intent"])
        book.event("charge.dispute.funds_reinstated", dispute)
    book.event("charge.dispute.closed", dispute)


def retrieve(call: Call) -> Object:
    """Returns one: GET /v1/disputes/{dispute}."""
    return call.book.get("dispute", call.path["dispute"], "dispute", status=404)


def list_all(call: Call) -> Object:
    """Lists them: GET /v1/disputes."""
    return page(call.book.all("dispute"), call.parameters, "/v1/disputes", "charge", "payment_intent")


def update(call: Call) -> Object:
    """Adds evidence, and submits it: POST /v1/disputes/{dispute}. `winning_evidence` wins at once, `losing_evidence` loses."""
    book, dispute = call.book, retrieve(call)
    given: dict[str, Any] = call.get("evidence") or {}
    dispute["metadata"] = merged(dispute["metadata"], call.parameters.get("metadata"))
    if not given and call.get("submit") is None:
        book.event("charge.dispute.updated", dispute)
        return dispute
    if dispute["status"] in {"won", "lost", "warning_closed"}:
        raise invalid("This dispute is already closed.", "evidence")
    dispute["evidence"] |= {name: value or None for name, value in given.items() if name in _EVIDENCE}
    dispute["evidence_details"]["has_evidence"] = any(dispute["evidence"][name] for name in _EVIDENCE)
    if call.get("submit", True):
        dispute["evidence_details"]["submission_count"] += 1
        dispute["status"] = "warning_under_review" if dispute["status"].startswith("warning_") else "under_review"
        book.event("charge.dispute.updated", dispute)
        text = dispute["evidence"]["uncategorized_text"]
        if text in {"winning_evidence", "losing_evidence"}:
            end(book, dispute, won=text == "winning_evidence")
    else:
        book.event("charge.dispute.updated", dispute)
    return dispute


def close(call: Call) -> Object:
    """Accepts the dispute, which loses it: POST /v1/disputes/{dispute}/close."""
    dispute = retrieve(call)
    end(call.book, dispute, won=False)
    return dispute


def _move(book: Book, dispute: Object, amount: int, fee: int) -> None:
    changes = {"reporting_category": "dispute" if amount < 0 else "dispute_reversal"}
    transaction = balance.add_transaction(book, "adjustment", dispute, amount, fee, **changes)
    dispute["balance_transactions"].append(dict(transaction))
