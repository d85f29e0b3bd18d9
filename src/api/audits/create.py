"""POST /v1/audits: lets the merchant's log be audited."""

from __future__ import annotations

from typing import Final

from api import operation
from api.http.dependencies import Dependencies
from api.http.endpoint import AUDIT, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse, json_response
from projections.audits import AuditDocument, document_of


async def create(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/audits: 202 with the audit, which waits for the worker."""
    asked = await deps.audits.request(request.principal.merchant_id)
    return json_response(202, document_of(asked.created_at, asked.audit_id, "QUEUED", 0, asked.events_total))


CREATE_AUDIT: Final = ScopedOperation(
    create,
    AUDIT,
    OperationSpec(
        name="createAudit",
        summary="Audit the log",
        description="""
Folds every event of the merchant, and compares with it all that the service shows: every row, every counter, the signed
log, the checkpoints outside of the database, and the invariants of money. The worker audits one merchant after the other,
at a low priority: ask `GET /v1/audits/{id}` until the audit has ended. While one of the merchant waits or runs, another
one is 409 `AUDIT_RUNNING`. The operator's `ledger audit` also compares what processors list.
""",
        answers={202: ("The audit, which waits for the worker.", AuditDocument)},
        codes=codes_of(ANY, {409: ("AUDIT_RUNNING",)}),
        tag=operation.AUDIT,
    ),
)
