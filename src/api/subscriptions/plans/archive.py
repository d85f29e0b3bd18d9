"""DELETE /v1/plans/{id}: archives a plan."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, PLAN_ID
from api.operation import ANY, IDEMPOTENT, PLANS, OperationSpec, codes_of
from api.response import REPLAYED, ApiResponse, json_response
from api.subscriptions.plans.fields import plan_reference
from ledger.operations.plans.archive import archive_plan


class DeletedPlan(Struct, frozen=True, kw_only=True):
    """The plan that was archived."""

    id: Annotated[UUID, Meta(description="The service's id of the plan.")]
    deleted: Annotated[Literal[True], Meta(description="Always true.")] = True


async def archive(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """DELETE /v1/plans/{id}: 200, even if the plan is archived already."""
    body = await request.optional_body(deps.body_limit)
    reference = plan_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await archive_plan(deps.ledger, request.actor, reference, key)
    headers = REPLAYED if result.replayed or result.repeated else ()
    return json_response(200, DeletedPlan(id=result.state.plan_id), headers)


ARCHIVE_PLAN: Final = ScopedOperation(
    archive,
    SUBSCRIPTIONS,
    OperationSpec(
        name="archivePlan",
        summary="Archive a plan",
        description="""
The plan takes no new subscription from now on, and its status is `ARCHIVED`. Its subscriptions go on as before, and its
`externalId` is not given again. A plan that is archived already stays so.
""",
        parameters=(PLAN_ID, IDEMPOTENCY_KEY),
        answers={200: ("The plan is archived.", DeletedPlan)},
        codes=codes_of(ANY, IDEMPOTENT, {404: ("PLAN_NOT_FOUND",)}),
        tag=PLANS,
        replays=True,
    ),
)
