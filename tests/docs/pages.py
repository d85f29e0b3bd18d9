"""The pages of the documentation: their prose, blocks of code, anchors and links."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRACT = ROOT / "docs" / "reference" / "contract.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_FENCED = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)|(?:src|href)=\"([^\"]+)\"")


def prose(page):
    """Returns a page without its blocks of code."""
    return _FENCED.sub("", page.read_text())


def blocks(page):
    """Returns the blocks of code of a page in their order: (language and notes, content)."""
    return [(match[2].strip(), match[3]) for match in _FENCED.finditer(page.read_text())]


def anchors(page):
    """Returns every anchor of a page."""
    text = prose(page)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {_slug(heading) for heading in headings} | set(re.findall(r'<a id="([^"]+)">', text))


def links(page):
    """Returns the targets of a page's links, without addresses on other hosts."""
    found = [markdown or html for markdown, html in _LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page)))]
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def sections():
    """Returns the numbers of the contract's sections: those of its headings, and those of single points (`8.7`)."""
    headings = re.findall(r"^#+ (\d+(?:\.\d+)?)\.? ", CONTRACT.read_text(), re.MULTILINE)
    points = [anchor[1:].replace("-", ".") for anchor in anchors(CONTRACT) if re.fullmatch(r"s\d-\d+", anchor)]
    return {*headings, *points}


def _slug(heading):
    """Returns the anchor of a heading, as forges make it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
