"""The content of messages: every kind in both languages, with the values of others as plain text."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from msgspec.structs import asdict

from ledger.notifications import formats, messages
from ledger.notifications.contract import Message, MessageKind
from ledger.notifications.messages import Addressee
from ledger.notifications.words import WORDS

AT = datetime(2026, 2, 11, 5, 59, 59, tzinfo=UTC)
LATER = datetime(2026, 3, 11, 6, tzinfo=UTC)
AMOUNT = Decimal(150_000)
HOSTILE = '<script>alert(1)</script>\r\nBcc: eve@example.com {amount} {{ 7*7 }} \u202e"&'


def to(language: str = "es", merchant: str = "Café Bruma", name: str | None = "Ana") -> Addressee:
    return Addressee(merchant=merchant, time_zone="America/Mexico_City", customer_name=name, language=language)


KINDS: dict[str, Callable[[Addressee, str], Message]] = {
    "reminder": lambda to, text: messages.payment_reminder(
        to, order=text, amount=AMOUNT, currency="MXN", due_date=AT, description=text, references=[("clabe", text)]
    ),
    "overdue": lambda to, text: messages.payment_reminder(
        to, order=text, amount=AMOUNT, currency="MXN", due_date=AT, overdue=True
    ),
    "trial": lambda to, text: messages.trial_will_end(to, plan=text, amount=AMOUNT, currency="MXN", trial_end=AT),
    "failed": lambda to, text: messages.payment_failed(
        to,
        plan=text,
        number="S-1",
        amount=AMOUNT,
        currency="MXN",
        failed_at=AT,
        next_attempt_at=LATER,
        card_last4="4242",
    ),
    "failed for good": lambda to, text: messages.payment_failed(
        to, plan=text, number="S-1", amount=AMOUNT, currency="MXN", failed_at=AT, next_attempt_at=None
    ),
    "failed for good and ended": lambda to, text: messages.payment_failed(
        to, plan=text, number="S-1", amount=AMOUNT, currency="MXN", failed_at=AT, next_attempt_at=None, ended=True
    ),
    "webhook disabled": lambda to, text: messages.webhook_disabled(to, url=text, is_gone=True, disabled_at=AT),
    "webhook failing": lambda to, text: messages.webhook_disabled(to, url=text, is_gone=False, disabled_at=AT),
    "electronic document": lambda to, text: messages.electronic_document(
        to,
        kind=MessageKind.CFDI_INVOICE,
        number=text,
        fiscal_uuid="5803EB8D-81CD-4557-8719-26632D2FA434",
        amount=AMOUNT,
        currency="MXN",
        issued_at=AT,
    ),
    "receipt": lambda to, text: messages.renewal_receipt(
        to, plan=text, number="S-1", amount=AMOUNT, currency="MXN", period_start=AT, period_end=LATER, paid_at=AT
    ),
}


@pytest.mark.parametrize("language", ["es", "en"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_amount_and_its_date_in_both_forms(kind: str, language: str) -> None:
    message = KINDS[kind](to(language), "Premium")
    day = "10 de febrero de 2026" if language == "es" else "10 February 2026"
    other = "11 de marzo de 2026" if language == "es" else "11 March 2026"
    for form in (message.text, message.html):
        assert ("" if kind.startswith("webhook") else "$1,500.00 MXN") in form
        assert "Premium" in form
        assert ("Hola, Ana:" if language == "es" else "Hello Ana,") in form
        assert (other if kind == "failed" else "" if kind.startswith("failed for good") else day) in form
        assert "{" not in form.partition("</head>")[2]
    assert f'<html lang="{language}">' in message.html
    assert "\n\n\n" not in message.text


@pytest.mark.parametrize("kind", KINDS)
def test_the_values_of_others_stay_text(kind: str) -> None:
    message = KINDS[kind](to(merchant=HOSTILE, name=HOSTILE), HOSTILE)
    assert "<script>" not in message.html
    assert "&lt;script&gt;" in message.html
    assert "49" not in message.html.replace("#f2f4f7", "")
    assert not set("\r\n\u202e") & set(message.subject)
    assert not any(line.startswith("Bcc:") for line in message.text.splitlines())


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "  ",
        "www.evil.example",
        "http://evil.example",
        "a@b.example",
        "evil.example",
        "<b>",
        "evil\uff0eexample",
        "evil\u3002example",
        "evil\uff61example",
        "\uff57\uff57\uff57\uff0eevil",
    ],
)
def test_a_name_that_could_bring_a_link_is_left_out(name: str | None) -> None:
    message = KINDS["overdue"](to("en", name=name), "A-1")
    assert message.text.startswith("Hello,\n")
    assert "evil" not in message.text


def test_a_name_of_two_words_and_one_with_a_point_stay() -> None:
    for name in ("Ana María", "J. Luis", "O'Neil"):
        assert KINDS["overdue"](to("en", name=name), "A-1").text.startswith(f"Hello {name},\n")


@pytest.mark.parametrize(("language", "words"), [("es", "fue cancelada"), ("en", "was cancelled")])
def test_a_failed_payment_that_ended_the_subscription_promises_nothing(language: str, words: str) -> None:
    ended, last = (KINDS[kind](to(language), "Gold").text for kind in ("failed for good and ended", "failed for good"))
    assert (words in ended, words in last) == (True, False)


def test_a_receipt_leads_to_the_page_on_which_the_invoice_is_requested() -> None:
    url = "https://pay.example.com/api/self-invoice/AbC-_"
    receipt = messages.renewal_receipt(
        to(), plan="Oro", number="S-1", amount=AMOUNT, currency="MXN", period_start=AT, period_end=LATER, paid_at=AT,
        invoice_url=url,
    )  # fmt: skip
    assert f'<a href="{url}"' in receipt.html
    assert f"\n{url}\n" in receipt.text
    assert "\n\n\n" not in receipt.text


def test_both_languages_have_the_same_sentences_and_labels() -> None:
    spanish, english = (asdict(WORDS[language]) for language in ("es", "en"))
    assert spanish["labels"].keys() == english["labels"].keys()
    assert spanish["kinds"].keys() == english["kinds"].keys() == set(MessageKind)


def test_the_examples_of_the_formats_hold() -> None:
    assert doctest.testmod(formats).failed == 0
