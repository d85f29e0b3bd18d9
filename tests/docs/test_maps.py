"""The map of each top package names its packages, and only modules that exist."""

import ast

import pytest
from tests.docs.pages import ROOT

SRC = ROOT / "src"


@pytest.mark.parametrize("package", ["ledger", "projections", "api"])
def test_a_packages_map_names_its_packages(package):
    text = ast.get_docstring(ast.parse((SRC / package / "__init__.py").read_text()))
    packages = {place.parent.name for place in (SRC / package).glob("*/__init__.py")}
    assert {name for name in packages if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("package", ["ledger", "projections", "api"])
def test_a_packages_map_names_only_what_exists(package):
    text = ast.get_docstring(ast.parse((SRC / package / "__init__.py").read_text()))
    existing = {place.stem for place in SRC.rglob("*")}
    named = set(_names(text))
    assert named <= existing, named - existing


def _names(text):
    """Returns the plain names between backticks: modules, not expressions or paths."""
    return [name for name in text.split("`")[1::2] if name.isidentifier()]
