"""The HTML of messages to payers, as a browser shows it on a phone and on a wide screen."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser
from tests.notifications.test_messages import HOSTILE, KINDS, to

pytestmark = [pytest.mark.anyio, pytest.mark.long]


async def test_every_message_fits_its_screen_loads_nothing_and_runs_nothing(browser: Browser) -> None:
    page = await browser.new_page(viewport={"width": 360, "height": 740})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: asked.append(dialog.message))
    for language in ("es", "en"):
        for kind, write in KINDS.items():
            message = write(to(language), "646180157000000004" if kind == "reminder" else HOSTILE)
            await page.set_content(message.html)
            for width in (360, 1200):
                await page.set_viewport_size({"width": width, "height": 740})
                assert await page.evaluate("document.documentElement.scrollWidth") <= width, (kind, width)
            shown = await page.inner_text("body")
            assert "webhook" in kind or "$1,500.00 MXN" in shown
            assert await page.inner_text("h1") in message.html
            assert await page.evaluate("document.querySelectorAll('script, img, link, a').length") == 0
    assert asked == []
    await page.close()
