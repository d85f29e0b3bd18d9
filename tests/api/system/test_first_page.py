"""The first page, and what the description of the interface states about itself."""

from __future__ import annotations

import pytest
from tests.api.openapi.description import DESCRIBED
from tests.api.storefront import Storefront

from api.app import describe_interface
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
