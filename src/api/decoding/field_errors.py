"""Collects the errors of one request's fields, so that one 400 names them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, TypeVarTuple

import msgspec
from msgspec import Raw

from api.errors import ApiError, FieldError
from ledger.domain.rejections import InvalidField

A = TypeVarTuple("A")
T = TypeVar("T")

_ERRORS_MAX: Final = 20
_INDEX: Final = re.compile(r"\[([0-9]{1,9})]")  # a misspelt name may have brackets that are no index

_Kept = dict[str, tuple[FieldError, ApiError]]


class FieldErrors:
    """The wrong fields of a request; each is named once, by its first error. Its length is their number.

    `sent` is the request's members, or its body, which is decoded again only to sort the errors. Fields that are
    checked are inside `place`; "" is the body itself.
    """

    __slots__ = ("_kept", "_place", "_sent")

    def __init__(self, sent: Mapping[str, Any] | bytes, place: str = "", kept: _Kept | None = None) -> None:
        self._sent = sent
        self._place = place
        self._kept: _Kept = {} if kept is None else kept

    def __len__(self) -> int:
        return len(self._kept)

    def check(self, parse: Callable[[*A], T], *args: *A) -> T | None:
        """Returns the result of `parse`. If it raises an error of a field, keeps the error and returns None."""
        try:
            return parse(*args)
        except ApiError as error:
            self.add(error)
        except InvalidField as refused:
            self.add_rejected(refused)
        return None

    def add_rejected(self, refused: InvalidField) -> None:
        """Keeps what the domain refuses of fields inside the place."""
        for each in (refused, *refused.others):
            problem = FieldError(each.field, each.problem, each.kind)
            self.add(ApiError(400, each.code, each.message, errors=(problem,)))

    def inside(self, place: str) -> FieldErrors:
        """Returns the same errors, to which the fields inside a further place are added."""
        return FieldErrors(self._sent, f"{self._place}.{place}" if self._place else place, self._kept)

    @property
    def of_body(self) -> FieldErrors:
        """Returns the same errors, for fields that are named from the body on."""
        return FieldErrors(self._sent, "", self._kept)

    def add(self, error: ApiError) -> None:
        """Keeps an error of a field inside the place."""
        self.add_of_body(error.within(self._place) if self._place else error)

    def add_of_body(self, error: ApiError) -> None:
        """Keeps an error that names its field by the path from the body on. Raises an error that is not a 400."""
        if error.status != 400:
            raise error
        for each in error.errors:
            self._kept.setdefault(each.field, (each, error))

    def has(self, *names: str) -> bool:
        """Returns whether an error of one of these fields inside the place, or of a part of one, is kept."""
        if not self._kept:
            return False
        for name in names:
            path = f"{self._place}.{name}" if self._place else name
            if any(field == path or field.startswith((f"{path}.", f"{path}[")) for field in self._kept):
                return True
        return False

    @property
    def are_enough(self) -> bool:
        """Returns whether as many fields are wrong as an answer names."""
        return len(self._kept) >= _ERRORS_MAX

    def refuse(self) -> None:
        """Raises the first error, in the order of the body, with at most twenty of the fields (contract N71).

        Fields that the body lacks come last. An error that is alone is raised as it is: it names the canonical one of
        two names first. Returns if no field is wrong.
        """
        if not self._kept:
            return
        order = _BodyOrder(self._sent)
        kept = sorted(self._kept.values(), key=lambda each: order.rank(each[0].field))
        first = kept[0][1]
        more = sum(error is not first for _, error in kept)
        if not more:
            raise first
        rest = f" {more} more field{'s are' if more > 1 else ' is'} wrong: see errors."
        errors = tuple(field for field, _ in kept[:_ERRORS_MAX])
        raise ApiError(400, first.code, f"{first.message}{rest}", errors=errors)


class _BodyOrder:
    """The order of the fields in a body, whose objects and lists are decoded once each."""

    def __init__(self, sent: Mapping[str, Any] | bytes) -> None:
        self._sent = msgspec.json.decode(sent, type=dict[str, Raw]) if isinstance(sent, bytes) else sent
        self._ranks: dict[str, Mapping[str, int]] = {}
        self._entries: dict[str, list[Raw]] = {}

    def rank(self, path: str) -> tuple[int, ...]:
        """Returns the place of a field in the body, which sorts like the body."""
        rank, place = [], ""
        for step in path.split("."):
            name = step.partition("[")[0]
            ranks = self._ranks_at(place)
            rank += [ranks.get(name, len(ranks)), *map(int, _INDEX.findall(step))]
            place = f"{place}.{step}" if place else step
        return tuple(rank)

    def _ranks_at(self, place: str) -> Mapping[str, int]:
        """Returns the order of the members of the object at a path of the body. Without an object, it is empty."""
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
        except (msgspec.MsgspecError, IndexError, ValueError):  # no object, or a list in a list
            return {}
