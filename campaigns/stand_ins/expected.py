"""The differences between the fake and Stripe World that stay, each with its reason.

A rule is about a place in the answers, `body.card.exp_year`, in the steps whose scenario and call it names. A difference that no rule
covers fails the comparison, and so does a rule that covers none.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct


class Rule(Struct, frozen=True, kw_only=True):
    """Where the two may differ. `place` and `step` are regular expressions; a step reads `part: GET /v1/charges/… {…}`."""

    place: str
    reason: str
    step: str = ""

    def covers(self, step: str, place: str) -> bool:
        return bool(re.search(self.place, place) and re.search(self.step, step))


RULES: Final = (
    Rule(
        place=r"\.exp_(month|year)$", reason="the expiry of the cards behind tokens moves with time; each has its own"
    ),
    Rule(place=r"\.radar_options$", reason="Stripe World shows it as null, which the description does not allow"),
    Rule(place=r"\.discount$", reason="the fake knows no discounts, and leaves the field out"),
    Rule(
        place=r"(advice_code|network_decline_code)$",
        reason="Stripe World leaves out what the network says of a decline",
    ),
    Rule(place=r"\.seller_message$", reason="words for a person, which name the decline code in the fake"),
    Rule(place=r"\.calculated_statement_descriptor$", reason="the name of the account"),
    Rule(place=r"\.receipt_url$", reason="the fake writes no receipts"),
    Rule(
        place=r"\.(authorization_code|network_transaction_id)$",
        reason="Stripe World leaves out what the network answers",
    ),
    Rule(
        place=r"\.(decline_code|reason)$",
        step="ExpiredCard|IncorrectCvc|ProcessingError",
        reason="not recorded in Stripe World; Stripe repeats the error code as the decline code of these cards",
    ),
    Rule(
        place=r"\.cvc_check$", step="IncorrectCvc", reason="Stripe World passes every check; a wrong code fails its own"
    ),
    Rule(
        place=r"latest_charge\.balance_transaction$",
        reason="Stripe settles `automatic_async` a moment after the answer, as the fake does; Stripe World at once",
    ),
    Rule(place=r"\.fee_details$", reason="the fake's account is in Mexico, where the fee has a tax"),
    Rule(
        place=r"error\.message$",
        step=r"tok_\w+: POST .*/confirm",
        reason="the refusal to confirm what has succeeded is not recorded in Stripe World; the fake has Stripe's words",
    ),
    Rule(
        place=r"error\.message$",
        step="cancel: .*whim",
        reason="Stripe World lists the reasons of an answer; a request takes the four that the description has",
    ),
    Rule(
        place=r"error\.message$",
        step="keys: .*/cancel",
        reason="Stripe World has one message for another path and other parameters",
    ),
    Rule(
        place=r"error\.(message|param|code|doc_url)$",
        step="wrong: ",
        reason="words and codes of wrong parameters that Stripe does not list",
    ),
    Rule(
        place=r"error\.message$", step="customers: .*'email': ''", reason="words for a parameter that cannot be empty"
    ),
    Rule(
        place=r"error\.(message|code|param|doc_url)$",
        step="unknown: ",
        reason="names of kinds, and Stripe World's shorter words",
    ),
    Rule(place=r"error\.(message|code|doc_url)$", step="metadata: ", reason="words for metadata that is too long"),
    Rule(
        place="^status$",
        step="kept: POST /v1/payment_intents ",
        reason="Stripe World charges a method that was used or detached; Stripe refuses it",
    ),
    Rule(
        place=r"error\.payment_intent$",
        step="kept: ",
        reason="Stripe World checks the owner when it confirms, the fake when it creates",
    ),
    Rule(
        place=r"body\.data$",
        step="kept: ",
        reason="Stripe World does not attach a card for `setup_future_usage`; Stripe does",
    ),
    Rule(place="^status$", step="lists: .*'limit': '(0|101)'", reason="Stripe World takes any limit; Stripe 1 to 100"),
    Rule(
        place="^status$",
        step="wrong: ",
        reason="Stripe World has no bounds of amounts, no list of currencies, and takes an empty text and what needs `confirm`",
    ),
    Rule(
        place=r"body\.status$",
        step=r"updates: POST /v1/payment_intents/\{made.id\} \{'payment_method'",
        reason="not recorded in Stripe World; a payment with a method waits for its confirmation, as after a creation with one",
    ),
    Rule(
        place=r"automatic_payment_methods$",
        step="updates: ",
        reason="Stripe turns them on where no types are given, since 2023-08-16; Stripe World does not",
    ),
    Rule(
        place="^status$",
        step=r"updates: .*automatic\.id",
        reason="with automatic payment methods a confirmation needs a return_url",
    ),
)
