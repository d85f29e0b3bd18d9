"""GET /v1/audits/{id}: an audit with its report, as JSON or as a page."""

from __future__ import annotations

from html import escape
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from api import operation
from api.decoding.media_types import HEADERS, HTML, JSON, OF_A_PAGE, preferred_type
from api.http.dependencies import Dependencies
from api.http.endpoint import AUDIT, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import AUDIT_ID
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse, json_response, rendered
from ledger.audit.page import render_page
from ledger.audit.report import Report
from ledger.domain.ids import parse_uuid
from ledger.domain.rejections import AuditNotFound
from projections.audits import AuditDocument, document_of
from projections.report_pages import page

_HISTORIES: Final = "../.."
"""What is before `/v2` in the links of a page, whose own path ends with `/v1/audits/{id}`."""

_decode: Final = msgspec.json.Decoder(Report).decode


class AuditReport(Report, frozen=True, kw_only=True, rename="camel"):
    """What was audited as of one moment, and the violations: the first ones listed, all of them counted."""


class AuditDetail(AuditDocument, frozen=True, kw_only=True, rename="camel"):
    """An audit of the merchant's log with its report."""

    report: Annotated[
        AuditReport | None, Meta(description="What it has found; null before its end, and if it has FAILED.")
    ]


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/audits/{id}: 200 with the report, once there is one."""
    audit_id = parse_uuid(request.path_id("id") or "")
    found = None if audit_id is None else await deps.queries.audit(request.principal.merchant_id, audit_id)
    if found is None:
        raise AuditNotFound("The merchant has no audit with this id.")
    *columns, report = found
    document = document_of(*columns)
    if preferred_type(request.headers.get(b"accept", b""), (JSON, HTML)) == JSON:
        content: Any = None if report is None else rendered(report)
        return json_response(200, AuditDetail(**asdict(document), report=content), HEADERS)
    text = _page_without_report(document) if report is None else render_page(_decode(report), _HISTORIES)
    return ApiResponse(200, text.encode(), (*HEADERS, *OF_A_PAGE), (b"content-type", b"text/html; charset=utf-8"))


def _page_without_report(document: AuditDocument) -> str:
    progress = document.progress
    if document.failure_reason is not None:
        text = f"It could not be carried out: {document.failure_reason}"
    else:
        text = f"It has not ended: {progress.events:,} of {progress.of:,} events are read."
    return page(
        "Audit",
        f"""\
<p class="note">Asked for at {document.created_at}.</p>
<p class="value">{document.status}</p>
<p>{escape(text)}</p>
""",
    )


SHOW_AUDIT: Final = ScopedOperation(
    show,
    AUDIT,
    OperationSpec(
        name="getAudit",
        summary="Get an audit",
        description="""
The audit with its progress and, once it has ended, its report, which lists a thousand violations at most. The header
`Accept` chooses JSON or a page (`text/html`), which people read and print.
""",
        parameters=(AUDIT_ID,),
        answers={200: ("The audit.", AuditDetail)},
        texts=(HTML,),
        codes=codes_of(ANY, {404: ("AUDIT_NOT_FOUND",)}),
        tag=operation.AUDIT,
    ),
)
