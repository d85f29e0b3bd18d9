"""The error answers of operations, as named components: those that operations share, and those of one operation.

Name an answer by its operation if its codes are not one of the shared sets: its name then stays when another operation
comes to have the same codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from api.http.error_responses import Conflict, Error, TooManyRequests, Unavailable
from api.openapi import components, examples
from api.openapi.error_descriptions import words
from api.openapi.parameters import ANSWER_HEADERS, RATE
from api.operation import ANY, BODY, DECLINES, IDEMPOTENT, PAYMENT, Json, OperationSpec, codes_of
from api.orders.responses import Declined

JSON: Final = "application/json"
IGNORED: Final = "Ledger-Ignored-Fields"
STRUCTS: Final = (Error, Conflict, TooManyRequests, Unavailable, Declined)
"""The bodies of errors."""

_PATH: Final = "#/components/responses/"
_RATED: Final = frozenset({200, 201, 400, 404, 409, 422, 429})  # statuses with RateLimit headers
_REPEATED: Final = frozenset({404, 409, 422})  # statuses that are answered again under the same Idempotency-Key
_SUFFIXES: Final[Mapping[int, str]] = {
    400: "BadRequest",
    401: "Unauthorized",
    404: "NotFound",
    409: "Conflict",
    422: "Unprocessable",
    503: "Unavailable",
}
_SHARED: Final[Mapping[tuple[int, tuple[str, ...]], str]] = {
    **{(status, codes): "".join(map(str.title, codes[0].split("_"))) for status, codes in codes_of(ANY, BODY).items()
       if len(codes) == 1},
    (400, ANY[400]): "InvalidRequest",
    (400, codes_of(ANY, BODY)[400]): "InvalidBody",
    (401, ANY[401]): "Unauthorized",
    (409, IDEMPOTENT[409]): "RequestConflict",
    (503, ANY[503]): "Unavailable",
    (503, codes_of(ANY, PAYMENT)[503]): "ProcessorUnavailable",
}  # fmt: skip
"""The answers of many operations: a status, its codes, and the answer's name."""


class ErrorAnswers:
    """The error answers of all operations that were described, by their names."""

    def __init__(self) -> None:
        self._named: dict[str, Json] = {}
        self._schemas: dict[str, Json] = {}

    def references(self, spec: OperationSpec, *, has_key: bool) -> dict[str, Json]:
        """Returns references to the error answers of an operation, by their statuses."""
        return {str(status): self._reference(spec, status, has_key=has_key) for status in spec.codes}

    def responses(self) -> dict[str, Json]:
        """Returns the answers that were referred to, in alphabetical order."""
        return {name: self._named[name] for name in sorted(self._named)}

    def schemas(self) -> dict[str, Json]:
        """Returns the schemas of their bodies. Generators of clients make a type of each."""
        return self._schemas

    def _reference(self, spec: OperationSpec, status: int, *, has_key: bool) -> Json:
        codes = spec.codes[status]
        shared = _SHARED.get((status, codes))
        name = shared or f"{spec.name[0].upper()}{spec.name[1:]}{_SUFFIXES[status]}"
        replays = spec.replays and status in _REPEATED and shared != "MerchantNotFound"
        body = self._body(name, status, codes, has_order=spec.has_order)
        described = _error(status, codes, body, has_key=has_key, replays=replays)
        known = self._named.setdefault(name, described)
        assert known == described, f"the answers {name} differ: {spec.name} needs one of its own"
        return {"$ref": f"{_PATH}{name}"}

    def _body(self, name: str, status: int, codes: tuple[str, ...], *, has_order: bool) -> Json:
        """Returns a reference to the schema of an error's body. A decline is another body than other errors."""
        declined = tuple(code for code in codes if has_order and code in DECLINES)
        plain = tuple(code for code in codes if code not in declined)
        if not declined:
            return self._with_codes(f"{name.removesuffix('Error')}Error", _struct(status, plain), plain)
        refused = self._with_codes(f"{name}RefusedError", _struct(status, plain), plain)
        every = tuple(code for code in PAYMENT[422] if code in DECLINES)
        schema = {"oneOf": [self._with_codes("DeclinedError", Declined, every), refused]}
        return self._named_schema(f"{name}Error", schema)

    def _with_codes(self, name: str, struct: Any, codes: tuple[str, ...]) -> Json:
        codes_alone = {"properties": {"code": {"enum": list(codes)}}}
        return self._named_schema(name, {"allOf": [components.reference(struct), codes_alone]})

    def _named_schema(self, name: str, schema: Json) -> Json:
        schema |= {"description": f"An error: {name}."}
        known = self._schemas.setdefault(name, schema)
        assert known == schema, f"two errors have the name {name}"
        return components.reference_to(name)


def _struct(status: int, codes: tuple[str, ...]) -> Any:
    if status in (409, 422):
        return Conflict
    if status == 429:
        return TooManyRequests
    return Unavailable if "PROCESSOR_UNAVAILABLE" in codes else Error


def answer(meaning: str, schema: Json, names: Iterable[str], media: str = JSON) -> Json:
    """Returns an answer with these headers."""
    return {"description": meaning, "headers": headers(names), "content": {media: {"schema": schema}}}


def headers(names: Iterable[str]) -> Json:
    """Returns references to headers."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _error(status: int, codes: tuple[str, ...], body: Json, *, has_key: bool, replays: bool) -> Json:
    """Returns an error answer: which codes it may have, and when."""
    meaning = "\n".join(f"- `{code}`: {words(code, status)}" for code in codes)
    rate = list(RATE) if status == 429 else [*RATE, IGNORED] if has_key and status in _RATED else []
    retry = ["Retry-After"] if status in (429, 503) else []
    repeated = ["Idempotent-Replayed"] if replays else []
    found = answer(meaning, body, ["x-request-id", *rate, *retry, *repeated])
    if "REQUEST_IN_PROGRESS" in codes:
        found["headers"]["Retry-After"] = ANSWER_HEADERS["Retry-After"] | {"required": False}
    if errors := {code: examples.error(code) for code in codes if code in examples.MESSAGES}:
        found["content"][JSON]["examples"] = errors
    return found
