"""GET, PUT and DELETE /v1/merchant/fiscal-issuer/logo: the logo on the merchant's printed documents.

`ledger merchants set-logo` does the same.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final

from msgspec import Meta, Struct

from api.decoding.bodies import BodyDecoder
from api.errors import ApiError, invalid, required
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.merchant.uploads import check_in_turn
from api.operation import ANY, BODY, MERCHANT, UNREADABLE, OperationSpec, codes_of
from api.response import ApiResponse, json_response
from ledger.invoicing.issuers import Issuers
from ledger.invoicing.logos import FILE_MAX, SIDE_MAX, SIDE_MIN, Logo, LogoWrong, open_logo, read_logo
from ledger.security.api_keys import Scope

_TEXT_MAX: Final = (FILE_MAX + 2) // 3 * 4
_Image = Annotated[str, Meta(max_length=_TEXT_MAX, extra_json_schema={"contentEncoding": "base64"})]
_BOUNDS: Final = f"at most {FILE_MAX:,} bytes, {SIDE_MIN} to {SIDE_MAX:,} pixels on each side"


class SetFiscalLogo(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to set the logo."""

    image: Annotated[_Image | None, Meta(description=f"Required. A PNG in base64: {_BOUNDS}.")] = None


class FiscalLogoDocument(Struct, kw_only=True, rename="camel"):
    """The logo on printed documents. `width` and `height` are null where none is set."""

    width: Annotated[int | None, Meta(description="In pixels.")]
    height: Annotated[int | None, Meta(description="In pixels.")]
    size: Annotated[int, Meta(description="The size of the file in bytes; 0 without a logo.")]


_decode: Final = BodyDecoder(SetFiscalLogo)
_NONE: Final = FiscalLogoDocument(width=None, height=None, size=0)


def parse_logo(body: bytes) -> Logo:
    """Returns the logo of a body, which was decoded once. Raises ApiError (400)."""
    sent, errors = _decode.gather(body)
    logo = errors.check(_logo, sent.image)
    errors.refuse()
    assert logo is not None, "what is no logo was refused"
    return logo


def _logo(text: str | None) -> Logo:
    if text is None:
        raise required("image")
    try:
        return open_logo(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        raise invalid("image", "must be a file in base64", "INVALID_FORMAT") from None
    except LogoWrong as wrong:
        raise invalid("image", str(wrong)) from None


async def show_logo(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/merchant/fiscal-issuer/logo: the size of the logo, 404 if none is set."""
    png = await _issuers(deps).logo_of(request.principal.merchant_id)
    if png is None:
        raise ApiError(404, "NOT_FOUND", "No logo is set: set one with PUT at this address.")
    return json_response(200, _document(read_logo(png)))


async def set_logo(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """PUT /v1/merchant/fiscal-issuer/logo: 200 with the size of the logo. The same request again changes nothing."""
    body = await request.body(deps.body_limit)
    merchant_id = request.principal.merchant_id
    logo = await check_in_turn(deps, merchant_id, parse_logo, body)
    await _issuers(deps).set_logo(merchant_id, logo)
    return json_response(200, _document(logo))


async def remove_logo(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """DELETE /v1/merchant/fiscal-issuer/logo: 200, even if there was none."""
    await request.optional_body(deps.body_limit)
    await _issuers(deps).set_logo(request.principal.merchant_id, None)
    return json_response(200, _NONE)


def _issuers(deps: Dependencies) -> Issuers:
    assert deps.ledger.invoicing is not None, "a process that serves has access to stamping"
    return deps.ledger.invoicing.issuers


def _document(logo: Logo) -> FiscalLogoDocument:
    return FiscalLogoDocument(width=logo.width, height=logo.height, size=len(logo.png))


SHOW_LOGO: Final = ScopedOperation(
    show_logo,
    Scope.SETTINGS,
    OperationSpec(
        name="getFiscalLogo",
        summary="Read the size of the logo",
        description="The size of the logo on the merchant's printed documents.",
        tag=MERCHANT,
        answers={200: ("The logo.", FiscalLogoDocument)},
        codes=codes_of(ANY, {404: ("NOT_FOUND",)}),
    ),
)
SET_LOGO: Final = ScopedOperation(
    set_logo,
    Scope.SETTINGS,
    OperationSpec(
        name="setFiscalLogo",
        summary="Set the logo of printed documents",
        description=f"""
Sets the logo in the upper left corner of the merchant's printed documents: a PNG of {_BOUNDS}. Documents that were
stamped before keep their PDF. Without a logo, a document shows the issuer's initials.
""",
        tag=MERCHANT,
        takes=SetFiscalLogo,
        examples={"logo": {"summary": "A PNG in base64", "value": {"image": "iVBORw0KGgo…"}}},
        answers={200: ("The logo.", FiscalLogoDocument)},
        codes=codes_of(ANY, BODY),
    ),
)
REMOVE_LOGO: Final = ScopedOperation(
    remove_logo,
    Scope.SETTINGS,
    OperationSpec(
        name="removeFiscalLogo",
        summary="Remove the logo of printed documents",
        description="Documents show the issuer's initials from now on.",
        tag=MERCHANT,
        answers={200: ("There is no logo.", FiscalLogoDocument)},
        codes=codes_of(ANY, UNREADABLE),
    ),
)
