"""Stripe's form encoding: `a[b][c]=1`, `a[]=1` and `a[0]=1` as a tree of dicts and lists with strings as leaves."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

from campaigns.fake_stripe.errors import invalid

Tree = dict[str, Any]

_NAME = re.compile(r"^([^\[\]]+)((?:\[[^\[\]]*\])*)$")


def decoded(text: str) -> Tree:
    """Returns the parameters as a tree. Raises StripeError where two parameters contradict each other."""
    tree: Tree = {}
    for name, value in parse_qsl(text, keep_blank_values=True, strict_parsing=False):
        match = _NAME.match(name)
        if match is None:
            raise invalid(f"Invalid parameter name: {name}", name)
        keys = [match[1], *re.findall(r"\[([^\[\]]*)\]", match[2])]
        _put(tree, keys, value, name)
    return tree


def _put(tree: Tree, keys: list[str], value: str, name: str) -> None:
    place = tree
    for key in keys[:-1]:
        found = place.setdefault(key or str(len(place)), {})
        if not isinstance(found, dict):
            raise invalid(f"Invalid object: {name}", name)
        place = found
    last = keys[-1] or str(len(place))
    if isinstance(place.get(last), dict):
        raise invalid(f"Invalid object: {name}", name)
    place[last] = value
