"""GET /v2/payment-orders/{id}/explain: why an amount or the status of an order is what it is, as JSON or as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from api import operation
from api.decoding.media_types import HEADERS, HTML, JSON, OF_A_PAGE, preferred_type
from api.decoding.query import Parameters, described_parameters, parse_parameters
from api.errors import invalid, required
from api.fields.as_of import CODES, asked_in
from api.fields.as_of import PARAMETERS as PAST_PARAMETERS
from api.histories.events import history_of, title_of
from api.http.dependencies import Dependencies
from api.http.endpoint import AUDIT, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import ORDER_ID
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.domain.streams import ORDERS
from projections.as_of.points import with_place
from projections.formats import encode
from projections.histories.explanations import EXPLAINED, Explanation, ExplanationDocument
from projections.histories.pages import explanation_page

PARAMETERS: Final[Parameters] = {
    "field": ("Required. The field of the order.", {"type": "string", "enum": list(EXPLAINED)}),
    **PAST_PARAMETERS,
}


async def explain(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/explain: 200 with the formula, its terms and what moved the field."""
    given, errors = parse_parameters(request.query, PARAMETERS)
    field = errors.check(_field, given)
    asked = await asked_in(deps, request, given, errors)
    history = await history_of(deps, request, ORDERS)
    point = None
    if asked is not None:
        point = await deps.past.point(history.merchant_id, history.stream_id, asked)
        if point is None:
            raise ORDERS.missing()
        history = replace(history, length=point.version)
    assert field is not None, "what was not parsed was refused"
    found = Explanation(field)
    async for part in deps.histories.parts(history):
        found.add(part.steps)
    if preferred_type(request.headers.get(b"accept", b""), (JSON, HTML)) == JSON:
        document = encode(found.document())
        return ApiResponse(200, document if point is None else point.stated_in(document), HEADERS)
    title = f"{title_of(found.order)}: {field}"
    as_of = None if point is None else point.as_of
    version = None if asked is None else asked.version
    content = explanation_page(title, found, request.principal.zone, as_of, version)
    return ApiResponse(200, content.encode(), (*HEADERS, *OF_A_PAGE), (b"content-type", b"text/html; charset=utf-8"))


def _field(given: Mapping[str, str]) -> str:
    text = given.get("field")
    if text is None:
        raise required("field")
    field = next((each for each in EXPLAINED if each.lower() == text.lower()), None)
    if field is None:
        raise invalid("field", f"must be one of {', '.join(EXPLAINED)}")
    return field


EXPLAIN: Final = ScopedOperation(
    explain,
    AUDIT,
    OperationSpec(
        name="explainPaymentOrder",
        summary="Explain a field of an order",
        description="""
Why the status or an amount of the order is what it is: the formula, the values in it, and every event that moved it.
With `asOf` or `version` it is the explanation of then. The header `Accept` chooses JSON or a page (`text/html`), with
amounts in major units.
""",
        parameters=(ORDER_ID, *described_parameters(PARAMETERS)),
        answers={200: ("The explanation.", with_place(ExplanationDocument, "ExplanationAsOfDocument"))},
        texts=(HTML,),
        codes=codes_of(ANY, CODES, {404: ("ORDER_NOT_FOUND",)}),
        tag=operation.AUDIT,
    ),
)
