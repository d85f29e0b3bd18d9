"""SQL in every place of every request: it is text like any other, and no part of it is carried out.

The operations come from the router. Each payload calls `nextval` on a sequence that no transaction's end takes back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Final
from urllib.parse import quote

import psycopg
import pytest
from msgspec import inspect
from tests.api.bodies import order
from tests.api.isolation.cases import CASES
from tests.api.isolation.objects import objects_of
from tests.api.isolation.sending import Sender, fields_in, operations
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.sources import nodes

from ledger.settings import Settings

pytestmark = pytest.mark.anyio

_EFFECT: Final = "nextval('injected')"
_BREAKERS: Final = (
    "", "'", "''", "\\'", "')", "'))", '"', '")', "$$", "$1", "%s", "%(merchant_id)s", "1", "-1", "x'::text", "E'\\\\'",
)  # fmt: skip
_ATTACKS: Final = (
    " or 1=1 --",
    f" or {_EFFECT} > 0 --",
    f"; select {_EFFECT}; --",
    f" union select {_EFFECT}, null, null --",
    f" union all select null, {_EFFECT}::text --",
    f" and (select {_EFFECT}) > 0 --",
    f" || {_EFFECT} || '",
    f"; update event set position = {_EFFECT}; --",
    "; drop table event; --",
    f" /* */ or /* */ {_EFFECT} > 0 #",
    f", (select {_EFFECT}) desc --",
    f"); copy (select {_EFFECT}) to program 'true'; --",
)
PAYLOADS: Final = (
    *(breaker + attack for breaker, attack in product(_BREAKERS, _ATTACKS)),
    "%", "_", "\\", "%%", "\\%", "{0}", "{merchant_id}", "${7*7}", "$merchant_id", ":merchant_id", "\u02bc or 1=1", "＇ or 1=1",
)  # fmt: skip
_HEADERS: Final = ("x-api-key", "x-merchant-id", "idempotency-key", "x-request-id")


def text_places() -> list[tuple[tuple[str, str], str]]:
    """Returns every place of every operation at which a request may have a text."""
    found: list[tuple[tuple[str, str], str]] = []
    for key, operation in operations().items():
        names = [f"path.{part[1:-1]}" for part in key[1].split("/") if part.startswith("{")]
        names += [f"query.{each['name']}" for each in operation.spec.parameters if each.get("in") == "query"]
        names += ["query.sortField", "query.sortOrder"]
        if operation.spec.takes is not None:
            names += [f"body.{place}" for place in fields_in(inspect.type_info(operation.spec.takes), "")]
        names += [f"header.{name}" for name in _HEADERS]
        found += [(key, name) for name in dict.fromkeys(names)]
    return found


@pytest.fixture(scope="module")
async def sender(store: Storefront, settings: Settings) -> Sender:
    with psycopg.connect(settings.database_url or "") as connection:
        connection.execute("create sequence injected")
        connection.execute("grant all on sequence injected to public")
    merchant = await store.register()
    return Sender(merchant, await objects_of(merchant, "mine"))


def carried_out(settings: Settings) -> bool:
    """Returns whether any payload has had its effect."""
    with psycopg.connect(settings.database_url or "") as connection:
        row = connection.execute("select is_called from injected").fetchone()
    assert row is not None
    return bool(row[0])


async def inject(sender: Sender, key: tuple[str, str], place: str, payload: str) -> int:
    """Sends a payload at a place of an operation, and returns the answer's status."""
    method, path = key
    where, _, name = place.partition(".")
    headers = {name: payload.encode("ascii", "replace").decode()} if where == "header" else {}
    tried = {} if where == "header" else {place: payload}
    answer = await sender.send(method, path, CASES[key], operations()[key].spec, tried, **headers)
    assert answer.status_code < 500, f"{key} {place} {payload!r}: {answer.text}"
    return answer.status_code


def _portion(every: int) -> Iterator[tuple[tuple[str, str], str, str]]:
    """Yields each payload at one of `every` places, and each place with one of `every` payloads."""
    for number, (key, place) in enumerate(text_places()):
        for payload in PAYLOADS[number % every :: every]:
            yield key, place, payload


async def test_no_text_of_a_request_is_carried_out(sender: Sender, settings: Settings):
    assert len(set(PAYLOADS)) >= 150
    assert not carried_out(settings)
    statuses = [await inject(sender, *one) for one in _portion(len(PAYLOADS))]
    assert len(statuses) >= 2 * len(PAYLOADS)
    assert {200, 400, 401, 404} <= set(statuses)
    assert not carried_out(settings)


@pytest.mark.long
async def test_many_texts_at_every_place_are_not_carried_out(sender: Sender, settings: Settings):
    for one in _portion(50):
        await inject(sender, *one)
    assert not carried_out(settings)


async def test_the_effect_would_be_found(store: Storefront, settings: Settings, sender: Sender):
    """In a statement that is put together from texts, the payloads have their effect."""
    effective = 0
    with psycopg.connect(settings.database_url or "") as connection:
        for payload in PAYLOADS:
            with suppress(psycopg.Error):
                connection.execute(f"select 1 where 'x' = '{payload}'".encode(), prepare=False)
            connection.rollback()  # which takes no number of a sequence back
            row = connection.execute("select is_called from injected").fetchone()
            assert row is not None
            effective += row[0]
            connection.execute("alter sequence injected restart")
            connection.commit()
    assert effective >= 5
    assert not carried_out(settings)


async def test_a_search_is_literal(merchant: Merchant):
    for external_id in ("100%", "a_b", "c\\d", "plain"):
        await merchant.create(order(externalId=external_id, customer={"externalId": "ana"}))
    for text, found in (
        ("%", ["100%"]),
        ("_", ["a_b"]),
        ("\\", ["c\\d"]),
        ("100%", ["100%"]),
        ("1_0", []),
        ("p%n", []),
    ):
        answer = await merchant.get(f"{ORDERS}?search={quote(text, safe='')}")
        assert [each["externalId"] for each in answer.json()["data"]] == found


def test_no_statement_is_put_together_from_values():
    """A text that reaches `execute` or a `Statement` is a constant, a name of one, or made by `psycopg.sql`."""
    suspicious = []
    for path, node in nodes(".execute", ".copy", "Statement("):
        match node:
            case ast.Call(func=ast.Attribute(attr="execute" | "executemany" | "copy"), args=[text, *_]):
                pass
            case ast.Call(func=ast.Name(id="Statement"), args=[_, text]):
                pass
            case _:
                continue
        if _is_put_together(text):
            suspicious.append(f"{path}:{node.lineno} {ast.unparse(text)}")
    assert suspicious == []


def _is_put_together(text: ast.expr) -> bool:
    """Returns whether a text is made of others: an f-string, `+`, `%` or `str.format`. Names of constants may be in it."""
    match text:
        case ast.JoinedStr():
            inside = [part for part in text.values if isinstance(part, ast.FormattedValue)]
            return not all(_is_constant(part.value) or _is_number(part.format_spec) for part in inside)
        case ast.BinOp():
            return True
        case ast.Call(func=ast.Attribute(attr="encode", value=value)):
            return _is_put_together(value)
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant())):
            return True
        case _:
            return False


def _is_constant(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id.isupper()


def _is_number(form: ast.expr | None) -> bool:
    """Returns whether a value is formatted as a number, which no text can be."""
    return form is not None and ast.literal_eval(form.values[0]).endswith("f")  # type: ignore[attr-defined]
