"""The query of the order list, with both families of names (contract N50 and N53 to N56).

The rule a stranger would break: a value that is not understood is a 400, never a default; a filter that silently does
nothing shows a merchant other orders than it asked for. Names that are not known are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Final
from urllib.parse import parse_qs

import msgspec

from api.fields.values import moment
from api.http.errors import conflicting, invalid
from ledger.domain.orders.statuses import OrderStatus
from projections.lists.pages import OrderQuery, parse_cursor

LIMIT_MAX: Final = 100
LIMIT_DEFAULT: Final = 20

_FIELDS_MAX: Final = 100
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
TEXT_MAX: Final = 255
GIVEN_ONCE: Final = frozenset(
    (
        "page", "limit", "offset", "cursor", "dateFrom", "dateTo", "startDate", "endDate", "sortField", "sortOrder",
        "customerId", "includeRelatedCustomers", "excludeOverdue", "search",
    )
)  # fmt: skip
"""Every parameter that may be there once; `status` may be there several times."""
_LAST_MOMENT: Final = time(23, 59, 59, 999_999)


def parse_order_query(query: bytes, now: datetime) -> OrderQuery:
    """The list that a query string asks for. `now` is aware, in the merchant's time zone. Raises ApiError (400)."""
    given = _parameters(query)
    limit = _whole(given, "limit", LIMIT_DEFAULT, 1, LIMIT_MAX)
    places = [name for name in ("page", "offset", "cursor") if name in given]
    if len(places) > 1:
        raise conflicting(places[0], places[1], "came together, and each says where the page begins")
    page = _whole(given, "page", 1, 1, 999_999_999)
    if given.get("sortField", "createdAt") != "createdAt":
        raise invalid("sortField", "must be createdAt")
    if given.get("sortOrder", "desc") not in ("asc", "desc"):
        raise invalid("sortOrder", "must be asc or desc")
    cursor = parse_cursor(given["cursor"]) if "cursor" in given else None
    if "cursor" in given and cursor is None:
        raise invalid("cursor", "must be the nextCursor of another page")
    return OrderQuery(
        statuses=_statuses(given.get("status")),
        customer=_text(given, "customerId"),
        related=_flag(given, "includeRelatedCustomers"),
        exclude_overdue=_flag(given, "excludeOverdue"),
        search=_text(given, "search"),
        created_from=_date(given, ("dateFrom", "startDate"), now, time.min),
        created_to=_date(given, ("dateTo", "endDate"), now, _LAST_MOMENT),
        ascending=given.get("sortOrder") == "asc",
        limit=limit,
        offset=_whole(given, "offset", (page - 1) * limit, 0, 999_999_999),
        cursor=cursor,
    )


def _parameters(query: bytes) -> Mapping[str, str]:
    """Each parameter once; one without a value is one that was not given."""
    try:
        lists = parse_qs(query.decode("ascii"), errors="strict", max_num_fields=_FIELDS_MAX)
    except UnicodeError:
        raise invalid("query", "must be percent-encoded UTF-8", "INVALID_ENCODING") from None
    except ValueError:
        raise invalid("query", f"must have at most {_FIELDS_MAX} parameters", "INVALID_LENGTH") from None
    given = {}
    for name, values in lists.items():
        if len(set(values)) > 1 and name in GIVEN_ONCE:
            raise invalid(name, "was given twice with different values", "CONFLICTING_FIELDS")
        given[name] = ",".join(values) if name == "status" else values[0]
    return given


def _whole(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise invalid(name, f"must be a whole number from {least} to {most}", "OUT_OF_RANGE")
    return int(text)


def _text(given: Mapping[str, str], name: str) -> str | None:
    text = given.get(name)
    if text is not None and len(text) > TEXT_MAX:
        raise invalid(name, f"must have at most {TEXT_MAX} characters", "INVALID_LENGTH")
    return text


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false")
    if text not in ("true", "false"):
        raise invalid(name, "must be true or false")
    return text == "true"


def _statuses(text: str | None) -> tuple[OrderStatus, ...]:
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",") if name.strip()]
    try:
        return tuple([OrderStatus(name) for name in names])
    except ValueError:
        raise invalid("status", f"must be one or more of {', '.join(OrderStatus)}") from None


def _date(given: Mapping[str, str], names: tuple[str, str], now: datetime, at: time) -> datetime | None:
    """An inclusive end of the date range; a day without a time is that day in the merchant's zone (contract N21)."""
    name, alias = names
    text, other = given.get(name), given.get(alias)
    if text is not None and other is not None and text != other:
        raise conflicting(name, alias)
    text = text or other
    if text is None:
        return None
    try:
        if _DAY.fullmatch(text):
            return moment(datetime.combine(date.fromisoformat(text), at), name, now)
        # A plus sign that nobody encoded arrives as a space.
        spelled = re.sub(r"(T.*) (\d\d:?\d\d)\Z", r"\1+\2", text)
        return moment(msgspec.convert(spelled, datetime), name, now)
    except (ValueError, msgspec.ValidationError):
        raise invalid(name, "must be a date or an ISO 8601 date-time", "INVALID_FORMAT") from None
