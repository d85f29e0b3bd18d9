"""GET /products/{id}: one product."""

from __future__ import annotations

from typing import Final

from api import operation
from api.http.dependencies import Dependencies
from api.http.endpoint import PRODUCTS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import PRODUCT_ID
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.domain import streams
from projections.products import ProductDocument


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /products/{id}: the product."""
    product_id = request.path_id("id")
    document = None if product_id is None else await deps.queries.product(request.principal.merchant_id, product_id)
    if document is None:
        raise streams.PRODUCTS.missing()
    return ApiResponse(200, document)


SHOW_PRODUCT: Final = ScopedOperation(
    show,
    PRODUCTS,
    OperationSpec(
        name="getProduct",
        summary="Get a product",
        description="The product as the last import left it.",
        parameters=(PRODUCT_ID,),
        answers={200: ("The product.", ProductDocument)},
        codes=codes_of(ANY, {404: ("PRODUCT_NOT_FOUND",)}),
        tag=operation.PRODUCTS,
    ),
    by_key_alone=True,
)
