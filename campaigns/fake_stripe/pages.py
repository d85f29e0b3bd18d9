"""The pages that a payer sees: 3-D Secure, a voucher, the details of a transfer."""

from __future__ import annotations

from html import escape
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from campaigns.fake_stripe import setup_intents
from campaigns.fake_stripe.accounts import Accounts
from campaigns.fake_stripe.books import Book, Object
from campaigns.fake_stripe.confirmation import authenticated
from campaigns.fake_stripe.errors import StripeError
from campaigns.fake_stripe.payment_intents import shown

_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<body style="font-family:sans-serif;max-width:32rem;margin:3rem auto"><h1>{title}</h1>{body}</body></html>"""
_FORM: Final = """<p>Fake Stripe asks whether the {what}{amount} is yours.</p>
<form method="post"><button id="complete" name="outcome" value="complete">Complete</button>
<button id="fail" name="outcome" value="fail">Fail</button></form>"""


class Pages:
    """The pages, over the accounts' payments."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def authenticate(self, request: Request) -> Response:
        """Shows 3-D Secure, and ends it as the payer chose. A payer who comes back to it is sent on."""
        name = request.path_params["intent"]
        is_setup = name.startswith("seti_")
        try:
            book, intent = self._accounts.holding("setup_intent" if is_setup else "payment_intent", name)
        except StripeError:
            return _page("Unknown", "<p>There is no such payment.</p>", 404)
        details = book.details[intent["id"]]
        if request.query_params.get("challenge") != details.get("challenge"):
            return _page("Expired", "<p>This page belongs to an earlier attempt.</p>", 404)
        waits = intent["status"] == "requires_action" and intent["next_action"] is not None
        if request.method == "GET" and waits:
            amount = "" if is_setup else f" of {shown(intent['amount'], intent['currency'])} {intent['currency']}"
            return _page("3-D Secure", _FORM.format(what="card" if is_setup else "payment", amount=escape(amount)))
        if waits:
            passed = (await request.body()) == b"outcome=complete"
            ends = setup_intents.authenticated if is_setup else authenticated
            ends(book, intent, passed=passed)
        return _back(book, intent)

    async def voucher(self, request: Request) -> Response:
        """Shows an OXXO voucher."""
        return self._instructions(request, "oxxo_display_details", "OXXO voucher")

    async def transfer(self, request: Request) -> Response:
        """Shows where to send a transfer."""
        return self._instructions(request, "display_bank_transfer_instructions", "Bank transfer")

    def _instructions(self, request: Request, kind: str, title: str) -> Response:
        try:
            _, intent = self._accounts.holding("payment_intent", request.path_params["intent"])
        except StripeError:
            return _page("Unknown", "<p>There is no such payment.</p>", 404)
        action = (intent["next_action"] or {}).get(kind)
        if action is None:
            return _page(title, f"<p>Nothing is to be paid here: {escape(intent['status'])}.</p>")
        lines = "".join(f"<li>{escape(name)}: {escape(str(value))}</li>" for name, value in action.items())
        return _page(
            title, f"<p>{shown(intent['amount'], intent['currency'])} {escape(intent['currency'])}</p><ul>{lines}</ul>"
        )


def _back(book: Book, intent: Object) -> Response:
    """Sends the payer back to the merchant, as Stripe does: with the payment, its secret and how it went."""
    url = book.details[intent["id"]].get("return_url")
    if not url:
        return _page("3-D Secure", f"<p>Done: {escape(intent['status'])}.</p>")
    well = intent["status"] in {"succeeded", "requires_capture", "processing", "requires_confirmation"}
    kind = intent["object"]
    facts = {
        kind: intent["id"],
        f"{kind}_client_secret": intent["client_secret"],
        "source_type": "card",
        "redirect_status": "succeeded" if well else "failed",
    }
    parts = urlsplit(url)
    query = "&".join(filter(None, [parts.query, urlencode(facts)]))
    return RedirectResponse(urlunsplit(parts._replace(query=query)), 303)


def _page(title: str, body: str, status: int = 200) -> Response:
    return HTMLResponse(_PAGE.format(title=escape(title), body=body), status)
