"""A headless Chromium of the system, and the service on a port of the loopback for it to visit."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright, expect
from tests.api.conftest import settings  # noqa: F401 - the fixture
from tests.serving import served

from ledger.settings import Settings

expect.set_options(timeout=60_000)  # a busy machine renders a page for many seconds

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Returns the path of Chromium: LEDGER_TEST_CHROMIUM, or the one on PATH."""
    return os.environ.get("LEDGER_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("no chromium on this machine: `apt-get install chromium`, or name one in LEDGER_TEST_CHROMIUM")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture(scope="module")
async def address(settings: Settings) -> AsyncIterator[str]:  # noqa: F811 - the fixture, asked for
    async with served(settings) as url:
        yield url
