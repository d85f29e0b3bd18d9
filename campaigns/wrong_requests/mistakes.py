"""Mistakes in a request, made from the published shapes: misspelt names, wrong types, values out of range.

Each mistake names the field that an answer must name. Members of metadata and of imported products may have any name,
and a failed product is reported in an answer of its own: no mistake is made in them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from string import ascii_lowercase
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

Json = dict[str, Any]

_LETTERS_MIN: Final = 4
_OPEN: Final = frozenset({"metadata", "products"})
# Another name of a field beside its own is a contradiction, which is an error about both.
_OTHER_NAMES: Final = frozenset(
    {"externalMerchantReference", "isVirtualTerminal", "items", "fiscalData", "fiscalConfig", "customerId", "expMonth"}
    | {"expYear", "options", "name", "startDate", "endDate", "offset", "page"}
)
_FORMATS: Final = frozenset({"date", "date-time", "email", "uuid"})


class Mistake(Struct, frozen=True):
    """A wrong field: its path in the body or its name in the query, and what is wrong with it."""

    field: str
    kind: str


class Place(Struct, frozen=True):
    """A member that an object of the body has or could have."""

    parent: Any
    name: str
    path: str
    schema: Json
    names: Sequence[str]

    @property
    def is_present(self) -> bool:
        return self.name in self.parent


def misspelt(name: str, known: Sequence[str], random: Random) -> str:
    """Returns a name one edit away, or in another spelling, that is no known name."""
    while True:
        at = random.randrange(1, len(name))
        letter = random.choice(ascii_lowercase)
        made = random.choice(
            (
                name[:at] + name[at + 1 :],
                name[:at] + letter + name[at:],
                name[:at] + letter + name[at + 1 :],
                name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :],
                name.upper(),
                "".join(f"_{each.lower()}" if each.isupper() else each for each in name),
                name.replace(name[at], f"-{name[at]}", 1),
            )
        )
        if made not in known and made:
            return made


class BodyMistakes:
    """Makes mistakes in bodies of one operation. `schemas` are the description's own."""

    def __init__(self, schema: Json, schemas: Mapping[str, Json]) -> None:
        self._schema = schema
        self._schemas = schemas

    def make(self, body: Json, count: int, random: Random) -> tuple[Json, list[Mistake]]:
        """Returns a copy of a valid body with at most `count` mistakes, in fields that do not contain each other."""
        wrong = copy.deepcopy(body)
        made: list[Mistake] = []
        places = list(self._places(wrong, self._schema, ""))
        random.shuffle(places)
        touched: list[str] = []
        for place in places:
            if len(made) == count:
                break
            if any(_contains(place.path, path) or _contains(path, place.path) for path in touched):
                continue
            mistake = self._make(place, random)
            if mistake is not None:
                made.append(mistake)
                touched.append(place.path)
        return wrong, made

    def _make(self, place: Place, random: Random) -> Mistake | None:
        if random.random() < 0.35 and len(place.name) >= _LETTERS_MIN:
            name = misspelt(place.name, place.names, random)
            place.parent[name] = place.parent.pop(place.name, "x")
            return Mistake(place.path.removesuffix(place.name) + name, "misspelt")
        if not place.is_present and place.name in _OTHER_NAMES:
            return None
        choices = list(wrong_values(self._options(place.schema)))
        if not choices:
            return None
        wanted = random.choice(sorted({kind for kind, _ in choices}))
        kind, value = random.choice([choice for choice in choices if choice[0] == wanted])
        place.parent[place.name] = value
        return Mistake(place.path, kind)

    def _places(self, value: Any, schema: Json, path: str) -> Iterator[Place]:
        for option in self._options(schema):
            if isinstance(value, dict) and "properties" in option:
                names = list(option["properties"])
                for name, member in option["properties"].items():
                    inner = f"{path}.{name}" if path else name
                    yield Place(value, name, inner, member, names)
                    if name in value and name not in _OPEN:
                        yield from self._places(value[name], member, inner)
            elif isinstance(value, list) and "items" in option:
                for at, entry in enumerate(value):
                    yield from self._places(entry, option["items"], f"{path}[{at}]")

    def _options(self, schema: Json) -> list[Json]:
        """Returns the shapes that a value may have, without null."""
        if "$ref" in schema:
            return self._options(self._schemas[schema["$ref"].rpartition("/")[2]])
        if "allOf" in schema:
            return [{key: value for each in schema["allOf"] for key, value in self._options(each)[0].items()}]
        if "anyOf" in schema:
            rest = {key: value for key, value in schema.items() if key != "anyOf"}
            return [rest | option for each in schema["anyOf"] for option in self._options(each)]
        types = schema.get("type")
        if isinstance(types, list):
            return [schema | {"type": each} for each in types if each != "null"]
        return [] if types == "null" else [schema]


def wrong_values(options: Sequence[Json]) -> Iterator[tuple[str, Any]]:
    """Yields values that a field of these shapes does not take, with what is wrong with each."""
    types = {option.get("type", "string" if "enum" in option else "") for option in options}
    if "" in types:
        return
    if "array" not in types:
        yield "type", [1]
    if "object" not in types:
        yield "type", {"a": 1}
    if "boolean" not in types:
        yield "type", True
    if not types & {"string"}:
        yield "type", "perhaps"
    if types == {"boolean"} or types <= {"object", "array"}:
        yield "type", 7
    if types == {"integer"}:
        yield "type", 1.5
    for option in options:
        yield from _out_of_range(option)


def _out_of_range(option: Json) -> Iterator[tuple[str, Any]]:
    """Yields values of a shape's type that are outside its bounds."""
    kind = option.get("type", "string")
    if "enum" in option:
        yield "value", "NO_SUCH_VALUE"
    elif kind in {"number", "integer"}:
        if "maximum" in option:
            yield "range", option["maximum"] * 10 + 1
        if "minimum" in option:
            yield "range", option["minimum"] - 1
        if "exclusiveMinimum" in option:
            yield "range", option["exclusiveMinimum"]
            yield "range", -5
    elif kind == "string":
        if "maxLength" in option:
            yield "length", "x" * (option["maxLength"] + 1)
        if "pattern" in option or option.get("format") in _FORMATS:
            yield "format", "not one"


def query_mistakes(parameters: Sequence[Json], count: int, random: Random) -> tuple[str, list[Mistake]]:
    """Returns a query with mistakes in some of an operation's parameters."""
    names = [each["name"] for each in parameters]
    shuffled = [each for each in parameters if each["name"] not in _OTHER_NAMES]
    random.shuffle(shuffled)
    pairs, made = [], []
    for each in shuffled[:count]:
        name = each["name"]
        schema = each["schema"]
        entry = schema["items"] if schema.get("type") == "array" else schema  # a list is its entries and commas
        wrong = [(kind, value) for kind, value in wrong_values([entry]) if isinstance(value, str | int | float)]
        values = [(kind, value) for kind, value in wrong if not isinstance(value, bool)]
        if len(name) >= _LETTERS_MIN and (not values or random.random() < 0.5):
            name, kind, text = misspelt(name, names, random), "misspelt", "x"
        elif values:
            kind, text = (str(each) for each in random.choice(values))
        else:
            continue
        pairs.append(f"{quote(name)}={quote(text)}")
        made.append(Mistake(name, kind))
    return "&".join(pairs), made


def _contains(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))
