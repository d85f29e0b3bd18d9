"""The map at the entrance of each package shows every room."""

import ast

import pytest
from tests.docs.pages import ROOT

SRC = ROOT / "src"


@pytest.mark.parametrize("package", ["ledger", "projections", "api"])
def test_a_packages_map_shows_its_rooms(package):
    text = ast.get_docstring(ast.parse((SRC / package / "__init__.py").read_text()))
    rooms = {place.parent.name for place in (SRC / package).glob("*/__init__.py")}
    assert {room for room in rooms if f"`{room}`" not in text} == set()


@pytest.mark.parametrize("package", ["ledger", "projections", "api"])
def test_a_packages_map_shows_nothing_that_is_not_there(package):
    text = ast.get_docstring(ast.parse((SRC / package / "__init__.py").read_text()))
    there = {place.stem for place in SRC.rglob("*")}
    named = set(_names(text))
    assert named <= there, named - there


def _names(text):
    """The plain names between backticks: modules, not expressions or paths."""
    return [name for name in text.split("`")[1::2] if name.isidentifier()]
