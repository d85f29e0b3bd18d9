"""Collects what is wrong with the fields of one request, so that one 400 names them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from api.errors import ApiError, FieldError
from ledger.domain.rejections import InvalidField

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Struct)

_ERRORS_MAX: Final = 20


class FieldErrors:
    """The wrong fields of a request, whose members are `sent`: each is named once, by its first error.

    Fields that are checked are inside `place`, "" for the body itself.
    """

    def __init__(self, sent: Mapping[str, Any], place: str = "") -> None:
        self._sent = sent
        self._place = place
        self._ranks: dict[str, Mapping[str, int]] = {}
        self._entries: dict[str, list[Raw]] = {}
        self._fields: dict[str, tuple[FieldError, ApiError]] = {}

    def check(self, parse: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Returns what `parse` returns, or None where it raises an error of a field, which is kept."""
        try:
            return parse(*args, **kwargs)
        except ApiError as error:
            self.add(error)
        except InvalidField as refused:
            self.add_rejected(refused)
        return None

    def add_rejected(self, refused: InvalidField) -> None:
        """Keeps what the domain refuses of fields inside the place."""
        for each in (refused, *refused.others):
            problem = FieldError(each.field, each.problem, "INVALID_VALUE")
            self.add(ApiError(400, each.code, each.message, errors=(problem,)))

    def check_alone(self, parse: Callable[[S], Any], sent: S, valid: S, *groups: tuple[str, ...]) -> None:
        """Keeps the errors of single fields: each group of them is parsed in the place of those of `valid`, which
        `parse` accepts. A group is the fields that `parse` compares.
        """
        for names in groups:
            self.check(parse, replace(valid, **{name: getattr(sent, name) for name in names}))

    def inside(self, place: str) -> FieldErrors:
        """Returns the same errors, to which the fields inside a further place are added."""
        inner = FieldErrors(self._sent, f"{self._place}.{place}" if self._place else place)
        inner._fields = self._fields
        return inner

    def add(self, error: ApiError) -> None:
        """Keeps an error of a field inside the place."""
        self.add_of_body(error.within(self._place) if self._place else error)

    def add_of_body(self, error: ApiError) -> None:
        """Keeps an error whose field is named from the body on. Raises one that is not a 400."""
        if error.status != 400:
            raise error
        for each in error.errors:
            self._fields.setdefault(each.field, (each, error))

    def has(self, name: str) -> bool:
        """Returns whether an error of this field inside the place, or of a part of it, is kept."""
        path = f"{self._place}.{name}" if self._place else name
        return any(field == path or field.startswith((f"{path}.", f"{path}[")) for field in self._fields)

    @property
    def are_enough(self) -> bool:
        """Returns whether as many fields are wrong as an answer names."""
        return len(self._fields) >= _ERRORS_MAX

    def refuse(self) -> None:
        """Raises the first error, in the order of the body, with at most twenty of the fields.

        Fields that the body lacks come last. Returns where there is none.
        """
        if self._fields:
            raise self._refusal()

    def refusal(self, first: ApiError) -> ApiError:
        """Returns the error that `refuse` raises, or `first` itself where it names all fields that are wrong."""
        return first if self._fields.keys() <= {each.field for each in first.errors} else self._refusal()

    def _refusal(self) -> ApiError:
        kept = sorted(self._fields.values(), key=lambda each: self._rank(each[0].field))
        first = kept[0][1]
        more = sum(error is not first for _, error in kept)
        rest = f" {more} more field{'s are' if more > 1 else ' is'} wrong: see errors." if more else ""
        errors = tuple(field for field, _ in kept[:_ERRORS_MAX])
        return ApiError(400, first.code, f"{first.message}{rest}", errors=errors)

    def _rank(self, path: str) -> tuple[int, ...]:
        """Returns the place of a field in the body, which sorts like the body."""
        rank, place = [], ""
        for step in path.split("."):
            name, _, index = step.partition("[")
            ranks = self._ranks_at(place)
            rank.append(ranks.get(name, len(ranks)))
            if index:
                rank.append(int(index.removesuffix("]")))
            place = f"{place}.{step}" if place else step
        return tuple(rank)

    def _ranks_at(self, place: str) -> Mapping[str, int]:
        """Returns the order of the members of the object at a path of the body, empty where there is no object."""
        if place not in self._ranks:
            self._ranks[place] = {name: rank for rank, name in enumerate(self._members_at(place))}
        return self._ranks[place]

    def _members_at(self, place: str) -> Mapping[str, Any]:
        if not place:
            return self._sent
        parent, _, step = place.rpartition(".")
        name, _, index = step.partition("[")
        raw = self._members_at(parent).get(name)
        if not isinstance(raw, Raw):
            return {}
        try:
            if index:
                path = place.removesuffix(f"[{index}")
                if path not in self._entries:
                    self._entries[path] = msgspec.json.decode(raw, type=list[Raw])
                raw = self._entries[path][int(index.removesuffix("]"))]
            return msgspec.json.decode(raw, type=dict[str, Raw])
        except (msgspec.MsgspecError, IndexError):
            return {}
