"""The first page, and what the description of the interface states about itself."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from tests.api.openapi.description import DESCRIBED
from tests.api.storefront import Storefront

from api.app import describe_interface
from api.http.request import REQUEST_SCOPE_KEY
from api.system import docs_page
from ledger.settings import Settings

pytestmark = pytest.mark.anyio


async def test_the_first_page_names_what_this_is_and_where_its_reference_is(store: Storefront):
    page = await store.client.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<h1>Payment ledger</h1>" in page.text
    for path in ("/docs", "/openapi.json", "/health/ready"):
        assert f'<a href="{path}">' in page.text
        assert (await store.client.get(path)).status_code in (200, 503)
    assert "ledger merchants create" in page.text


def test_the_description_has_the_version_of_the_interface():
    assert DESCRIBED["info"]["version"] == describe_interface(Settings())["info"]["version"] == "1.0.0"


async def test_the_description_is_made_while_other_requests_are_answered():
    made_in = list[threading.Thread]()
    sent = list[Any]()

    def make() -> dict[str, Any]:
        made_in.append(threading.current_thread())
        return {"openapi": "3.1.0"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    answer_headers: tuple[Any, ...] = ()
    request = SimpleNamespace(answer_headers=answer_headers)
    scope: dict[str, Any] = {"method": "GET", "headers": [], REQUEST_SCOPE_KEY: request}
    endpoint = docs_page.description(make)
    for _ in range(2):
        await endpoint(scope, receive, send)
    assert [each.get("body") for each in sent] == [None, b'{"openapi":"3.1.0"}'] * 2
    assert len(made_in) == 1
    assert made_in[0] is not threading.main_thread()
