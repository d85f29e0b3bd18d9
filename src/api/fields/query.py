"""The parameters of a list's query: each once, as text, as a number or as a flag, and the place of a page.

Answer a value that is not understood with a 400, never with a default. Unknown names are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import parse_qs

from api.fields.types import TEXT_MAX
from api.http.errors import conflicting, invalid
from api.openapi.operation import Json

LIMIT_MAX: Final = 100
LIMIT_DEFAULT: Final = 20
WHOLE_MAX: Final = 999_999_999
_FIELDS_MAX: Final = 100
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


def parameters(query: bytes, known: Collection[str], *, joined: Collection[str] = ()) -> Mapping[str, str]:
    """Returns each parameter once; a parameter without a value counts as absent.

    Values of a name in `joined` are joined by commas. Another known name with two different values is a 400.
    """
    try:
        lists = parse_qs(query.decode("ascii"), errors="strict", max_num_fields=_FIELDS_MAX)
    except UnicodeError:
        raise invalid("query", "must be percent-encoded UTF-8", "INVALID_ENCODING") from None
    except ValueError:
        raise invalid("query", f"must have at most {_FIELDS_MAX} parameters", "INVALID_LENGTH") from None
    given = {}
    for name, values in lists.items():
        if len(set(values)) > 1 and name in known and name not in joined:
            raise invalid(name, "was sent twice with different values", "CONFLICTING_FIELDS")
        given[name] = ",".join(values) if name in joined else values[0]
    return given


def whole(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """Returns a whole number between these bounds. Raises ApiError (400)."""
    sent = given.get(name)
    if sent is None:
        return default
    if not _NUMBER.fullmatch(sent) or not least <= int(sent) <= most:
        raise invalid(name, f"must be a whole number from {least} to {most}", "OUT_OF_RANGE")
    return int(sent)


def text(given: Mapping[str, str], name: str) -> str | None:
    """Returns a text of at most 255 characters. Raises ApiError (400)."""
    sent = given.get(name)
    if sent is not None and len(sent) > TEXT_MAX:
        raise invalid(name, f"must have at most {TEXT_MAX} characters", "INVALID_LENGTH")
    return sent


def flag(given: Mapping[str, str], name: str) -> bool:
    """Returns whether a parameter is `true`; absent is `false`. Raises ApiError (400)."""
    sent = given.get(name, "false")
    if sent not in ("true", "false"):
        raise invalid(name, "must be true or false")
    return sent == "true"


def require_one_place(given: Mapping[str, str]) -> None:
    """Raises ApiError (400) where two parameters set where the page begins (contract N53)."""
    places = [name for name in ("page", "offset", "cursor") if name in given]
    if len(places) > 1:
        raise conflicting(
            places[0], places[1], "cannot be sent together, because each of them sets where the page begins"
        )


def described(name: str, description: str, schema: Json) -> Json:
    """Returns the published description of a parameter."""
    # Forms send a parameter without a value where they have none: it counts as absent.
    parameter: Json = {
        "name": name,
        "in": "query",
        "description": description,
        "allowEmptyValue": True,
        "schema": schema,
    }
    return parameter | {"style": "form", "explode": False} if schema.get("type") == "array" else parameter
