"""Compares a row of lines with what lets a search skip it, or find it, without its lines.

Such a column follows from the lines of its row alone, and the lines from the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from projections.search.blocks import Summary, summary
from projections.search.lines import LineKind

KINDS: Final = (LineKind.ORDER.value, LineKind.CUSTOMER.value)
"""The kinds of rows that have lines. The others name orders and customers."""

COLUMNS: Final = "kind, first_id, packed, ids, ats, texts, grams, local_grams, shared, oldest, newest"


def wrong_columns(row: Sequence[Any]) -> list[str]:
    """Returns the columns of a row that do not follow from its lines. The row has `COLUMNS`, as Postgres sends them.

    Only a full row is summarised, and only a summarised one may be packed.
    """
    kind, first_id, is_packed, ids, ats, texts, *stored = row
    lines = texts.decode()
    if not len(ids) == len(ats) == lines.count("\n") + 1:
        return ["texts"]
    wrong = ["first_id"] if first_id != ids[0] else []
    is_summarised = any(each is not None for each in stored)
    if is_packed and not is_summarised:
        wrong.append("packed")
    try:
        expected = [_as_sent(each) for each in summary(kind, lines, ats)] if is_summarised else [None] * len(stored)
    except (ValueError, TypeError):  # no lines of orders: they are not those of the log either
        return [*wrong, "texts"]
    return wrong + [name for name, due, found in zip(Summary._fields, expected, stored, strict=True) if due != found]


def _as_sent(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
