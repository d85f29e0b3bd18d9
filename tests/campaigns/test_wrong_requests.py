"""A short campaign of wrong requests, and the maker of mistakes itself: every kind is made, and a right request is found."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from random import Random

import httpx
import pytest
from campaigns.wrong_requests.campaign import Requests, Wrong, campaign, complaint, contents, every_operation
from campaigns.wrong_requests.mistakes import Mistake
from tests.api.conftest import settings  # noqa: F401 - the fixture
from tests.api.isolation.objects import objects_of
from tests.api.storefront import Storefront, opened

from ledger.settings import Settings

pytestmark = pytest.mark.anyio

OBJECTS = {"order": ("o",)}


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Storefront]:  # noqa: F811 - the fixture, asked for
    async with opened(settings) as storefront:
        yield storefront


async def test_each_wrong_request_is_refused_by_naming_what_is_wrong(store: Storefront, settings: Settings):  # noqa: F811
    merchant = await store.register()
    own = await objects_of(merchant, "mine")
    assert settings.database_url is not None
    before = contents(settings.database_url)
    assert {"event", "sandbox_charge", "processor_message"} <= before.keys()
    outcome = await campaign(merchant, own, settings.database_url, count=80, seed=7)
    assert outcome.wrong == []
    assert outcome.sent.total() == 80


class _Any(dict[str, tuple[str, ...]]):
    def __missing__(self, key: str) -> tuple[str, ...]:
        return ("x",)


def test_every_operation_gets_every_kind_of_mistake():
    requests = Requests(_Any(), Random(1))
    made = [wrong for wrong, _ in zip(requests, range(3000), strict=False)]
    assert {(wrong.method, wrong.route) for wrong in made} == every_operation()
    kinds = {mistake.kind for wrong in made for mistake in wrong.mistakes}
    assert kinds == {"misspelt", "type", "value", "range", "length", "format"}
    assert {len(wrong.mistakes) for wrong in made} == {0, 1, 2, 3, 4, 5}
    assert made == [wrong for wrong, _ in zip(Requests(_Any(), Random(1)), range(3000), strict=False)]


@pytest.mark.parametrize(
    ("status", "errors", "found"),
    [
        (400, ["amount", "capture_method"], None),
        (400, ["amount"], "does not name [('capture_method', 'misspelt')], but ['amount']"),
        (201, [], "is answered 201"),
        (500, ["amount", "capture_method"], "is answered 500"),
    ],
)
def test_an_answer_that_does_not_name_a_field_is_found(status: int, errors: list[str], found: str | None):
    mistakes = (Mistake("amount", "type"), Mistake("capture_method", "misspelt"))
    wrong = Wrong("POST", "/x", "/x", b"{}", mistakes, (400,))
    body = {"code": "VALIDATION_ERROR", "message": "m", "docUrl": "http://x/docs/errors#VALIDATION_ERROR"}
    answer = httpx.Response(status, text=json.dumps(body | {"errors": [{"field": each} for each in errors]}))
    assert complaint(wrong, answer) == found
