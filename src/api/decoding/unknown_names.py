"""Names of a request that are unknown at their place: one that is misspelt or has an effect elsewhere is refused, any
other is ignored with a warning, or refused for a merchant who wants that (decisions 0009 and 0059).

Never look for unknown names in a body that decodes: structs that forbid unknown fields find them at no cost.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, inspect

from api.decoding.body_notes import BodyNotes, current_notes
from api.decoding.choosing_names import A_PART, CHOICES, chosen_alike
from api.decoding.field_warnings import WarningCode, warn
from api.decoding.foreign_names import advice_on
from api.errors import ApiError, FieldError
from api.response import Headers
from ledger.domain.rejections import sentence
from ledger.processors.cvc_detection import contains_cvc
from ledger.processors.pan_detection import contains_pan

UNKNOWN_FIELD: Final = "UNKNOWN_FIELD"
IGNORED_HEADER: Final = b"Ledger-Ignored-Fields".lower()

_EDITS_MAX: Final = 2
_LETTERS_MIN: Final = 4
_COMPARED_MAX: Final = 50
_NAMED_MAX: Final = 20
_NAME_CHARACTERS_MAX: Final = 80
_SAFE: Final = "[].-_~$@"
_SECRET: Final = re.compile(r"(?:[sr]k_(?:live|test)|whsec|pm|ctoken|tok)_\w{14}", re.ASCII)
"""A key, a secret or a token as Stripe writes it."""

_FOLLOWS: Final = frozenset({"updatedAt"})
"""What each change changes by itself."""


def misspelt(path: str, meant: str) -> ApiError:
    """Returns the 400 about an unknown name at a path, which is almost the known name `meant`."""
    problem = f"is unknown: did you mean {meant}?"
    error = FieldError(path, problem, UNKNOWN_FIELD)
    return ApiError(400, UNKNOWN_FIELD, sentence(path, problem), errors=(error,))


def foreign(path: str, advice: str) -> ApiError:
    """Returns the 400 about a field of other APIs or operations, and what to do instead."""
    problem = f"is unknown here, and has an effect elsewhere: {advice}"
    error = FieldError(path, problem, UNKNOWN_FIELD)
    return ApiError(400, UNKNOWN_FIELD, sentence(path, problem), errors=(error,))


def chooses(path: str, what: str) -> ApiError:
    """Returns the 400 about a field by which other operations choose what they act on: one payment, one document."""
    problem = f"is unknown here, and chooses {what} elsewhere: this operation has no such choice, so leave it out"
    error = FieldError(path, problem, UNKNOWN_FIELD)
    return ApiError(400, UNKNOWN_FIELD, sentence(path, problem), errors=(error,))


def rejected(path: str) -> ApiError:
    """Returns the 400 about a field that only a merchant's setting refuses."""
    field, problem = shown(path), "is unknown here, and settings.unknownFields is REJECT: leave it out"
    error = FieldError(field, problem, UNKNOWN_FIELD)
    return ApiError(400, UNKNOWN_FIELD, sentence(field, problem), errors=(error,))


def note_ignored(names: Mapping[str, str | None]) -> None:
    """Keeps the ignored names of this request for the header of its answer, with a warning of each that has a path.

    The names are those of `UnknownNames.ignored`.
    """
    if not names:
        return
    notes = current_notes()
    notes.ignored = tuple(dict.fromkeys((*notes.ignored, *names)))
    for path in list(names.values())[:_NAMED_MAX]:
        if path is not None:
            warn(shown(path), WarningCode.UNKNOWN_FIELD, "is unknown here and had no effect")


def warn_of_unchanged(answer: bytes, notes: BodyNotes) -> None:
    """Warns of each read-only field of a request whose value is another one than that of the answer, a JSON object:
    its author expects a change that the operation does not make.
    """
    sent = notes.read_only
    if not sent:
        return
    answered = msgspec.json.decode(answer)
    for name, value in sent.items():
        if name not in _FOLLOWS and name in answered and msgspec.json.decode(value) != answered[name]:
            warn(name, WarningCode.READ_ONLY, "is not changed by this operation: the answer has its value")


def ignored_header(names: Sequence[str]) -> Headers:
    """Returns the header with the ignored names of a request, nothing if there are none.

    At most twenty names, percent-encoded, of eighty characters each; `...` takes the place of what is cut.
    """
    if not names:
        return ()
    listed = [shown(name) for name in names[:_NAMED_MAX]] + ["..."] * (len(names) > _NAMED_MAX)
    return ((IGNORED_HEADER, ", ".join(listed).encode()),)


def shown(name: str) -> str:
    """Returns an unknown name as an answer may repeat it: percent-encoded, eighty characters at most, no card data.

    Nor does it have a processor's key or token, which a merchant may have sent in the place of a name.
    """
    if contains_pan(name) or contains_cvc(name) or _SECRET.search(name):
        return "..."
    encoded = quote(name, safe=_SAFE, errors="replace")
    if len(encoded) <= _NAME_CHARACTERS_MAX:
        return encoded
    return encoded[: _NAME_CHARACTERS_MAX - 3].rsplit("%", 1)[0] + "..."


class UnknownNames:
    """The names of one request that are unknown at their place.

    It has `errors` about those that are misspelt or have an effect elsewhere, and the `ignored`: each once for all
    entries of a list, with the path of the first one, or None for a read-only field. `root` is the struct of the
    body, if it is known: what is advised has to be a field of it.
    """

    def __init__(self, root: Any = None) -> None:
        self._root = root
        self.errors: list[ApiError] = []
        self.ignored: dict[str, str | None] = {}
        self._notes = current_notes()
        self._policy = self._notes.policy
        self._meant: dict[tuple[Any, str], str | None] = {}

    def add(self, place: str, name: str, known: Collection[str], kind: Any = None, value: bytes | Raw = b"") -> None:
        """Adds a name at a place, whose `known` names are those of the struct `kind`, with the value that it has."""
        is_read_only = not place and name in self._policy.read_only
        if is_read_only and bytes(value)[:1] in (b"{", b"["):
            # Only a document that was read has an object here: it is no mistake for a field of almost this name.
            self.ignored[name] = None
            return
        key = kind, name
        if key not in self._meant:
            # A body of ten thousand names would occupy the process.
            self._meant[key] = known_name(name, known, by_letters=len(self._meant) < _COMPARED_MAX)
        meant = self._meant[key]
        advice = None if kind is None else advice_on(spelling_of(name), lambda path: self._has(known, path))
        if meant is not None:
            self._refuse(misspelt(f"{place}{name}", meant))
        elif advice is not None:
            self._refuse(foreign(f"{place}{name}", advice))
        elif is_read_only:
            self.ignored[name] = None
            self._notes.read_only = {**self._notes.read_only, name: bytes(value)}
        elif not place and self._refuse_choice(name, known):
            return
        elif self._policy.rejects:
            self._refuse(rejected(f"{place}{name}"))
        else:
            self.ignored.setdefault(_without_indices(place) + name, f"{place}{name}")

    def _has(self, known: Collection[str], path: str) -> bool:
        """Returns whether a field is among those at the place of a name, or a path one in the body."""
        return path in known or _has_path(self._root, tuple(path.split(".")))

    def _refuse_choice(self, name: str, known: Collection[str]) -> bool:
        """Returns whether a name chooses what a request acts on. Such a name is refused, not ignored."""
        spelling = spelling_of(name)
        what = CHOICES.get(spelling)
        if what is None or (what == A_PART and what not in self._policy.choices):
            return False  # a creation has an amount of its own, and may have a total beside it
        alike = chosen_alike(spelling, by_spelling(known))
        if alike is not None:
            self._refuse(misspelt(name, alike))
        elif what in self._policy.choices:
            self._refuse(chooses(name, what))
        return alike is not None or what in self._policy.choices

    def _refuse(self, error: ApiError) -> None:
        if len(self.errors) < _NAMED_MAX:
            self.errors.append(error)

    def refuse(self) -> None:
        """Raises ApiError (400), with the misspelt names, or keeps the ignored ones for the answer's header."""
        note_ignored(self.ignored)
        if self.errors:
            first, problems = self.errors[0], [problem for error in self.errors for problem in error.errors]
            raise ApiError(first.status, first.code, first.message, errors=tuple(problems))


def _without_indices(place: str) -> str:
    """Returns a place in the body, the same for each entry of a list: `lineItems[].`"""
    return "[].".join(step.partition("[")[0] for step in place.split("]."))


def known_name(name: str, known: Collection[str], *, by_letters: bool = True) -> str | None:
    """Returns the known name that an unknown one is meant to be, None if it is another word.

    The two differ in case, `_` and `-`, and `by_letters` in at most two edits of a name of four letters or more. A
    shorter unknown name may have one edit.
    """
    spelling = spelling_of(name)
    best, edits = None, _EDITS_MAX + 1
    for each in known:
        other = spelling_of(each)
        if spelling == other:
            return each
        if by_letters and len(other) >= _LETTERS_MIN:
            distance = _distance(spelling, other)
            if distance < edits and (distance == 1 or len(spelling) >= _LETTERS_MIN):
                best, edits = each, distance
    return best


def by_spelling(known: Collection[str]) -> Mapping[str, str]:
    """Returns known names by their spelling, for many unknown names that are compared with the same ones."""
    return {spelling_of(name): name for name in known}


def spelling_of(name: str) -> str:
    """Returns a name without regard to case, `_` and `-`."""
    return name.replace("_", "").replace("-", "").lower()


def _distance(one: str, other: str) -> int:
    """Returns the edits between two words: letters added, left out, changed or swapped with the next one; 3 means three
    or more.
    """
    if abs(len(one) - len(other)) > _EDITS_MAX or len(set(one) ^ set(other)) > 2 * _EDITS_MAX:
        return _EDITS_MAX + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        earlier, before = before, row
        row = [at]
        for column, its in enumerate(other, 1):
            edits = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != its))
            if at > 1 and column > 1 and letter == other[column - 2] and one[at - 2] == its:
                edits = min(edits, earlier[column - 2] + 1)
            row.append(edits)
        if min(row) > _EDITS_MAX:
            return _EDITS_MAX + 1
    return row[-1]


class _Field(Struct, frozen=True):
    """A field of a struct: its type if that has structs, else None, and its enumerated values by their letters."""

    nested: Any
    choices: Mapping[str, str]


def as_known(value: bytes | Raw, kind: Any, found: UnknownNames, place: str = "") -> bytes | Raw:
    """Returns JSON of a type as its structs know it: without unknown members, which are added to `found`, and with
    enumerated values in the interface's case (contract N10). Returns the same object if that changes nothing.

    `place` is the value's path in the body, with a dot at its end for an object. A value of another type is kept.
    """
    for struct in structs_in(kind):
        if bytes(value).lstrip()[:1] == b"[":
            return _known_entries(value, struct, found, place.removesuffix("."))
        return _known_members(value, struct, found, place)
    return value


def _known_members(value: bytes | Raw, struct: type[Struct], found: UnknownNames, place: str) -> bytes | Raw:
    try:
        members = msgspec.json.decode(value, type=dict[str, Raw])
    except msgspec.ValidationError:  # another type: the field's own error
        return value
    fields = _fields(struct)
    kept: dict[str, Raw] = {}
    for name, raw in members.items():
        field = fields.get(name)
        if field is None:
            found.add(place, name, fields, struct, raw)
        elif field.nested is not None and bytes(raw)[:1] != b'"':
            known = as_known(raw, field.nested, found, f"{place}{name}.")
            kept[name] = raw if known is raw else Raw(known)
        else:
            kept[name] = _known_value(raw, field.choices) if field.choices else raw
    if len(kept) == len(members) and all(kept[name] is raw for name, raw in members.items()):
        return value
    return msgspec.json.encode(kept)


def _known_value(value: Raw, choices: Mapping[str, str]) -> Raw:
    """Returns an enumerated value, or a list of them, in the interface's case; the same object if it is so already."""
    if bytes(value)[:1] != b"[":
        return _known_text(value, choices)
    entries = msgspec.json.decode(value, type=list[Raw])
    known = [_known_text(entry, choices) for entry in entries]
    if all(each is entry for each, entry in zip(known, entries, strict=True)):
        return value
    return Raw(msgspec.json.encode(known))


def _known_text(value: Raw, choices: Mapping[str, str]) -> Raw:
    if bytes(value)[:1] != b'"':
        return value
    text = msgspec.json.decode(value, type=str)
    known = choices.get(text.upper(), text)
    return value if known == text else Raw(msgspec.json.encode(known))


def _known_entries(value: bytes | Raw, struct: type[Struct], found: UnknownNames, place: str) -> bytes | Raw:
    try:
        entries = msgspec.json.decode(value, type=list[Raw])
    except msgspec.ValidationError:
        return value
    known = [_known_members(entry, struct, found, f"{place}[{at}].") for at, entry in enumerate(entries)]
    if all(each is entry for each, entry in zip(known, entries, strict=True)):
        return value
    return msgspec.json.encode([each if isinstance(each, Raw) else Raw(each) for each in known])


@cache
def _fields(struct: type[Struct]) -> Mapping[str, _Field]:
    """Returns the fields of a struct by their names."""
    return {
        field.encode_name: _Field(
            nested=field.type if next(structs_in(field.type), None) is not None else None,
            choices={choice.upper(): choice for choice in _choices(field.type)},
        )
        for field in fields_of(struct)
    }


def _choices(kind: Any) -> Iterator[str]:
    """Yields the enumerated texts of a type: its own, or those of a list."""
    for option in _options_in(kind):
        if isinstance(option, inspect.LiteralType):
            yield from (value for value in option.values if isinstance(value, str))
        elif isinstance(option, inspect.EnumType):
            yield from (each.value for each in option.cls if isinstance(each.value, str))


@cache
def _has_path(kind: Any, names: tuple[str, ...]) -> bool:
    """Returns whether the structs in a type have a field by its name, or one in it by the names that lead there."""
    if not names:
        return True
    of_name = [field.type for each in structs_in(kind) for field in fields_of(each) if field.encode_name == names[0]]
    return any(_has_path(each, names[1:]) for each in of_name)


def structs_in(kind: Any) -> Iterator[type[Struct]]:
    """Yields the structs directly in a type: its own, or those of a list."""
    for option in _options_in(kind):
        if isinstance(option, inspect.StructType):
            yield option.cls


def _options_in(kind: Any) -> Iterator[inspect.Type]:
    """Yields the types that a value of a type may have, those of a list's entries in the place of the list's."""
    for option in options_of(type_of(kind)):
        yield from options_of(option.item_type) if isinstance(option, inspect.ListType) else (option,)


@cache
def type_of(kind: Any) -> inspect.Type:
    """Returns msgspec's description of a type. It takes milliseconds, and a wrong body asks for many."""
    return inspect.type_info(kind)


@cache
def fields_of(struct: type[Struct]) -> Sequence[msgspec.structs.FieldInfo]:
    """Returns a struct's fields, kept for the same reason."""
    return msgspec.structs.fields(struct)


def options_of(kind: inspect.Type) -> Iterator[inspect.Type]:
    """Yields the types inside descriptions and unions."""
    if isinstance(kind, inspect.Metadata):
        yield from options_of(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for option in kind.types:
            yield from options_of(option)
    else:
        yield kind


def require_strict(kind: Any) -> None:
    """Asserts that the structs of a type forbid unknown fields: only then is an unknown name found."""
    for struct in structs_in(kind):
        assert struct.__struct_config__.forbid_unknown_fields, f"{struct.__name__} must forbid unknown fields"
        for field in fields_of(struct):
            require_strict(field.type)
