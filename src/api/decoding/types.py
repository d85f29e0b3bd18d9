"""The kinds of field that requests are made of, with their limits (contract N23).

A format beyond type and length is published here as a pattern, and checked by the parser of its field, whose messages
name the field.

Keep a number that becomes money as the bytes that were sent until `money.parse_amount` parses them. Decoded as a float
it would be another number; decoded as a `Decimal`, a `1e3000000` of nine bytes could occupy the process for minutes.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Raw

TEXT_MAX: Final = 255
DESCRIPTION_MAX: Final = 1000
INVOICE_NUMBER_MAX: Final = 64
LINE_ITEMS_MAX: Final = 1000
TAXES_MAX: Final = 20
ALLOCATIONS_MAX: Final = 100
CARD_TOKENS_MAX: Final = 10
NUMBER_MAX: Final = 999_999_999_999

ALIAS_OF: Final = "aliasOf"
SEARCHED: Final = "searched"
UNSEARCHED: Final = {SEARCHED: False}
"""Marks a text that is not stored as it was sent, or is validated as a number that may be stored: a CLABE."""


def alias_of(name: str) -> Meta:
    """Returns the description of a field that is another name of a field. Errors call it by the canonical name.

    `name` is that of a field beside it, or, with a dot in it, a path from the body on.
    """
    return Meta(description=f"Alias of {name}.", extra={ALIAS_OF: name})


_RFC: Final = "^[A-Za-z&Ññ]{3,4}[ -]?[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])[ -]?[A-Za-z0-9]{3}$"

RETURN_URL_MAX: Final = 2048

ReturnUrl = Annotated[
    str,
    Meta(
        max_length=RETURN_URL_MAX,
        examples=["https://shop.example.com/checkout/return"],
        extra_json_schema={"pattern": "^https?://"},
    ),
]
Text = Annotated[str, Meta(max_length=TEXT_MAX)]
LongText = Annotated[str, Meta(max_length=DESCRIPTION_MAX)]
InvoiceNumber = Annotated[str, Meta(max_length=INVOICE_NUMBER_MAX)]
Id = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Country = Annotated[
    str,
    Meta(examples=["MX"], extra_json_schema={"minLength": 2, "maxLength": 2, "pattern": "^[A-Za-z]{2}$"}),
]
Number = Annotated[Raw, Meta(extra_json_schema={"type": "number", "minimum": 0, "maximum": NUMBER_MAX})]
PositiveNumber = Annotated[
    Raw, Meta(extra_json_schema={"type": "number", "exclusiveMinimum": 0, "maximum": NUMBER_MAX})
]
Metadata = Annotated[Raw, Meta(extra_json_schema={"type": ["object", "null"]})]
Month = Annotated[str | int, Meta(extra_json_schema={"pattern": "^(0?[1-9]|1[0-2])$", "minimum": 1, "maximum": 12})]
Year = Annotated[
    str | int,
    Meta(
        extra_json_schema={
            "pattern": "^(20)?[0-9]{2}$",
            "minimum": 10,
            "maximum": 2099,
            "not": {"type": "integer", "minimum": 100, "maximum": 1999},
        }
    ),
]
DayOrMoment = Annotated[
    Text, Meta(extra_json_schema={"anyOf": [{"format": "date"}, {"format": "date-time"}]}, extra=UNSEARCHED)
]
CardNumber = Annotated[Text, Meta(extra_json_schema={"pattern": "^([ -]*[0-9]){13,19}[ -]*$"}, extra=UNSEARCHED)]
Cvc = Annotated[Text, Meta(extra_json_schema={"pattern": "^[0-9]{3,4}$"}, extra=UNSEARCHED)]
Token = Annotated[Id, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_-]+$"}, examples=["tok_visa"])]
Email = Annotated[Text, Meta(extra_json_schema={"format": "email"})]
TaxId = Annotated[Text, Meta(extra_json_schema={"pattern": _RFC})]
Clabe = Annotated[
    Text, Meta(extra_json_schema={"pattern": "^[0-9]{18}$"}, examples=["032180000118359719"], extra=UNSEARCHED)
]
