"""The words of a page as a browser lays them out."""

from __future__ import annotations

from typing import Final

from playwright.async_api import Page

# A word has letters and digits alone: after an underscore, a hyphen, a slash or a dot a line may end.
_BROKEN: Final = """() => {
  const broken = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    for (const word of texts.currentNode.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      const boxes = [...range.getClientRects()].filter(box => box.width > 0);
      if (new Set(boxes.map(box => Math.round(box.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""


async def broken_words(page: Page) -> list[str]:
    """Returns the words of a page that begin on one line and end on another."""
    found: list[str] = await page.evaluate(_BROKEN)
    return found
