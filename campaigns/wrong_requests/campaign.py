"""Sends wrong requests to every operation of a merchant, and compares the database before and after."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import httpx
import psycopg
from msgspec import Struct
from psycopg import sql
from tests.api.isolation.cases import CASES
from tests.api.isolation.objects import Objects
from tests.api.isolation.sending import operations
from tests.api.openapi.description import DESCRIBED
from tests.api.storefront import JSON, Merchant

from campaigns.wrong_requests.mistakes import BodyMistakes, Mistake, query_mistakes

_BODIES: Final = (b"", b"{", b"[]", b'"x"', b"7", b"\xff", b'{"a":1}{', b"null", b"[" * 5000)
_BUSY: Final = frozenset({"api_key_use", "service_process"})
"""Tables that change beside a refused request: when a key was used, and which processes run."""

# Where an answer may name a field by its own name instead of the one that the request has.
_CANONICAL: Final = (
    (r"^externalMerchantReference$", "externalId"),
    (r"^isVirtualTerminal$", "virtualTerminal"),
    (r"^items\b", "lineItems"),
    (r"^fiscal(Data|Config)\b", "customerFiscalData"),
    (r"^paymentMethod\.options\.card\b", "paymentMethod.cardDetails"),
)


class Wrong(Struct, frozen=True):
    """A wrong request. Without mistakes, its body or its path is wrong as a whole."""

    method: str
    route: str
    path: str
    content: bytes | None
    mistakes: Sequence[Mistake]
    statuses: Sequence[int]


class Requests:
    """Makes wrong requests of every kind to all operations in turn, with a merchant's own objects in their paths."""

    def __init__(self, own: Objects, random: Random) -> None:
        self._own = own
        self._random = random

    def __iter__(self) -> Iterator[Wrong]:
        routes = sorted(CASES)
        while True:
            self._random.shuffle(routes)
            for method, route in routes:
                wrong = self._wrong(method, route)
                if wrong is not None:
                    yield wrong

    def _wrong(self, method: str, route: str) -> Wrong | None:
        """Returns a wrong request to an operation, None for one that takes nothing."""
        random = self._random
        described = DESCRIBED["paths"][route][method.lower()]
        parameters = [each for each in described["parameters"] if each.get("in") == "query"]
        places = [place for place in CASES[method, route].places if place.startswith("path.")]
        kinds = ["query"] * 3 * bool(parameters) + ["body"] * 12 * ("requestBody" in described)
        kinds += ["path"] * bool(places) + ["no JSON"] * ("requestBody" in described)
        if not kinds:
            return None
        kind = random.choice(kinds)
        path = self._path(method, route, is_absent=kind == "path")
        content: bytes | None = None
        mistakes: list[Mistake] = []
        statuses: tuple[int, ...] = (400,)
        if "requestBody" in described:
            bodies = self._bodies(method, route, described)
            content = json.dumps(random.choice(bodies)).encode()
        count = random.choice((1, 1, 2, 3, 5))
        if kind == "query":
            query, mistakes = query_mistakes(parameters, count, random)
            path += f"?{query}"
        elif kind == "body":
            schema = described["requestBody"]["content"]["application/json"]["schema"]
            maker = BodyMistakes(schema, DESCRIBED["components"]["schemas"])
            body, mistakes = maker.make(random.choice(bodies), count, random)
            content = json.dumps(body).encode()
        elif kind == "path":
            statuses = (400, 404)
        else:
            content = random.choice(_BODIES[1:])
        if kind in {"query", "body"} and not mistakes:
            return None
        return Wrong(method, route, path, content, mistakes, statuses)

    def _bodies(self, method: str, route: str, described: Mapping[str, Any]) -> list[Any]:
        examples = described["requestBody"]["content"]["application/json"].get("examples", {})
        own = CASES[method, route].body
        return [each["value"] for each in examples.values()] + ([] if own is None else [own])

    def _path(self, method: str, route: str, *, is_absent: bool) -> str:
        case, path = CASES[method, route], route
        for place, kind in case.places.items():
            if place.startswith("path."):
                own = self._own[case.own.get(place, str(kind))][0]
                value = str(UUID(int=self._random.getrandbits(128), version=4)) if is_absent else own
                path = path.replace(f"{{{place.partition('.')[2]}}}", quote(value, safe=""))
        return path


async def send(merchant: Merchant, wrong: Wrong) -> httpx.Response:
    """Sends a wrong request."""
    headers = merchant.key | ({} if wrong.content is None else JSON)
    return await merchant.client.request(wrong.method, wrong.path, content=wrong.content, headers=headers)


def complaint(wrong: Wrong, answer: httpx.Response) -> str | None:
    """Returns what is missing in the answer to a wrong request, None if it is as it should be."""
    if answer.status_code not in wrong.statuses:
        return f"is answered {answer.status_code}"
    said = answer.json()
    if not said.get("docUrl", "").endswith(f"#{said['code']}") or not said.get("message"):
        return "has no docUrl or no message"
    named = {_canonical(each["field"]) for each in said.get("errors", ())}
    missing = [each for each in wrong.mistakes if not _is_named(_canonical(each.field), named)]
    if missing:
        return f"does not name {[(each.field, each.kind) for each in missing]}, but {sorted(named)}"
    return None


def _is_named(field: str, named: set[str]) -> bool:
    return any(each == field or each.startswith((f"{field}.", f"{field}[")) for each in named)


def _canonical(field: str) -> str:
    for pattern, name in _CANONICAL:
        field = re.sub(pattern, name, field)
    return field


def contents(url: str) -> dict[str, str]:
    """Returns a digest of every table of the ledger that a refused request must leave as it is."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "select c.relname from pg_class c where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace"
        ).fetchall()
        return {
            name: str(
                connection.execute(
                    sql.SQL(
                        "select md5(coalesce(string_agg(md5(t::text), '' order by md5(t::text)), '')) from {} t"
                    ).format(sql.Identifier(name))
                ).fetchone()
            )
            for (name,) in tables
            if name not in _BUSY
        }


class Outcome(Struct):
    """What a campaign found: how many requests of each kind were sent, and what is wrong."""

    sent: Counter[str]
    wrong: list[str]


async def campaign(merchant: Merchant, own: Objects, url: str, *, count: int, seed: int) -> Outcome:
    """Sends wrong requests and returns what was not as it should be."""
    outcome = Outcome(Counter(), [])
    before = contents(url)
    for number, wrong in enumerate(Requests(own, Random(seed))):
        if number == count:
            break
        answer = await send(merchant, wrong)
        outcome.sent["; ".join(sorted({each.kind for each in wrong.mistakes})) or "whole"] += 1
        if (problem := complaint(wrong, answer)) is not None:
            sent = (wrong.content or b"").decode(errors="replace")[:800]
            outcome.wrong.append(f"{wrong.method} {wrong.path} {sent}\n  {problem}\n  {answer.text[:600]}")
    after = contents(url)
    outcome.wrong += [f"{name} has changed" for name in before if before[name] != after[name]]
    return outcome


def every_operation() -> set[tuple[str, str]]:
    """Returns the operations that take something which can be wrong."""
    return {
        key
        for key, found in operations().items()
        if found.takes_parameters or found.spec.takes or any(place.startswith("path.") for place in CASES[key].places)
    }
