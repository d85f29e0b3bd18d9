"""The kinds of a merchant's settings: for each, its text (`surchargeRate=3.5`, `paymentMethods=CARD,SPEI`), its JSON
value, its bounds, and its types in requests, answers and events.

Check bounds in `allows` only, and never while a row or an event is decoded: what is stored must load, also after a
bound was tightened. The time zone is looked up while a value is read, because deciders read no files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Generic, TypeVar
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from ledger.domain.money import shortest
from ledger.domain.orders.terms import MethodType

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_RATE: Final = re.compile(r"\d{1,7}(\.\d{1,12})?", re.ASCII)
_SERIES: Final = re.compile("[A-Za-z0-9]{1,20}", re.ASCII)
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@([A-Za-z0-9-]{1,63}\.)+[A-Za-z0-9-]{2,63}", re.ASCII
)
_ADDRESS_MAX: Final = 254
_WHOLE: Final = re.compile(r"\d{1,9}", re.ASCII)
_NOTHING: Final = frozenset({"", "null", "none", "off"})
_SWITCH: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


class Kind(Generic[T]):
    """A kind of setting, whose values are of type T.

    `choices` completes the setting's name, as in "timeZone" "must be …". `sent` is the type of a request's member,
    `shown` that of an answer's, `stored` that of an event's field; None means the setting's own type. Only an
    operator changes a setting that is `operators_only`.
    """

    choices: str
    sent: Any
    shown: Any = None
    stored: Any = None
    operators_only: bool = False

    def member(self) -> tuple[Any, Any]:
        """Returns the type and the default of a request's member, in which null means an absent one."""
        return self.sent | None, None

    def from_text(self, text: str) -> Any:
        """Returns the JSON value that an operator's text means. Raises ValueError or KeyError."""
        raise NotImplementedError

    def read(self, value: Any) -> T:
        """Returns the setting's value from a JSON value of the type `sent`. Raises ValueError or OSError."""
        raise NotImplementedError

    def allows(self, value: T) -> bool:  # noqa: ARG002 - a kind without bounds allows each
        """Returns whether the value is within the setting's bounds."""
        return True

    def normal(self, value: T) -> T:
        """Returns the form of an allowed value that is stored: equal values have one form."""
        return value

    def from_stored(self, value: Any) -> T:
        """Returns the setting's value from an event's field. Never refuses one."""
        return value  # type: ignore[no-any-return] # the field has the setting's own type


class Rate(Kind[Decimal | None]):
    """A decimal number, or none. A request sends it as a number or a string, of which each digit counts."""

    shown = str | None

    def __init__(self, schema: Mapping[str, Any], is_allowed: Callable[[Decimal], bool], choices: str) -> None:
        self.sent = Annotated[Raw, Meta(extra_json_schema={"type": ["number", "string", "null"], **schema})]
        self._is_allowed = is_allowed
        self.choices = choices

    def member(self) -> tuple[Any, Any]:
        return self.sent | UnsetType, UNSET

    def from_text(self, text: str) -> str:
        return text

    def read(self, value: Raw | str) -> Decimal | None:
        if isinstance(value, Raw):
            value = msgspec.json.decode(value, type=str) if bytes(value)[:1] == b'"' else bytes(value).decode()
        text = value.strip()
        if text.lower() in _NOTHING:
            return None
        if not _RATE.fullmatch(text):
            raise ValueError(text)
        return Decimal(text)

    def allows(self, value: Decimal | None) -> bool:
        return value is None or (value.is_finite() and self._is_allowed(value))

    def normal(self, value: Decimal | None) -> Decimal | None:
        return shortest(value) if value else None  # a rate of zero is none: orders show null for both


class Whole(Kind[int]):
    """A whole number from `least` to `most`."""

    def __init__(self, least: int, most: int, choices: str = "must be") -> None:
        self._least, self._most = least, most
        self.choices = f"{choices} a whole number from {least} to {most}"
        self.sent = Annotated[int, Meta(ge=least, le=most)]

    def from_text(self, text: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise ValueError(text)
        return int(text)

    def read(self, value: int) -> int:
        return value

    def allows(self, value: int) -> bool:
        return self._least <= value <= self._most


class RequestLimit(Whole):
    """A rate limit of each API key, which only an operator changes. It is None until an operator sets it."""

    stored = int
    operators_only = True

    def __init__(self, most: int) -> None:
        super().__init__(0, most)
        self.choices += "; 0 means unlimited"
        self.sent = Annotated[int, Meta(ge=0)]


class Switch(Kind[bool]):
    """True or false."""

    choices = "must be true or false"
    sent = bool

    def from_text(self, text: str) -> bool:
        return _SWITCH[text.lower()]

    def read(self, value: bool) -> bool:
        return value


class Methods(Kind[tuple[MethodType, ...]]):
    """One payment method or more."""

    choices = f"must be a list of one or more of {', '.join(MethodType)}"
    sent = Annotated[
        list[Annotated[str, Meta(extra_json_schema={"enum": list(MethodType)})]],
        Meta(extra_json_schema={"minItems": 1}),
    ]
    stored = tuple[str, ...]

    def from_text(self, text: str) -> list[str]:
        return [word for word in text.split(",") if word.strip()]

    def read(self, value: Sequence[str]) -> tuple[MethodType, ...]:
        return tuple(MethodType(word.strip().upper()) for word in value)

    def allows(self, value: tuple[MethodType, ...]) -> bool:
        return bool(value)

    def from_stored(self, value: tuple[str, ...]) -> tuple[MethodType, ...]:
        return tuple(map(MethodType, value))


class TimeZone(Kind[str]):
    """A name of the IANA database of time zones."""

    choices = "must be a time zone of the IANA database, such as America/Mexico_City"
    sent = Annotated[str, Meta(max_length=64)]

    def from_text(self, text: str) -> str:
        return text

    def read(self, value: str) -> str:
        return ZoneInfo(value.strip()).key


class OneOf(Kind[E]):
    """A member of an enumeration, in any case."""

    shown = str

    def __init__(self, members: type[E]) -> None:
        self._members = members
        self.choices = f"must be one of {', '.join(members)}"
        self.sent = Annotated[str, Meta(extra_json_schema={"enum": [member.value for member in members]})]

    def from_text(self, text: str) -> str:
        return text

    def read(self, value: str) -> E:
        return self._members(value.strip().upper())


class Series(Kind[str | None]):
    """One to twenty letters and digits, or none."""

    shown = str | None
    choices = "must be 1 to 20 letters and digits, or none"
    sent = Annotated[str, Meta(extra_json_schema={"pattern": f"^{_SERIES.pattern}$", "maxLength": 20})] | None

    def member(self) -> tuple[Any, Any]:
        return self.sent | UnsetType, UNSET

    def from_text(self, text: str) -> str | None:
        return None if text.lower() in _NOTHING else text

    def read(self, value: str | None) -> str | None:
        return None if value is None else value.strip()

    def allows(self, value: str | None) -> bool:
        return value is None or _SERIES.fullmatch(value) is not None


class Address(Kind[str | None]):
    """An e-mail address, or none."""

    shown = str | None
    choices = "must be an e-mail address of at most 254 characters, or none"
    sent = Annotated[str, Meta(extra_json_schema={"format": "email", "maxLength": 254})] | None

    def member(self) -> tuple[Any, Any]:
        return self.sent | UnsetType, UNSET

    def from_text(self, text: str) -> str | None:
        return None if text.lower() in _NOTHING else text

    def read(self, value: str | None) -> str | None:
        return None if value is None else value.strip()

    def allows(self, value: str | None) -> bool:
        return value is None or (len(value) <= _ADDRESS_MAX and _ADDRESS.fullmatch(value) is not None)


class Days(Kind[tuple[int, ...]]):
    """At most `count` whole numbers of days up to `most`. Each is kept once, the largest first."""

    def __init__(self, count: int, most: int) -> None:
        self._count, self._most = count, most
        self.choices = f"must be at most {count} whole numbers from 0 to {most}, or none"
        schema = {"maxItems": count, "items": {"type": "integer", "minimum": 0, "maximum": most}}
        self.sent = Annotated[list[int], Meta(extra_json_schema=schema)]

    def from_text(self, text: str) -> list[int]:
        words = [] if text.lower() in _NOTHING else [word.strip() for word in text.split(",")]
        if not all(_WHOLE.fullmatch(word) for word in words):
            raise ValueError(text)
        return [int(word) for word in words]

    def read(self, value: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(set(value), reverse=True))

    def allows(self, value: tuple[int, ...]) -> bool:
        return len(value) <= self._count and all(0 <= each <= self._most for each in value)
