"""Stripe's lists: newest first, a page at a time, with filters by time."""

from __future__ import annotations

from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any

from campaigns.fake_stripe.books import Object
from campaigns.fake_stripe.errors import invalid, missing
from campaigns.fake_stripe.forms import Tree

_BOUNDS = {"gt": gt, "gte": ge, "lt": lt, "lte": le}


def page(objects: list[Object], parameters: Tree, url: str, *equal: str, **filters: Callable[[Object], Any]) -> Object:
    """Returns the page that the parameters ask for. `equal` are parameters that compare a field of the same name.

    `filters` are those that compare something else.
    """
    limit = parameters.get("limit", 10)
    if not 1 <= limit <= 100:
        raise invalid(
            "This value must be between 1 and 100."
            if limit > 100
            else "This value must be greater than or equal to 1.",
            "limit",
            code="parameter_invalid_integer",
        )
    tests: dict[str, Callable[[Object], Any]] = {**{name: _field(name) for name in equal}, **filters}
    found = [
        each
        for each in reversed(objects)
        if all(test(each) == parameters[name] for name, test in tests.items() if name in parameters)
        and all(_within(each[name], parameters[name]) for name in ("created", "arrival_date") if name in parameters)
    ]
    kind = objects[0]["object"] if objects else "object"
    found.sort(key=lambda each: -each["created"])
    if after := parameters.get("starting_after"):
        found = found[_place(found, after, "starting_after", kind) + 1 :]
        return _list(found[:limit], url, has_more=len(found) > limit)
    if before := parameters.get("ending_before"):
        found = found[: _place(found, before, "ending_before", kind)]
        return _list(found[-limit:], url, has_more=len(found) > limit)
    return _list(found[:limit], url, has_more=len(found) > limit)


def _list(data: list[Object], url: str, *, has_more: bool) -> Object:
    return {"object": "list", "data": data, "has_more": has_more, "url": url}


def _field(name: str) -> Callable[[Object], Any]:
    return lambda each: each.get(name)


def _within(value: int, bounds: Any) -> bool:
    if isinstance(bounds, dict):
        return all(_BOUNDS[name](value, bound) for name, bound in bounds.items())
    return bool(value == bounds)


def _place(found: list[Object], name: str, param: str, kind: str) -> int:
    for index, each in enumerate(found):
        if each["id"] == name:
            return index
    raise missing(kind, name, param, status=400)
