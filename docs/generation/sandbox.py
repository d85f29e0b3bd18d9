"""`sandbox.md`: the test cards, from the script that the sandbox processor plays.

The rule a stranger would break: a card is listed because the processor knows it. A number that stands here and is simply
approved says so.
"""

from collections.abc import Mapping

from docs.generation.markdown import code, table
from docs.generation.markdown import page as markdown_page

from ledger.gateways.sandbox import APPROVED, SCRIPTS, Script
from ledger.orders.declines import decline, public_code
from ledger.settings import Settings

_LATER: Mapping[str, str] = {
    "4000000000003220": "3-D Secure with a challenge",
    "4000000000003055": "3-D Secure, device data, then frictionless",
    "4000000000003063": "3-D Secure, device data, then a challenge",
    "4000000000007007": "ACTION_REQUIRED: a redirect",
    "4000000000005126": "a refund that is confirmed later",
    "4000000000007726": "a refund that fails",
    "4000000000000259": "a dispute after the capture",
    "4000000000000341": "approved when typed; declined GENERIC_DECLINE once saved",
    "4000000000000358": "approved when typed; declined CARD_LOST_OR_STOLEN once saved",
    "4000000000007023": "authorised; every void refused",
}
"""Numbers that are promised a behaviour by operations which do not exist yet (contract, sections 5.3 and 8.18)."""

_USUAL = ("4242424242424242", "4111111111111111", "5555555555554444")

_INTRO = """
The sandbox has a card company of its own. It moves no money, answers by the card's number, and keeps a durable book, so that
asking it after a crash tells the truth. Any expiry date in the future and any CVC will do.
"""


def page() -> str:
    """The page as it should stand."""
    assert not _LATER.keys() & SCRIPTS.keys(), f"no longer later: {sorted(_LATER.keys() & SCRIPTS.keys())}"
    rows = [(code(grouped(number)), _described(APPROVED)) for number in _USUAL]
    rows += [(code(grouped(number)), _described(script)) for number, script in SCRIPTS.items()]
    rows.append(("any other valid number", _described(APPROVED)))
    later = [(code(grouped(number)), words) for number, words in _LATER.items()]
    return markdown_page(
        "The sandbox",
        _INTRO,
        "## Cards",
        table(("card", "what happens"), rows),
        "A number that fails Luhn's check is a 400 on `paymentMethod.cardDetails.number`.",
        "## Cards of later operations",
        "These numbers are approved like any other until the operations that they are for exist.",
        table(("card", "what will happen"), later),
        "## Time",
        f"The sandbox's answer to card `{grouped('4000000000000119')}` never comes: after "
        f"{Settings().sandbox_deadline_s:g} seconds (`LEDGER_SANDBOX_DEADLINE_S`) the request is answered 201 with an order in "
        "`PROCESSING`. The recovery looks the payment up once the intent's deadline and its margin have passed, "
        f"{Settings().processor_timeout_s:g} + {Settings().recovery_margin_s:g} seconds after the call, and finds it approved. "
        "`LEDGER_SANDBOX_DELAY_MS` lets every other answer take a while.",
    )


def grouped(number: str) -> str:
    """A card number as it stands on a card."""
    return " ".join(number[at : at + 4] for at in range(0, len(number), 4))


def _described(script: Script) -> str:
    if not script.answers:
        return "booked and approved, but the answer never comes: unknown, then found out by the recovery"
    if script.declined is not None:
        known = decline(script.declined.code)
        said = public_code(script.declined.refused_by)
        return f"declined: `{known.code}`" if said == "PAYMENT_DECLINED" else f"refused: 422 `{said}`"
    if script.grants_half:
        return "approved for half of the amount"
    if not script.captures:
        return "authorised; the capture never happens, so the order stays `AUTHORIZED`"
    return "approved"
