"""No merchant reaches another's objects: a foreign id is answered like an absent one, by every operation.

Two merchants that are alike send the same requests, one with the ids of a third merchant's objects, the other with ids
of nothing. Their answers are equal byte for byte, but for ids and times. The operations come from the router.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote
from uuid import uuid4

import anyio
import httpx
import psycopg
import pytest
from msgspec import inspect
from tests.api.isolation.cases import CASES, NOTHING, WITHOUT_A_MERCHANT
from tests.api.isolation.objects import KINDS, SUBSCRIPTIONS, absent, objects_of
from tests.api.isolation.sending import Sender, fields_in, operations
from tests.api.storefront import ORDERS, Merchant, Storefront

from api.app import routes
from api.http.dependencies import DependencyHolder
from api.http.endpoint import Endpoint, ScopedOperation
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

_NAMES_AN_OBJECT: Final = re.compile(
    r"(.*\.)?(id|ids|\w+Ids?|reference|\w+Reference|clabe|search|cursor)(\[\])?", re.ASCII
)
_VOLATILE: Final = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\bPO[0-9A-HJKMNP-TV-Z]{10}\b|\d{4}-\d\d-\d\dT[\d:.]+Z|req-[0-9a-f-]+"
    r"|sk_test_\w+|\"hint\":\"\w+\"|\b(?:sbx|sandbox)[-_]\w+"
)
_OWN_HEADERS: Final = frozenset({"x-request-id", "content-length"})


def places(path: str, operation: ScopedOperation) -> set[str]:
    """Returns the places of an operation at which an id may be sent, by their names."""
    found = {f"path.{name}" for name in re.findall(r"{(\w+)}", path)}
    found |= {f"query.{each['name']}" for each in operation.spec.parameters if each.get("in") == "query"}
    if operation.spec.takes is not None:
        found |= {f"body.{place}" for place in fields_in(inspect.type_info(operation.spec.takes), "")}
    named = {place for place in found if _NAMES_AN_OBJECT.fullmatch(place.partition(".")[2])}
    return named | ({"path.name"} & found)


def test_every_operation_has_a_case_for_each_of_its_ids():
    found = {key: places(key[1], operation) for key, operation in operations().items()}
    assert found.keys() == CASES.keys(), "enter the operation in tests/api/isolation/cases.py"
    for key, named in found.items():
        assert named == CASES[key].places.keys(), f"{key}: enter each place in tests/api/isolation/cases.py"
        kinds = {kind for kind in CASES[key].places.values() if isinstance(kind, str)}
        assert kinds <= set(KINDS), f"{key}: make an object of the kind in tests/api/isolation/objects.py"


def test_every_other_route_has_no_merchant():
    others = {each.path for each in routes(Settings(), DependencyHolder()) if not isinstance(each.endpoint, Endpoint)}
    assert others == WITHOUT_A_MERCHANT.keys()


def plain(answer: httpx.Response, *sent: str) -> tuple[int, list[tuple[str, str]], str]:
    """Returns an answer without ids, times, and what its sender has ever sent: it may have become an id of its own."""
    text = answer.text
    for value in sent:
        text = text.replace(json.dumps(value)[1:-1], "SENT")
    headers = sorted((name, value) for name, value in answer.headers.items() if name not in _OWN_HEADERS)
    return answer.status_code, headers, _VOLATILE.sub("ID", text)


class Scene:
    """Two merchants that are alike, and a third whose objects one of them tries to reach."""

    def __init__(self, owner: Sender, intruder: Sender, control: Sender, as_of: str, database_url: str) -> None:
        self.owner, self.intruder, self.control = owner, intruder, control
        self.as_of = as_of
        self._database_url = database_url
        self._ids = {value for values in owner.own.values() for value in values}

    def events(self) -> int:
        """Returns the number of events in the owner's log."""
        with psycopg.connect(self._database_url) as connection:
            row = connection.execute(
                "select count(*) from event where merchant_id = %s", [self.owner.merchant.merchant_id]
            ).fetchone()
        assert row is not None
        return int(row[0])

    async def compare(
        self, key: tuple[str, str], tried: Mapping[str, str], more: Mapping[str, str] | None = None
    ) -> str | None:
        """Sends a request with foreign ids and the same with absent ones, both with `more` values. Returns how the
        answers differ.
        """
        method, path = key
        case, spec = CASES[key], operations()[key].spec
        missing = {place: absent(value) for place, value in tried.items()}
        foreign = await self.intruder.send(method, path, case, spec, {**tried, **(more or {})})
        nothing = await self.control.send(method, path, case, spec, {**missing, **(more or {})})
        assert foreign.status_code < 500, f"{key} {tried}: {foreign.text}"
        shown = {value for value in self._ids - set(self.intruder.sent) if value in foreign.text}
        if shown:
            return f"{key} {tried} shows {shown}"
        ours, theirs = plain(foreign, *self.intruder.sent), plain(nothing, *self.control.sent)
        return None if ours == theirs else f"{key} {tried}:\n{ours}\nis not\n{theirs}"


@pytest.fixture(scope="module")
async def scene(store: Storefront, settings: Settings) -> Scene:
    merchants = [await store.register() for _ in range(3)]
    names = ("other", "mine", "mine")
    owner, intruder, control = [
        Sender(merchant, await objects_of(merchant, name)) for merchant, name in zip(merchants, names, strict=True)
    ]
    assert set(owner.own) == set(KINDS)
    assert settings.database_url is not None
    as_of = await _alike_at(intruder.merchant, control.merchant)
    return Scene(owner, intruder, control, as_of, settings.database_url)


async def _alike_at(one: Merchant, other: Merchant) -> str:
    """Returns a time at which the worker had recorded as much for both merchants: answers show how far a log went."""
    with anyio.fail_after(30):
        while True:
            # Both clocks were moved, and one of them by some milliseconds more: its time is the future of the other.
            as_of = min([(await each.get("/api/sandbox/clock")).json()["now"] for each in (one, other)])
            summaries = [(await each.get(f"/api/v1/summary?asOf={quote(as_of)}")).json() for each in (one, other)]
            if summaries[0]["position"] == summaries[1]["position"]:
                return as_of
            await anyio.sleep(0.1)


async def test_a_foreign_id_is_answered_like_an_absent_one(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("api.sandbox.find_payment._WAIT_S", 0.0)
    before, differences, count = scene.events(), [], 0
    for key, case in CASES.items():
        named = {place: kind for place, kind in case.places.items() if not isinstance(kind, NOTHING)}
        trials = [{place: value} for place, kind in named.items() for value in scene.owner.own[str(kind)]]
        inside = {place: scene.owner.own[str(kind)][0] for place, kind in named.items() if place.startswith("path.")}
        for tried in [*trials, *([inside] if len(inside) > 1 else [])]:
            if (difference := await scene.compare(key, tried)) is not None:
                differences.append(difference)
            count += 1
    assert differences == []
    assert count >= 50
    assert scene.events() == before, "the owner's log grew"


async def test_the_past_of_a_foreign_id_is_answered_like_that_of_an_absent_one(scene: Scene):
    """Of every operation that takes `asOf`, the lists included, at a time at which the owner had all objects."""
    differences, asked = [], set()
    for key, case in CASES.items():
        if not any(each["name"] == "asOf" for each in operations()[key].spec.parameters):
            continue
        for place, kind in case.places.items():
            if isinstance(kind, NOTHING):
                continue
            for value in scene.owner.own[kind]:
                difference = await scene.compare(key, {place: value}, {"query.asOf": scene.as_of})
                differences += [] if difference is None else [difference]
                asked.add((key[1], place))
    assert differences == []
    assert {(ORDERS, "query.customerId"), (SUBSCRIPTIONS, "query.planId"), (f"{ORDERS}/{{id}}", "path.id")} <= asked


async def test_the_header_names_a_foreign_merchant_like_an_absent_one(scene: Scene):
    for (method, path), case in CASES.items():
        spec = operations()[method, path].spec
        foreign, nothing = [
            await scene.intruder.send(method, path, case, spec, {}, **{"x-merchant-id": str(merchant_id)})
            for merchant_id in (scene.owner.merchant.merchant_id, uuid4())
        ]
        assert foreign.status_code == 404
        assert plain(foreign) == plain(nothing)


async def test_the_comparison_finds_what_it_looks_for(scene: Scene):
    """The owner's own request differs from one about nothing."""
    order_id = scene.owner.own["order"][0]
    own = await scene.owner.merchant.get(f"{ORDERS}/{order_id}")
    nothing = await scene.control.merchant.get(f"{ORDERS}/{uuid4()}")
    assert plain(own, order_id) != plain(nothing)
    assert own.status_code == 200


async def test_a_foreign_cursor_shows_nothing_of_its_merchant(scene: Scene):
    cursor = scene.owner.own["cursor"][0]
    answer = await scene.intruder.merchant.get(f"{ORDERS}?cursor={quote(cursor, safe='')}")
    own = await scene.intruder.merchant.get(f"{ORDERS}?limit=100")
    known = {order["id"] for order in own.json()["data"]}
    assert answer.status_code == 200
    assert {order["id"] for order in answer.json()["data"]} <= known


async def test_a_foreign_cursor_of_the_past_shows_nothing_of_its_merchant(scene: Scene):
    page = (await scene.owner.merchant.get(f"{ORDERS}?asOf={scene.as_of}&limit=1")).json()
    cursor = quote(page["pagination"]["nextCursor"], safe="")
    answer = await scene.intruder.merchant.get(f"{ORDERS}?asOf={scene.as_of}&cursor={cursor}")
    own = await scene.intruder.merchant.get(f"{ORDERS}?limit=100")
    assert answer.status_code == 200
    assert {order["id"] for order in answer.json()["data"]} <= {order["id"] for order in own.json()["data"]}
