"""Decodes the bytes of a body to a request struct, with the errors of the fields that cannot be decoded.

Decode bodies only here: a bad body raises one of four families of exceptions. Never pass msgspec's messages on: they
repeat what was sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, inspect

from api.decoding.decoded_names import DecodedNames
from api.decoding.field_errors import FieldErrors
from api.decoding.repeated_names import refuse_own_repeated_names, refuse_repeated_names
from api.decoding.unknown_names import (
    UnknownNames,
    as_known,
    fields_of,
    note_ignored,
    options_of,
    require_strict,
    type_of,
)
from api.errors import ApiError, FieldError, invalid, required

T = TypeVar("T")

BODY: Final = "body"
"""The field of an error about the body as a whole."""

_PATH: Final = re.compile(r"(?: - at `\$\.?([^`]*)`)?\Z")
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
_EXPECTED: Final = re.compile(r"Expected `([^`]*)`, got `[^`]*`")
_RANGE: Final = re.compile(r"Expected `(?:int|float)` (<=|>=) (-?\d+)")
_PATTERN: Final = re.compile(r"Expected `str` matching regex '(.*)'")
_LENGTH: Final = re.compile(r"Expected `(str|array)` of length (<=|>=|==) (\d+)")

_BYTE: Final = re.compile(r"\(byte (\d+)\)\Z")

_WORDS: Final = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "uuid": "a UUID",
    "datetime": "an ISO 8601 date-time such as 2026-01-31T12:00:00Z",
}
_BOUNDS: Final = {"<=": "at most", ">=": "at least", "==": "exactly"}
_UNITS: Final = {"str": "characters", "array": "entries"}


class BodyDecoder(Generic[T]):
    """A decoder of one operation's bodies. Its structs forbid unknown fields: a right body is decoded once.

    With `in_parts`, the caller checks the values of raw fields for repeated names: a large body takes long.
    """

    def __init__(self, schema: type[T], *, in_parts: bool = False) -> None:
        require_strict(schema)
        self._schema = schema
        self._refuse_repeated = refuse_own_repeated_names if in_parts else refuse_repeated_names
        self._names = None if in_parts else DecodedNames(schema)
        self._decode: Callable[[bytes], T] = msgspec.json.Decoder(schema).decode

    def gather(self, body: bytes, place: str = "") -> tuple[T, FieldErrors]:
        """Returns the struct and the errors of its fields. A wrong field has its default, or UNSET if it has none.

        A misspelt name is an error, and so is a name that comes twice; other unknown names are ignored. The caller
        checks what the fields mean, adds the errors of fields inside `place`, and calls `refuse`. Raises ApiError (400)
        if the body is no JSON object.
        """
        with BAD_INPUT_AS_400:
            _check_encoding(body)
            try:
                sent = self._decode(body)
            except msgspec.ValidationError:
                errors = FieldErrors(_members_of(body, self._schema), place)
                self._refuse_repeated(body, errors)
                names = UnknownNames(self._schema)
                known = as_known(body, self._schema, names)
            else:
                errors = FieldErrors(body, place)
                if self._names is None or not self._names.are_single(body, sent):
                    self._refuse_repeated(body, errors)
                return sent, errors
            note_ignored(names.ignored)
            for misspelt in names.errors:
                errors.add_of_body(misspelt)
            try:
                return self._decode(known), errors
            except msgspec.ValidationError:
                return _decode_fields(known, self._schema, errors, self._schema), errors


def _decode_known(body: bytes | Raw, schema: Any, decode: Callable[[Any], T], refused: msgspec.ValidationError) -> T:
    """Decodes the body without its unknown names, and accepts enumerated values in any case.

    Raises ApiError (400) for a misspelt name; if there is none, for the value that is wrong, which was `refused` before
    unknown names were removed.
    """
    names = UnknownNames(schema)
    known = as_known(body, schema, names)
    names.refuse()
    try:
        if known is not body:
            return decode(known)
    except msgspec.ValidationError as error:
        refused = error
    raise _explained(str(refused), schema)


def _check_encoding(body: bytes) -> None:
    if not body.isascii():
        body.decode()  # msgspec skips unknown fields and raw values without checking their encoding


def _members_of(body: bytes | Raw, schema: Any) -> dict[str, Raw]:
    try:
        return msgspec.json.decode(body, type=dict[str, Raw])
    except msgspec.ValidationError as error:
        msgspec.json.decode(body, type=Raw)  # it stopped at the first character: what follows may be no JSON
        raise _explained(str(error), schema) from None


def _decode_fields(body: bytes | Raw, schema: Any, errors: FieldErrors, root: Any, place: str = "") -> Any:
    """Decodes each field of an object by itself, and an object in it likewise. Adds what is wrong to `errors`.

    `place` is the path of the object, with a dot at its end, in a body of the struct `root`.
    """
    members = _members_of(body, schema)
    decoded: dict[str, Any] = {}
    for field in fields_of(schema):
        raw = members.get(field.encode_name)
        path = f"{place}{field.encode_name}"
        if field.required:
            decoded[field.name] = UNSET
        if raw is not None:
            value = _decode_value(raw, field.type, errors, root, path)
            if value is not UNSET:
                decoded[field.name] = value
        elif field.required:
            errors.add_of_body(required(path))
    return schema(**decoded)


def _decode_value(raw: Raw, kind: Any, errors: FieldErrors, root: Any, path: str) -> Any:
    """Returns the value of the field at a path. If it cannot be decoded, adds its errors and returns UNSET."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        message = str(error)
    for option in options_of(type_of(kind)):
        if isinstance(option, inspect.StructType) and bytes(raw)[:1] == b"{":
            return _decode_fields(raw, option.cls, errors, root, f"{path}.")
        if isinstance(option, inspect.ListType) and " - at `$[" in message:
            for entry in options_of(option.item_type):
                if isinstance(entry, inspect.StructType):
                    return _decode_entries(raw, entry.cls, errors, root, path)
    errors.add_of_body(_explained(_within(path, message), root))
    return UNSET


def _decode_entries(raw: Raw, schema: Any, errors: FieldErrors, root: Any, path: str) -> list[Any]:
    """Returns the entries of a list of objects, None for one that is no object, until enough errors are found."""
    decode = msgspec.json.Decoder(schema).decode
    entries: list[Any] = []
    for at, entry in enumerate(msgspec.json.decode(raw, type=list[Raw])):
        try:
            entries.append(decode(entry))
        except msgspec.ValidationError:
            if errors.are_enough:
                break
            value = _decode_value(entry, schema, errors, root, f"{path}[{at}]")
            entries.append(None if value is UNSET else value)
    return entries


def _within(place: str, message: str) -> str:
    """Returns msgspec's message about a value, with the path of the value in the body: it is the field at `place`."""
    problem, _, path = message.partition(" - at `$")
    return f"{problem} - at `$.{place}{path or '`'}"


class FieldDecoder(Generic[T]):
    """A decoder of one field, for a body whose fields are refused one by one."""

    def __init__(self, name: str, schema: Any) -> None:
        require_strict(schema)
        self._name, self._schema = name, schema
        self._decode: Callable[[bytes], T] = msgspec.json.Decoder(schema).decode

    def __call__(self, value: msgspec.Raw) -> T:
        """Returns the value that the JSON decodes to. Raises ApiError (400), with the field's own name."""
        with BAD_INPUT_AS_400:
            try:
                return self._decode(value)
            except msgspec.ValidationError as error:
                refused = error
            try:
                return _decode_known(value, self._schema, self._decode, refused)
            except ApiError as error:
                explained = error
        errors = tuple(FieldError(self._path(each.field), each.message, each.code) for each in explained.errors)
        raise ApiError(400, explained.code, f"{errors[0].field} {errors[0].message}.", errors=errors)

    def _path(self, inner: str) -> str:
        inner = "" if inner == BODY else inner
        separator = "." if inner and not inner.startswith("[") else ""
        return f"{self._name}{separator}{inner}"


class _BadInputAs400:
    """Turns what Python raises about a value that it cannot use into a 400 that does not repeat the value.

    A generator as the context manager takes 4 µs, twice for each body.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, _: object) -> None:
        if kind is None:
            return
        if issubclass(kind, UnicodeError):
            raise invalid(BODY, "must be UTF-8", "INVALID_ENCODING") from None
        if issubclass(kind, RecursionError):
            raise invalid(BODY, "is nested too deeply", "INVALID_JSON") from None
        if issubclass(kind, msgspec.DecodeError):
            raise invalid(BODY, f"must be valid JSON: {_malformed(str(value))}", "INVALID_JSON") from None
        if issubclass(kind, ArithmeticError):
            raise invalid(BODY, "contains a number or a date that is out of range", "OUT_OF_RANGE") from None


BAD_INPUT_AS_400: Final = _BadInputAs400()
"""The context in which a client's value is decoded or parsed. Raises ApiError (400) if Python cannot use the value."""


def _malformed(message: str) -> str:
    """Returns where JSON is malformed, from msgspec's message."""
    byte = _BYTE.search(message)
    return f"it is malformed at byte {byte[1]}" if byte else "it ends before it is complete"


def _explained(message: str, schema: Any) -> ApiError:
    """Returns msgspec's message as an error of the interface."""
    path = found[1] or "" if (found := _PATH.search(message)) else ""
    field = path.replace("paymentMethod.options.card", "paymentMethod.cardDetails") or BODY
    if missing := _MISSING.match(message):
        return required(missing.group(1) if field == BODY else f"{field}.{missing.group(1)}")
    if expected := _EXPECTED.match(message):
        kinds = [_WORDS.get(kind, "another type") for kind in expected.group(1).split(" | ") if kind != "null"]
        return invalid(field, f"must be {' or '.join(kinds)}", "INVALID_TYPE")
    if length := _LENGTH.match(message):
        kind, bound, count = length.groups()
        if (bound, count) == (">=", "1"):
            return invalid(field, "must not be empty", "INVALID_LENGTH")
        return invalid(field, f"must have {_BOUNDS[bound]} {count} {_UNITS[kind]}", "INVALID_LENGTH")
    if limit := _RANGE.match(message):
        return invalid(field, f"must be {_BOUNDS[limit.group(1)]} {limit.group(2)}", "OUT_OF_RANGE")
    if pattern := _PATTERN.match(message):
        return invalid(field, f"must match {pattern.group(1)}", "INVALID_FORMAT")
    if message.startswith("Invalid UUID"):
        return invalid(field, "must be a UUID", "INVALID_FORMAT")
    if message.startswith("Invalid RFC3339"):
        return invalid(field, f"must be {_WORDS['datetime']}", "INVALID_FORMAT")
    if message.startswith("Invalid enum value"):
        accepted = _kinds_at(schema, path)
        values = ", ".join(_values_of(accepted))
        is_object_too = any(isinstance(each, inspect.StructType) for each in accepted)
        return invalid(field, f"must be an object, or {values}" if is_object_too else f"must be one of {values}")
    return invalid(field, "is not valid")


def _kinds_at(schema: Any, path: str) -> list[inspect.Type]:
    """Returns the types that the field at this path accepts."""
    kinds = [type_of(schema)]
    for name in re.findall(r"\w+", re.sub(r"\[[^]]*]", "", path)):
        kinds = [
            kind
            for parent in kinds
            for struct in _unwrapped(parent)
            if isinstance(struct, inspect.StructType)
            for entry in struct.fields
            if entry.encode_name == name
            for kind in _unwrapped(entry.type)
        ]
    return kinds


def _values_of(kinds: Sequence[inspect.Type]) -> list[str]:
    """Returns the enumerated values among these types."""
    literals = [value for kind in kinds if isinstance(kind, inspect.LiteralType) for value in kind.values]
    return list(map(str, literals or [choice.value for kind in kinds for choice in getattr(kind, "cls", ())]))


def _unwrapped(kind: inspect.Type) -> Iterator[inspect.Type]:
    """Yields the types inside descriptions, unions and lists."""
    for option in options_of(kind):
        if isinstance(option, inspect.ListType):
            yield from _unwrapped(option.item_type)
        else:
            yield option
