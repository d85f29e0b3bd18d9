"""`sandbox.md`: the test cards, generated from the sandbox processor's scripts, and the helpers, generated from their routes.

List the cards that the processor has a script for, and a few that are simply approved.
"""

from collections.abc import Iterator, Mapping

from docs.generation import shapes
from docs.generation.markdown import code, table
from docs.generation.markdown import page as markdown_page
from msgspec import Struct

from api.app import sandbox_routes
from api.http.dependencies import DependencyHolder
from api.http.endpoint import Endpoint
from ledger.domain.orders.capabilities import MONTHS
from ledger.domain.orders.declines import decline, public_code
from ledger.processors.sandbox.test_cards import APPROVED, TEST_CARDS, Authentication, Refunds, TestCard
from ledger.settings import Settings
from projections.orders.documents import OrderDocument

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

_ONLY = " Sandbox only."
_SENT = ("field", "value", "meaning")
_PAGES: Mapping[str, str] = {
    "`/sandbox/3ds/device-data/{referenceId}`": "Evaluates the browser, in a hidden frame. Then send the device data.",
    "`/sandbox/3ds/challenge/{authenticationTransactionId}`": "The payer accepts or refuses. Then validate.",
    "`/sandbox/3ds/redirect/{authenticationTransactionId}`": "The same on a site of its own.",
}

_INTRO = """
The sandbox has a card company of its own. It moves no money, answers by the card's number, and keeps durable records, so that a
look-up after a crash returns the true result. Any expiry date in the future and any CVC are accepted.
"""


def page() -> str:
    """Returns the page as it should be."""
    rows = [(code(grouped(number)), _described(APPROVED)) for number in _USUAL]
    rows += [(code(grouped(number)), _described(script)) for number, script in TEST_CARDS.items()]
    rows.append(("any other valid number", _described(APPROVED)))
    return markdown_page(
        "The sandbox",
        _INTRO,
        "## Cards",
        table(("card", "what happens"), rows),
        "A number that fails Luhn's check is a 400 on `paymentMethod.cardDetails.number`.",
        "A card that needs an action of its payer is approved without it where such an action is not allowed, as with "
        "`virtualTerminal`. A transaction id that contains `fail` fails the authentication. A payout by transfer to an account "
        "whose holder's name contains `fail` is accepted and fails later.",
        "## Helpers",
        "All of them need the merchant's key and apply to this merchant alone. In production each is a 404. "
        "[How to practise with them](../how-to/practise-in-the-sandbox.md).",
        *_helpers(),
        "## Pages for payers",
        "`payerAuthentication` sends a payer's browser to these pages. They need no key, work in a frame and without "
        "JavaScript, and report the result by `postMessage` to the window that opened them. They change nothing: the merchant's "
        "next call does.",
        table(("page", "what happens there"), _PAGES.items()),
        "## Time",
        f"The sandbox's answer to card `{grouped('4000000000000119')}` never comes: after "
        f"{Settings().sandbox_deadline_s:g} seconds (`LEDGER_SANDBOX_DEADLINE_S`) the request is answered 201 with an order in "
        f"`PROCESSING`. {Settings().recovery_margin_s:g} seconds later (`LEDGER_RECOVERY_MARGIN_S`) the recovery looks the "
        "payment up and finds it approved. `LEDGER_SANDBOX_DELAY_MS` delays every other answer.",
    )


def _helpers() -> Iterator[str]:
    """Yields every helper that is routed: what it does, what it takes, what it answers."""
    for route in sandbox_routes(Settings(), DependencyHolder()):
        if isinstance(route.endpoint, Endpoint):
            for method, operation in route.endpoint.operations.items():
                spec = operation.spec
                yield f"### {spec.summary}"
                yield f"{code(f'{method} {route.path}')}: {' '.join(spec.description.split()).removesuffix(_ONLY)}"
                if spec.takes is not None:
                    rows = shapes.fields(spec.takes)
                    yield table(
                        _SENT, [(code(row.name), row.kind.removesuffix(" or null"), shapes.needed(row)) for row in rows]
                    )
                yield " ".join(f"**{status}**: {meaning}" for status, (meaning, _) in spec.answers.items())
                for struct in dict.fromkeys(struct for _, struct in spec.answers.values()):
                    yield from _answer(struct)


def _answer(struct: type[Struct]) -> Iterator[str]:
    """Yields an answer and the objects in it; a payment order is on the interface's page."""
    yield _answered(struct)
    of_orders = {OrderDocument, *shapes.parts(OrderDocument)}
    for part in shapes.parts(struct):
        if part not in of_orders:
            yield from (f'<a id="{shapes.anchor(part)}"></a>', f"#### {shapes.title(part)}", _answered(part))


def _answered(struct: type[Struct]) -> str:
    rows = [
        (row.name, row.kind.replace("](#order)", "](http.md#answered-order)"), row.meaning)
        for row in shapes.fields(struct)
    ]
    return table(("answered", "value", "meaning"), [(code(name), *rest) for name, *rest in rows])


def grouped(number: str) -> str:
    """Returns a card number in groups of four digits, as on a card."""
    return " ".join(number[at : at + 4] for at in range(0, len(number), 4))


def _described(card: TestCard) -> str:
    if not card.answers:
        return "approved, but the answer never comes: unknown, until the recovery looks it up"
    if card.declined is not None:
        known = decline(card.declined.code)
        shown = public_code(card.declined.refused_by)
        return f"declined: `{known.code}`" if shown == "PAYMENT_DECLINED" else f"refused: 422 `{shown}`"
    if card.grants_half:
        return "approved for half of the amount"
    if not card.captures:
        return (
            "authorised; every capture is refused: an automatic one fails the payment, and its authorisation is voided"
        )
    if not card.voids:
        return "authorised; every void is refused"
    if card.authentication is not None:
        return _ASKED[card.authentication]
    if card.declined_when_saved is not None:
        return f"approved when it is typed; once saved, declined: `{card.declined_when_saved.code}`"
    if card.installments != MONTHS:
        return f"approved; offers only {' and '.join(map(str, card.installments))} months without interest"
    if card.disputed:
        return "approved; disputed after its capture"
    return _REFUNDED[card.refunds]
