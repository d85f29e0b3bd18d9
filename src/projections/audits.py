"""The audits that a merchant has asked for, which the worker carries out: their documents, pages of them, and what is
counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache, partial
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from projections.formats import Moment, encode, moment, moment_or_null
from projections.lists.cursor import Cursor
from projections.lists.paging import Pagination, cursor_behind, page_parameters, paginated

_COLUMNS: Final = "created_at, audit_id, status, events, events_total, ended_at, violations, failure"
_BEYOND: Final = "and (created_at, audit_id) < (%(after_at)s, %(after_id)s)"

# One page, newest first, and the number of audits on all pages.
_PAGE: Final = f"""
with counted as (select count(*) as total from audit where merchant_id = %(merchant_id)s)
select t.total, p.* from counted t left join lateral (
    select {_COLUMNS} from audit where merchant_id = %(merchant_id)s {{beyond}}
     order by created_at desc, audit_id desc offset %(offset)s limit %(limit)s) p on true
 order by p.created_at desc, p.audit_id desc
"""  # noqa: S608 - constants

FIND: Final = f"""
select {_COLUMNS}, report from audit where merchant_id = %(merchant_id)s and audit_id = %(audit_id)s
"""  # noqa: S608 - constants

# How many violations the newest audit of each merchant has found that was carried out, of all merchants together, and
# when the newest of them ended.
FOUND: Final = """
select (select coalesce(sum(violations), 0)::int8 from audit a where violations > 0 and not exists (
          select from audit n where n.merchant_id = a.merchant_id and n.violations is not null
                                and (n.created_at, n.audit_id) > (a.created_at, a.audit_id))),
       (select ended_at from audit where violations is not null order by ended_at desc limit 1)
"""

Status = Literal["QUEUED", "RUNNING", "CLEAN", "VIOLATIONS", "FAILED"]


class AuditProgress(Struct, frozen=True, kw_only=True):
    """How far an audit is."""

    events: Annotated[int, Meta(description="How many events it has read.")]
    of: Annotated[int, Meta(description="How many events it reads.")]


class AuditDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """An audit of the merchant's log. Its times are real times, whatever the merchant's clock shows."""

    id: Annotated[UUID, Meta(description="The id of the audit.")]
    status: Annotated[
        Status,
        Meta(
            description="QUEUED until the worker begins it, then RUNNING. CLEAN: nothing is wrong. VIOLATIONS: something is. "
            "FAILED: it could not be carried out."
        ),
    ]
    progress: AuditProgress
    created_at: Annotated[Moment, Meta(description="When it was asked for, in real time.")]
    ended_at: Annotated[Moment | None, Meta(description="When it ended, in real time.")]
    violations_total: Annotated[
        int | None, Meta(description="How many violations it has found; null before its end, and if it has FAILED.")
    ]
    failure_reason: Annotated[str | None, Meta(description="Why it has FAILED, for people.")]


class AuditPage(Struct, rename="camel"):
    """A page of the merchant's audits, the newest first."""

    data: Annotated[list[AuditDocument], Meta(description="The audits.")]
    pagination: Pagination


class AuditQuery(Struct, frozen=True, kw_only=True):
    """One page of a list. With a cursor, it continues after it."""

    limit: int = 20
    offset: int = 0
    cursor: Cursor | None = None


def page_statement(merchant_id: UUID, query: AuditQuery) -> tuple[str, dict[str, Any]]:
    """Returns the statement for a page and its parameters."""
    return _page(query.cursor is not None), page_parameters(merchant_id, query)


def page_body(query: AuditQuery, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Returns the JSON of a page from the rows of its statement."""
    shown, pagination = paginated(query, rows, partial(cursor_behind, query))
    return encode(AuditPage(data=[document_of(*columns) for _, *columns in shown], pagination=pagination))


def document_of(
    created_at: datetime,
    audit_id: UUID,
    status: Status,
    events: int,
    events_total: int,
    ended_at: datetime | None = None,
    violations: int | None = None,
    failure: str | None = None,
) -> AuditDocument:
    """Returns an audit as it is answered."""
    return AuditDocument(
        id=audit_id,
        status=status,
        progress=AuditProgress(events=events, of=events_total),
        created_at=moment(created_at),
        ended_at=moment_or_null(ended_at),
        violations_total=violations,
        failure_reason=failure,
    )


@cache
def _page(has_cursor: bool) -> str:
    return _PAGE.format(beyond=_BEYOND if has_cursor else "")
