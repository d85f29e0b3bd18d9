"""POST /products/bulk-import: creates and updates up to a thousand products (contract N69, N70).

A product that is wrong fails by itself, and the others are imported. A body that is wrong imports nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Raw, Struct

from api import operation
from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.fields.product import PRODUCT_BYTES_MAX, ProductToImport, parse_product
from api.http.dependencies import Dependencies
from api.http.endpoint import PRODUCTS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.response import REPLAYED, ApiResponse, json_response
from ledger.operations.products.import_products import ImportResult, ProductInput, import_products
from ledger.slices import Slices

PRODUCTS_MAX: Final = 1000


class ImportProducts(Struct, frozen=True, kw_only=True):
    """The request to import products."""

    products: Annotated[
        Annotated[list[ProductToImport], Meta(min_length=1, max_length=PRODUCTS_MAX)], Meta(description="The products.")
    ]


class _Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same request, before each product is parsed by itself."""

    products: Annotated[list[Raw], Meta(min_length=1, max_length=PRODUCTS_MAX)]


class ImportProblem(Struct, frozen=True, kw_only=True):
    """What is wrong with one field of a product that was not imported. A product may have several."""

    index: Annotated[int, Meta(description="The place of the product in the request, from 0.")]
    id: Annotated[str | None, Meta(description="The product's id, where it has a valid one.")]
    field: Annotated[
        str | None,
        Meta(description="The field, or null where the product itself is not an object.", examples=["price"]),
    ]
    code: Annotated[str, Meta(description="What is wrong with it, for programs. Permanent.", examples=["REQUIRED"])]
    message: Annotated[str, Meta(description="What it must be, for people.")]


class ProductImport(Struct, frozen=True, kw_only=True):
    """What became of the products of an import."""

    success: Annotated[bool, Meta(description="Whether every product was imported.")]
    imported: Annotated[int, Meta(description="The number of products that were created or updated.")]
    total: Annotated[int, Meta(description="The number of products in the request.")]
    created: Annotated[int, Meta(description="The number of new products.")]
    updated: Annotated[
        int, Meta(description="The number of products that existed, also those of which nothing changed.")
    ]
    failed: Annotated[int, Meta(description="The number of products that were not imported.")]
    errors: Annotated[list[ImportProblem], Meta(description="What is wrong with those that failed, by their places.")]


_decode: Final = BodyDecoder(_Body, in_parts=True)


async def parse_import(body: bytes, slices: Slices) -> Sequence[ProductInput]:
    """Returns the products of a body, with what is wrong with each of them. Raises ApiError (400) for the body.

    Other requests are served in between: a large import takes longer than all else that a request does here.
    """
    parsed = []
    async with slices.work() as work:
        sent, errors = _decode.gather(body)
        errors.refuse()
        for index, product in enumerate(sent.products):
            await work.end_piece()
            with BAD_INPUT_AS_400:
                parsed.append(parse_product(index, product))
    return parsed


async def bulk_import(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /products/bulk-import: 200 with the number of products imported and the errors of those that failed."""
    body = await request.body(deps.import_body_limit)
    products = await parse_import(body, deps.ledger.slices)
    key = await request.idempotency_key_of_many(
        deps.fingerprint_key, body, "products", PRODUCT_BYTES_MAX, deps.ledger.slices
    )
    result = await import_products(deps.ledger, request.actor, products, key)
    return json_response(200, _answer(result, len(products)), REPLAYED if result.repeated else ())


def _answer(result: ImportResult, total: int) -> ProductImport:
    return ProductImport(
        success=not result.failed,
        imported=result.created + result.updated,
        total=total,
        created=result.created,
        updated=result.updated,
        failed=len(result.failed),
        errors=[
            ImportProblem(
                index=product.index,
                id=product.id,
                field=problem.field or None,
                code=problem.code,
                message=problem.message,
            )
            for product in result.failed
            for problem in product.problems
        ],
    )


EXAMPLES: Final[Mapping[str, dict[str, Any]]] = {
    "coffee": {
        "summary": "A coffee with the data of its invoices, and a mill",
        "value": {
            "products": [
                {
                    "id": "cafe-coatepec-1kg",
                    "name": "Café de altura Coatepec, grano entero, 1 kg",
                    "price": 38900,
                    "status": "active",
                    "currency": "MXN",
                    "sku": "CAF-COA-1000",
                    "productKey": "50201706",
                    "unitKey": "H87",
                    "unitName": "Pieza",
                    "taxes": [{"type": "IVA", "rate": 0, "factor": "Tasa"}],
                    "category": "Café",
                    "stock": 120,
                    "roast": "medium",
                },
                {
                    "id": "molino-manual",
                    "name": "Molino manual de muelas cónicas",
                    "price": 64900,
                    "status": "active",
                    "productKey": "52151706",
                    "unitKey": "H87",
                    "unitName": "Pieza",
                    "taxIncluded": True,
                    "taxes": [{"type": "IVA", "rate": 0.16, "factor": "Tasa"}],
                },
            ]
        },
    },
}

IMPORT_PRODUCTS: Final = ScopedOperation(
    bulk_import,
    PRODUCTS,
    OperationSpec(
        name="importProducts",
        summary="Import products",
        description=f"""
Creates products, and updates those whose `id` the merchant has already; at most {PRODUCTS_MAX} in one request. A product
that is wrong, or longer than {PRODUCT_BYTES_MAX} bytes, is not imported and is listed in `errors`; the others are imported together, or, with any status other than
200, none of them. A repeated request changes nothing more; where products have no `id`, send an `Idempotency-Key`, or
they are created again.
""",
        parameters=(IDEMPOTENCY_KEY,),
        takes=ImportProducts,
        examples=EXAMPLES,
        answers={200: ("What became of the products.", ProductImport)},
        codes=codes_of(
            ANY,
            {status: codes for status, codes in BODY.items() if status != 400},
            {
                400: ("CARD_NUMBER_NOT_ALLOWED", "SECURITY_CODE_NOT_ALLOWED"),
                409: ("IDEMPOTENCY_KEY_REUSED", "REQUEST_IN_PROGRESS", "CONCURRENT_UPDATE"),
            },
        ),
        tag=operation.PRODUCTS,
        replays=True,
    ),
    by_key_alone=True,
)
