"""GET and POST /v2/payment-orders/{id}/cfdi-url: short-lived links to the files of stamped documents (contract N44)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.decoding.bodies import BodyDecoder
from api.decoding.query import Parameters, described_parameters, parse_parameters
from api.decoding.types import alias_of
from api.errors import invalid
from api.fields.values import one_of_aliases
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import ORDER_ID
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.orders.invoices.fields import TAG
from api.response import ApiResponse, json_response
from ledger.domain.ids import parse_uuid
from ledger.domain.orders.invoices.state import Document, Stamp
from ledger.domain.orders.state import Order
from ledger.domain.rejections import DocumentNotFound, InvoiceNotReady
from ledger.invoicing.files import LINK_VALIDITY_S, DocumentFiles
from ledger.operations.pipeline.unit_of_work import find_order
from ledger.security.api_keys import Scope
from projections.formats import Moment, moment
from projections.orders.invoices import InvoiceComplementDocument, complement_fields

Format = Literal["pdf", "xml"]


class InvoiceLinks(Struct, frozen=True, kw_only=True, rename="camel"):
    """The stamped invoice, with links to its files."""

    fiscal_uuid: Annotated[UUID, Meta(description="SAT's id of the invoice.")]
    fiscal_invoice_id: Annotated[str, Meta(description="The stamping provider's id of the invoice.")]
    pdf_url: Annotated[str | None, Meta(description="The PDF, until expiresAt; null where only the XML was asked for.")]
    xml_url: Annotated[str | None, Meta(description="The XML, until expiresAt; null where only the PDF was asked for.")]
    expires_at: Annotated[Moment, Meta(description="When the links end.")]


class ComplementLinks(InvoiceComplementDocument, frozen=True, kw_only=True, rename="camel"):
    """A stamped payment receipt or credit note, with links to its files."""

    pdf_url: Annotated[str | None, Meta(description="The PDF, until expiresAt; null where only the XML was asked for.")]
    xml_url: Annotated[str | None, Meta(description="The XML, until expiresAt; null where only the PDF was asked for.")]
    expires_at: Annotated[Moment, Meta(description="When the links end.")]


class CfdiLinks(Struct, frozen=True, kw_only=True, rename="camel"):
    """The stamped documents of an order, with links to their files."""

    id: Annotated[UUID, Meta(description="The service's id of the order.")]
    external_id: Annotated[str, Meta(description="The merchant's id of the order.")]
    invoice: Annotated[InvoiceLinks | None, Meta(description="The invoice; null where it is not asked for.")]
    complements: Annotated[list[ComplementLinks], Meta(description="The stamped payment receipts.")]
    credit_notes: Annotated[list[ComplementLinks], Meta(description="The stamped credit notes.")]
    additional_invoices: Annotated[
        list[ComplementLinks] | UnsetType,
        Meta(description="The stamped further invoices of a split order. Absent without one."),
    ] = UNSET


class Asked(Struct, frozen=True):
    """What links are asked for: all documents or one, and both files of each or one."""

    document_id: UUID | None
    format: Format | None


class GetCfdiLinks(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request for links, where it is sent by POST."""

    complement_id: Annotated[
        UUID | None, Meta(description="Only this payment receipt, credit note or further invoice.")
    ] = None
    document_id: Annotated[UUID | None, alias_of("complementId")] = None
    format: Annotated[Format | None, Meta(description="Only links to this kind of file.")] = None


_decode: Final = BodyDecoder(GetCfdiLinks)
_NAMES: Final = ("complementId", "documentId")

PARAMETERS: Final[Parameters] = {
    "complementId": (
        "Only this payment receipt, credit note or further invoice.",
        {"type": "string", "format": "uuid"},
    ),
    "documentId": ("The same as complementId.", {"type": "string", "format": "uuid"}),
    "format": ("Only links to this kind of file: `pdf` or `xml`.", {"type": "string", "enum": ["pdf", "xml"]}),
}


def parse_query(query: bytes) -> Asked:
    """Returns the links that a query string asks for. Raises ApiError (400)."""
    given, errors = parse_parameters(query, PARAMETERS)
    complement_id, document_id = (errors.check(_uuid, given, name) for name in _NAMES)
    kind = errors.check(_format, given)
    named = errors.check(one_of_aliases, _NAMES[0], complement_id, _NAMES[1], document_id)
    errors.refuse()
    return Asked(named, kind)


def _uuid(given: Mapping[str, str], name: str) -> UUID | None:
    if name not in given:
        return None
    parsed = parse_uuid(given[name])
    if parsed is None:
        raise invalid(name, "must be a UUID", "INVALID_FORMAT")
    return parsed


def _format(given: Mapping[str, str]) -> Format | None:
    match given.get("format", "").lower():
        case "":
            return None
        case "pdf":
            return "pdf"
        case "xml":
            return "xml"
        case _:
            raise invalid("format", "must be pdf or xml")


def parse_body(body: bytes) -> Asked:
    """Returns the links that a body asks for. Raises ApiError (400)."""
    sent, errors = _decode.gather(body)
    named = errors.check(one_of_aliases, _NAMES[0], sent.complement_id, _NAMES[1], sent.document_id)
    errors.refuse()
    return Asked(named, sent.format)


async def get_links(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/cfdi-url: 200 with links that end after fifteen minutes."""
    return await _answer(deps, request, parse_query(request.query))


async def post_links(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/cfdi-url: the same, asked for by a body."""
    return await _answer(deps, request, parse_body(await request.optional_body(deps.body_limit)))


async def _answer(deps: Dependencies, request: ApiRequest, asked: Asked) -> ApiResponse:
    order = await find_order(deps.ledger, request.principal.merchant_id, request.order_reference())
    invoicing = deps.ledger.invoicing
    assert invoicing is not None, "a process that serves has an access to the files"
    return json_response(200, links_of(order, asked, invoicing.files, datetime.now(UTC)))


def links_of(order: Order, asked: Asked, files: DocumentFiles, now: datetime) -> CfdiLinks:
    """Returns the order's stamped documents with links that end fifteen minutes after `now`, in real time.

    Raises DocumentNotFound, and InvoiceNotReady if nothing that was asked for is stamped.
    """
    invoices = order.invoices
    documents = () if invoices is None else invoices.documents
    expires_at = now + timedelta(seconds=LINK_VALIDITY_S)
    if asked.document_id is not None:
        documents = tuple(each for each in documents if each.document_id == asked.document_id)
        if not documents:
            raise DocumentNotFound("The order has no payment receipt or credit note with this id.")
    stamped = [(each, each.stamp) for each in documents if each.stamp is not None]
    if not stamped:
        raise InvoiceNotReady(
            "Nothing of what was asked for is stamped yet: stamp the order's documents with POST …/stamp, or ask again later."
        )
    invoice = None if invoices is None else invoices.invoice
    receipts = () if invoices is None else invoices.receipts
    notes = () if invoices is None else invoices.credit_notes
    further = () if invoices is None else invoices.further_invoices

    def linked(among: tuple[Document, ...]) -> list[ComplementLinks]:
        return [
            ComplementLinks(**complement_fields(order, each), **_links(stamp, asked, files, expires_at))
            for each, stamp in stamped
            if each in among
        ]

    return CfdiLinks(
        id=order.terms.order_id,
        external_id=order.terms.external_id,
        invoice=next(
            (
                InvoiceLinks(
                    fiscal_uuid=stamp.fiscal_uuid,
                    fiscal_invoice_id=stamp.invoice_id,
                    **_links(stamp, asked, files, expires_at),
                )
                for each, stamp in stamped
                if each is invoice
            ),
            None,
        ),
        complements=linked(receipts),
        credit_notes=linked(notes),
        additional_invoices=linked(further) or UNSET,
    )


def _links(stamp: Stamp, asked: Asked, files: DocumentFiles, expires_at: datetime) -> Mapping[str, Any]:
    return {
        "pdf_url": None if asked.format == "xml" else files.sign_link(stamp.pdf_key, expires_at),
        "xml_url": None if asked.format == "pdf" else files.sign_link(stamp.xml_key, expires_at),
        "expires_at": moment(expires_at),
    }


_DESCRIPTION: Final = """
Links to the PDF and the XML of the order's stamped documents. They need no API key, and end after fifteen minutes: ask
again instead of storing them.
"""
_ANSWERS: Final = {200: ("The stamped documents with their links.", CfdiLinks)}
_CODES: Final = {404: ("ORDER_NOT_FOUND", "DOCUMENT_NOT_FOUND"), 409: ("INVOICE_NOT_READY",)}

GET_LINKS: Final = ScopedOperation(
    get_links,
    Scope.FISCAL,
    OperationSpec(
        name="getCfdiUrl",
        summary="Get links to an order's documents",
        description=_DESCRIPTION,
        parameters=(ORDER_ID, *described_parameters(PARAMETERS)),
        answers=_ANSWERS,
        codes=codes_of(ANY, _CODES),
        tag=TAG,
    ),
)
POST_LINKS: Final = ScopedOperation(
    post_links,
    Scope.FISCAL,
    OperationSpec(
        name="createCfdiUrl",
        summary="Get links to an order's documents",
        description=_DESCRIPTION,
        parameters=(ORDER_ID,),
        takes=GetCfdiLinks,
        optional=True,
        answers=_ANSWERS,
        codes=codes_of(ANY, BODY, _CODES),
        tag=TAG,
    ),
)
