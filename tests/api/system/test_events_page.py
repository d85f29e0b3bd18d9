"""The page about events: every kind has a row."""

from __future__ import annotations

import re

import pytest
from tests.api.storefront import Storefront

from ledger.domain.public_events.kinds import KINDS

pytestmark = pytest.mark.anyio


async def test_every_kind_has_a_row_with_its_meaning(store: Storefront):
    answer = await store.client.get("/docs/events")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    rows = re.findall(r'<tr id="([\w.]+)"><td data-column="kind">.*?</td><td data-column="announced for">', answer.text)
    assert rows == [kind.name for kind in KINDS]
    assert "A payment order became COMPLETED: it is paid." in answer.text
    first, reference = (await store.client.get("/")).text, (await store.client.get("/openapi.json")).json()
    assert 'href="/docs/events"' in first
    assert "(/docs/events)" in reference["info"]["description"]
