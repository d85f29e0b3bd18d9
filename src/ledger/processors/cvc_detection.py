"""Finds a card's security code under its name: `cvc`, `cvv2`, `securityCode` and the like, with three or four digits.

The code alone is only a small number. Search for the name and the digits together. PCI DSS 3.3.1 forbids storing a
code in any form, encrypted too.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ledger.processors.pan_detection import visible

_NAME: Final = (
    r"(?:(?:card|tarjeta|cc|payment)[ _.-]?)?"
    r"(?:(?:cv[cvnd]|cav|csc|cid)[ _-]?2?|(?:card|tarjeta)?security[ _-]?(?:code|number)"
    r"|(?<=card)verification[ _-]?|(?<=card[ _-])verification[ _-]?"
    r"|c[oó]d(?:igo|\.)?[ _-]?(?:de[ _-]?)?(?:seguridad|verificaci[oó]n))"
    r"(?:[ _-]?(?:code|number|value|data))?"
)
_KEY: Final = re.compile(_NAME, re.IGNORECASE)
_IN_TEXT: Final = re.compile(
    rf"(?<![^\W_]){_NAME}[\s\"'\\\])]*[:=][\s\"'\\\[(]*\d{{3,4}}(?![^\W_]|[.,]\d)", re.IGNORECASE
)
_SEPARATORS: Final = re.compile(r"[\W_]+")
_CODE: Final = re.compile(r"\s*\d{3,4}\s*")


def is_cvc_name(name: str) -> bool:
    """Returns whether a field of that name holds a security code. Case, `_`, `-` and other signs do not count.

    >>> [is_cvc_name(name) for name in ("CVV_2", "card[cvc]", "card-verification-value", "postalCode")]
    [True, True, True, False]
    """
    return _KEY.fullmatch(_SEPARATORS.sub("", visible(name))) is not None


def is_cvc(name: str, value: Any) -> bool:
    """Returns whether a member of a JSON object is a security code: its name, with three or four digits as value."""
    return _is_code(value) and is_cvc_name(name)


def contains_cvc(text: str) -> bool:
    """Returns whether the text names a security code and its digits, with a colon or an equals sign between them.

    >>> contains_cvc("12/29, CVV: 123"), contains_cvc('{"securityCode":"1234"}'), contains_cvc("cvc: 12345")
    (True, True, False)
    """
    return _IN_TEXT.search(visible(text)) is not None


def json_contains_cvc(content: Any) -> bool:
    """Returns whether decoded JSON has a security code, as a member, a member of a list, or within a text."""
    if isinstance(content, str):
        return contains_cvc(content)
    if isinstance(content, dict):
        return any(
            is_cvc(name, value) or json_contains_cvc(value) or contains_cvc(name) for name, value in content.items()
        )
    return isinstance(content, list) and any(map(json_contains_cvc, content))


def _is_code(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_code, value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return isinstance(value, str | int) and _CODE.fullmatch(visible(str(value))) is not None
