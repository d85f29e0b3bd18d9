"""Collects what is wrong with the fields of one body, so that one 400 names them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, TypeVar

from msgspec import Struct

from api.http.errors import ApiError, FieldError
from ledger.domain.rejections import InvalidField

P = ParamSpec("P")
T = TypeVar("T")

_ERRORS_MAX: Final = 20


class FieldErrors:
    """The wrong fields of a body that decodes to `schema`, beginning with those that could not be decoded.

    `place` is where the schema is in the body, "" for the body itself.
    """

    def __init__(self, schema: type[Struct], wrong: Sequence[ApiError] = (), place: str = "") -> None:
        self._order = list(schema.__struct_encode_fields__)
        self._place = place
        self._errors = list(wrong)

    def check(self, parse: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Returns what `parse` returns, or None where it raises an error of a field, which is kept."""
        try:
            return parse(*args, **kwargs)
        except ApiError as error:
            self.add(error)
        except InvalidField as refused:
            problem = FieldError(refused.field, refused.problem, "INVALID_VALUE")
            self.add(ApiError(400, refused.code, refused.message, errors=(problem,)))
        return None

    def add(self, error: ApiError) -> None:
        """Keeps an error of a field of the schema."""
        self._errors.append(error.within(self._place) if self._place else error)

    def has(self, name: str) -> bool:
        """Returns whether an error of this field of the schema is kept."""
        return any(self._name(each) == name for error in self._errors for each in error.errors)

    def refuse(self) -> None:
        """Raises the first error, in the order of the schema, with the fields of all. Returns where there is none."""
        if not self._errors:
            return
        errors = sorted(self._errors, key=lambda error: self._rank(error.errors[0]))
        fields = [field for error in errors for field in error.errors]
        first = errors[0]
        raise ApiError(first.status, first.code, first.message, errors=tuple(fields[:_ERRORS_MAX]))

    def _name(self, error: FieldError) -> str:
        inside = error.field.removeprefix(f"{self._place}.") if self._place else error.field
        return inside.partition(".")[0].partition("[")[0]

    def _rank(self, error: FieldError) -> int:
        name = self._name(error)
        return self._order.index(name) if name in self._order else len(self._order)
