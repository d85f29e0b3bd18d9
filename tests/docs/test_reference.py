"""The generated pages match the code, and every link and citation has a target."""

import ast
import re

import pytest
from docs import generate
from tests.docs.pages import CONTRACT, PAGES, ROOT, anchors, links, sections
from tests.sources import nodes

SOURCES = sorted(
    path
    for place in ("src", "tests", "property_tests", "seeds")
    for path in (ROOT / place).rglob("*")
    if path.suffix in {".py", ".sql"} and path.parent.name != "docs"
)
_RANGE = re.compile(r"\bN(\d+)(?: to |-)N(\d+)\b")
_POINT = re.compile(r"\b([NI][1-9]\d?)\b")
_LEVELS = {"debug", "info", "warning", "error"}
_SECTION = re.compile(r"(?:[Ss]ections?|[Cc]ontract)[ ,(]+(\d(?:\.\d+)?)\b")


def cited(text):
    """Returns the points and sections of the contract that a text names."""
    points = set(_POINT.findall(text))
    for first, last in _RANGE.findall(text):
        points |= {f"N{number}" for number in range(int(first), int(last) + 1)}
    return points, set(_SECTION.findall(text))


def test_the_generated_pages_match_the_code():
    assert generate.stale() == [], "run `make docs`"


def test_every_citation_of_the_contract_has_a_target():
    known_points = {anchor.upper() for anchor in anchors(CONTRACT) if re.fullmatch(r"[ni]\d+", anchor)}
    known_sections = sections()
    for path in SOURCES:
        points, numbers = cited(path.read_text())
        assert points <= known_points, f"{path}: {points - known_points}"
        assert numbers <= known_sections, f"{path}: section {numbers - known_sections}"


def test_citations_are_found_however_they_are_written():
    text = "(contract N53 to N55), N25-N27, section 8.7, Section 5.3 of the contract, contract 2.2, (contract 4), sections 7"
    points, numbers = cited(text)
    assert points == {"N53", "N54", "N55", "N25", "N26", "N27"}
    assert numbers == {"8.7", "5.3", "2.2", "4", "7"}


def test_the_contract_numbers_every_point_once():
    numbered = re.findall(r'<a id="n(\d+)"></a>N(\d+) ', CONTRACT.read_text())
    assert [(int(anchor), int(name)) for anchor, name in numbered] == [(n, n) for n in range(1, 80)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page):
    for link in links(page):
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{link} has no target"
        if anchor:
            assert anchor in anchors(target), f"{link}: the page has no such anchor"


def test_every_page_can_be_reached_from_the_index():
    index = ROOT / "docs" / "README.md"
    reached, pending = set(), [index]
    while pending:
        page = pending.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = ((page.parent / link.partition("#")[0]).resolve() for link in links(page) if not link.startswith("#"))
        pending += [target for target in targets if target.suffix == ".md"]
    assert {page for page in PAGES if page.is_relative_to(index.parent)} <= reached


def test_the_page_for_operators_lists_every_line_of_the_log():
    """And every name on the page is logged."""
    logged = {
        call.args[0].value
        for _, call in nodes("_log.")
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _LEVELS
        if ast.unparse(call.func.value) == "_log" and isinstance(call.args[0], ast.Constant)
    }
    page = (ROOT / "docs" / "how-to" / "operate.md").read_text()
    table = page[page.index("| event | meaning |") :].partition("\n\n")[0]
    listed = {name for row in table.splitlines() for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])}
    assert len(logged) > 25
    assert logged == listed
