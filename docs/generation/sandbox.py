"""`sandbox.md`: the test cards, from the script that the sandbox processor plays.

The rule a stranger would break: a card is listed because the processor knows it. A number that stands here and is simply
approved says so.
"""

from collections.abc import Mapping

from docs.generation.markdown import code, table
from docs.generation.markdown import page as markdown_page

from ledger.gateways.scripts import APPROVED, SCRIPTS, Authentication, Refunds, Script
from ledger.orders.declines import decline, public_code
from ledger.settings import Settings

_USUAL = ("4242424242424242", "4111111111111111", "5555555555554444")

_ASKED: Mapping[Authentication, str] = {
    Authentication.CHALLENGE: "3-D Secure: a challenge",
    Authentication.DEVICE_DATA: "3-D Secure: device data, then approved without a challenge",
    Authentication.DEVICE_DATA_THEN_CHALLENGE: "3-D Secure: device data, then a challenge",
    Authentication.REDIRECT: "`ACTION_REQUIRED`: a redirect",
}
_REFUNDED: Mapping[Refunds, str] = {
    Refunds.AT_ONCE: "approved",
    Refunds.LATER: "approved; a refund is confirmed later",
    Refunds.REFUSED: "approved; every refund is refused",
}

_INTRO = """
The sandbox has a card company of its own. It moves no money, answers by the card's number, and keeps a durable book, so that
asking it after a crash tells the truth. Any expiry date in the future and any CVC will do.
"""


def page() -> str:
    """The page as it should stand."""
    rows = [(code(grouped(number)), _described(APPROVED)) for number in _USUAL]
    rows += [(code(grouped(number)), _described(script)) for number, script in SCRIPTS.items()]
    rows.append(("any other valid number", _described(APPROVED)))
    return markdown_page(
        "The sandbox",
        _INTRO,
        "## Cards",
        table(("card", "what happens"), rows),
        "A number that fails Luhn's check is a 400 on `paymentMethod.cardDetails.number`.",
        "A card that asks its payer for something is approved where that is not allowed, as with `virtualTerminal`. A "
        "transaction id that contains `fail` fails the authentication. A payout by transfer to an account whose holder's name "
        "contains `fail` is taken in and comes to nothing.",
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
        return "authorised; every capture is refused"
    if not script.voids:
        return "authorised; every void is refused"
    if script.authentication is not None:
        return _ASKED[script.authentication]
    if script.declined_when_saved is not None:
        return f"approved when it is typed; once saved, declined: `{script.declined_when_saved.code}`"
    if script.disputed:
        return "approved; disputed after its capture"
    return _REFUNDED[script.refunds]
