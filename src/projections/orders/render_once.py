"""A decorator that renders each order once, because both its row and the request's answer need the bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from ledger.domain.orders.state import Order

T = TypeVar("T")


def render_once(render: Callable[[Order], T]) -> Callable[[Order], T]:
    """Returns `render` with its result kept in the order itself, which never changes."""
    key = f"rendered:{render.__name__}"

    @wraps(render)
    def rendered(order: Order) -> T:
        attributes = order.__dict__
        if key not in attributes:
            attributes[key] = render(order)
        return attributes[key]  # type: ignore[no-any-return]  # set one line above, or by an earlier call

    return rendered
