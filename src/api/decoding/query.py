"""The query of a list: its parameters, each once, and the page that it asks for (contract N53).

Answer a value that is not understood with a 400, never with a default, and a name that the operation does not have
likewise: a filter without effect shows a merchant other entries than it asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import parse_qs, unquote_plus
from uuid import UUID

from msgspec import Struct

from api.decoding.choosing_names import chosen_alike
from api.decoding.field_errors import FieldErrors
from api.decoding.types import TEXT_MAX
from api.decoding.unknown_names import by_spelling, known_name, shown, spelling_of
from api.errors import ApiError, FieldError, conflicting, invalid
from api.operation import Json
from ledger.domain.ids import parse_uuid
from projections.lists.cursor import AnyCursor, list_hash

C = TypeVar("C")
E = TypeVar("E", bound=StrEnum)

Parameters = Mapping[str, tuple[str, Json]]
"""The parameters of a query by their names: what each of them means, and its schema."""

UNKNOWN_PARAMETER: Final = "UNKNOWN_PARAMETER"
_LIMIT_MAX: Final = 100
_LIMIT_DEFAULT: Final = 20
_WHOLE_MAX: Final = 999_999_999
_FIELDS_MAX: Final = 100
_REQUIRED: Final = "Required. "
_NEVER_EMPTY: Final = frozenset({"asOf", "version"})
"""What chooses a past state: without its value, the present would be taken for it."""
_NUMBER: Final = re.compile(r"[0-9]{1,16}", re.ASCII)

PLACE_PARAMETERS: Final[Parameters] = {
    "page": (
        "The number of the page, from 1. Cannot be combined with offset or cursor.",
        {"type": "integer", "minimum": 1, "maximum": _WHOLE_MAX, "default": 1},
    ),
    "limit": (
        f"The number of entries on a page, 1 to {_LIMIT_MAX}; default {_LIMIT_DEFAULT}.",
        {"type": "integer", "minimum": 1, "maximum": _LIMIT_MAX, "default": _LIMIT_DEFAULT},
    ),
    "offset": ("The number of entries to skip.", {"type": "integer", "minimum": 0, "maximum": _WHOLE_MAX}),
    "cursor": (
        "The `nextCursor` of the page before, sent with the same filters: the fastest way to read the next page.",
        {"type": "string", "minLength": 1},
    ),
}

SHORT_PLACE_PARAMETERS: Final[Parameters] = {
    "page": (PLACE_PARAMETERS["page"][0], {"type": "integer", "minimum": 1, "maximum": _WHOLE_MAX}),
    "limit": (
        f"The number of entries, 1 to {_LIMIT_MAX}; {_LIMIT_DEFAULT} if page, offset or cursor is sent without it, else all.",
        {"type": "integer", "minimum": 1, "maximum": _LIMIT_MAX},
    ),
    "offset": PLACE_PARAMETERS["offset"],
    "cursor": ("The `nextCursor` of the page before.", {"type": "string", "format": "uuid"}),
}
"""The page of a list that is short enough to be answered whole."""


class ListQuery(Protocol):
    """A page of a list, and its filters: a Struct."""

    @property
    def cursor(self) -> AnyCursor | None: ...


class Place(Struct, Generic[C], frozen=True):
    """Where a page begins, and how many entries it has. With a cursor, it begins after that."""

    limit: int
    offset: int
    cursor: C | None


def parse_parameters(
    query: bytes, known: Collection[str], lists: Collection[str] = ()
) -> tuple[Mapping[str, str], FieldErrors]:
    """Returns each parameter once, and what is wrong with them so far. A parameter without a value counts as absent,
    except for one that chooses a past state, which is an error.

    A name that is not `known` is an error. The values of a parameter in `lists` are joined by commas; every other
    `known` one has one value. Raises ApiError (400) if the query cannot be read.
    """
    try:
        parsed = parse_qs(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS_MAX)
    except UnicodeError:
        raise invalid("query", "must be percent-encoded UTF-8", "INVALID_ENCODING") from None
    except ValueError:
        raise invalid("query", f"must have at most {_FIELDS_MAX} parameters", "INVALID_LENGTH") from None
    given, errors = {}, FieldErrors(parsed)
    for name, sent in parsed.items():
        values = sent if name in _NEVER_EMPTY else [value for value in sent if value]
        if not values:
            continue
        if name not in known:
            if not errors.are_enough:
                errors.add(_unknown_parameter(name, known))
        elif len(set(values)) > 1 and name not in lists:
            errors.add(invalid(name, "was sent twice with different values", "CONFLICTING_FIELDS"))
        given[name] = ",".join(values) if name in lists else values[0]
    return given, errors


def refuse_parameters(query: bytes) -> None:
    """Raises ApiError (400) if a query has parameters: the operation has none."""
    names = [unquote_plus(part.partition("=")[0]) for part in query.decode("latin-1").split("&", _FIELDS_MAX)]
    errors = FieldErrors(dict.fromkeys(names))
    for name in filter(None, names[:_FIELDS_MAX]):
        errors.add(_unknown_parameter(name, ()))
    errors.refuse()


def _unknown_parameter(name: str, known: Collection[str]) -> ApiError:
    """Returns the 400 about a parameter that is none of those of the operation."""
    meant = known_name(name, known) or chosen_alike(spelling_of(name), by_spelling(known))
    if meant is not None:
        problem = f"is unknown: did you mean {meant}?"
    elif known:
        problem = f"is unknown: the parameters here are {', '.join(known)}"
    else:
        problem = "is unknown: this operation has no parameters in its query, so leave it out"
    field = shown(name)
    message = f"{field} {problem}" if meant else f"{field} {problem}."
    return ApiError(400, UNKNOWN_PARAMETER, message, errors=(FieldError(field, problem, UNKNOWN_PARAMETER),))


def parse_place(
    given: Mapping[str, str],
    parse_cursor: Callable[[str], C | None],
    cursor_problem: str = "must be the nextCursor of another page",
) -> Place[C]:
    """Returns the page that `page`, `limit`, `offset` and `cursor` ask for. Raises ApiError (400), with every wrong
    one.

    `parse_cursor` returns None for a text that is no cursor of the list.
    """
    errors = FieldErrors(given)
    limit = errors.check(parse_whole, given, "limit", _LIMIT_DEFAULT, 1, _LIMIT_MAX) or _LIMIT_DEFAULT
    page = errors.check(parse_whole, given, "page", 1, 1, _WHOLE_MAX) or 1
    offset = errors.check(parse_whole, given, "offset", (page - 1) * limit, 0, _WHOLE_MAX) or 0
    cursor = parse_cursor(given["cursor"]) if "cursor" in given else None
    if "cursor" in given and cursor is None:
        errors.add(invalid("cursor", cursor_problem))
    places = [name for name in ("page", "offset", "cursor") if name in given]
    if len(places) > 1:
        errors.add(
            conflicting(
                places[0], places[1], "cannot be sent together, because each of them sets where the page begins"
            )
        )
    errors.refuse()
    return Place(limit, offset, cursor)


def parse_short_place(given: Mapping[str, str], errors: FieldErrors) -> Place[UUID] | None:
    """Returns the page of a short list that is asked for, None for all of it. Adds what is wrong to `errors`."""
    place = errors.check(parse_place, given, parse_uuid)
    return place if given.keys() & SHORT_PLACE_PARAMETERS.keys() else None


def short_place_of(query: bytes) -> Place[UUID] | None:
    """Returns the page of a short list without other parameters. Raises ApiError (400), with every wrong parameter."""
    given, errors = parse_parameters(query, SHORT_PLACE_PARAMETERS)
    place = parse_short_place(given, errors)
    errors.refuse()
    return place


def refuse_cursor_of_another_list(query: ListQuery, within: UUID | None = None) -> None:
    """Raises ApiError (400) if a page continues another list than its query asks for: one with other filters, or of
    another resource than `within`.
    """
    if query.cursor is not None and query.cursor.list_hash not in (b"", list_hash(query, within)):
        raise invalid("cursor", "must be the nextCursor of another page, sent with the filters of that page")


def parse_text(given: Mapping[str, str], name: str) -> str | None:
    """Returns a parameter of at most 255 characters, or None. Raises ApiError (400)."""
    text = given.get(name)
    if text is not None and len(text) > TEXT_MAX:
        raise invalid(name, f"must have at most {TEXT_MAX} characters", "INVALID_LENGTH")
    return text


def parse_choices(given: Mapping[str, str], name: str, choices: type[E]) -> tuple[E, ...]:
    """Returns the values of a parameter, separated by commas; none if it is absent. Raises ApiError (400)."""
    texts = [text.strip().upper() for text in given.get(name, "").split(",") if text.strip()]
    try:
        return tuple([choices(text) for text in texts])
    except ValueError:
        raise invalid(name, f"must be one or more of {', '.join(choices)}") from None


def parse_flag(given: Mapping[str, str], name: str) -> bool:
    """Returns whether a parameter is `true`; an absent one is `false`. Raises ApiError (400)."""
    text = given.get(name, "false")
    if text not in ("true", "false"):
        raise invalid(name, "must be true or false")
    return text == "true"


def described_parameters(parameters: Parameters) -> tuple[Json, ...]:
    """Returns the parameters as the published description has them."""
    return tuple(_described(name, *about) for name, about in parameters.items())


def _described(name: str, description: str, schema: Json) -> Json:
    parameter: Json = {"name": name, "in": "query", "description": description}
    if description.startswith(_REQUIRED):
        parameter |= {"description": description.removeprefix(_REQUIRED), "required": True}
    elif name not in _NEVER_EMPTY:  # forms send a parameter without a value if they have none: it counts as absent
        parameter["allowEmptyValue"] = True
    parameter["schema"] = schema
    return parameter | {"style": "form", "explode": False} if schema.get("type") == "array" else parameter


def parse_whole(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """Returns a parameter that is a whole number from `least` to `most`. Raises ApiError (400)."""
    text = given.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise invalid(name, f"must be a whole number from {least} to {most}", "OUT_OF_RANGE")
    return int(text)
