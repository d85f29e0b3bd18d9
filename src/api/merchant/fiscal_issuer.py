"""GET and PUT /v1/merchant/fiscal-issuer: the merchant as the issuer of electronic invoices, and its certificate.

Never answer, log or echo the private key or its password. `ledger merchants set-issuer` does the same.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.decoding.bodies import BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import check_card_data
from api.decoding.types import TaxId, Text
from api.errors import ApiError, invalid, required
from api.fields.values import printable, tax_id
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.merchant.documents import Moment
from api.merchant.uploads import check_in_turn
from api.operation import ANY, BODY, MERCHANT, OperationSpec, codes_of
from api.response import ApiResponse, json_response
from ledger.domain.orders.invoices.terms import Issuer
from ledger.invoicing.certificates import CertificateWrong, Csd, legal_name_of, open_csd
from ledger.invoicing.issuers import FoundIssuer, IssuerMissing, Issuers
from ledger.security.api_keys import Scope
from projections.formats import moment

_FILE_MAX: Final = 16_384
_PASSWORD_MAX: Final = 255
_SERIES: Final = re.compile(r"[A-Za-z0-9]{1,20}")  # with the suffixes of receipts and credit notes at most 25 (SAT)
_File = Annotated[str, Meta(max_length=_FILE_MAX, extra_json_schema={"contentEncoding": "base64"})]

_RFC_OF: Final = "The RFC of the issuer. The certificate belongs to it."
_NAME: Final = "The name as SAT has it, without the kind of company."
_SYSTEM: Final = "The tax regime of the issuer (SAT c_RegimenFiscal)."
_ZIP: Final = "The postal code of the place of issue, which gives documents their local time."
_SERIES_OF: Final = "The series of the documents: letters and digits."
_PUBLIC: Final = "Whether an order whose customer gives no RFC is invoiced to the public in general."
_IVA: Final = "The IVA that a line item without taxes contains; `null`: such a line is no object of tax."

_Rate = Literal["0.16", "0.08", "0.00"]


class SetFiscalIssuer(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to set the issuer and its certificate of digital seal (CSD), as SAT issues them."""

    rfc: Annotated[TaxId | None, Meta(description=f"Required. {_RFC_OF}", examples=["EKU9003173C9"])] = None
    legal_name: Annotated[Text | None, Meta(description=f"{_NAME} Absent: the certificate's.")] = None
    tax_system: Annotated[
        Annotated[str, Meta(max_length=3, extra_json_schema={"pattern": "^6[0-9]{2}$"})] | None,
        Meta(description=f"Required. {_SYSTEM}", examples=["601"]),
    ] = None
    zip_code: Annotated[
        Annotated[str, Meta(max_length=5, extra_json_schema={"pattern": "^[0-9]{5}$"})] | None,
        Meta(description=f"Required. {_ZIP}", examples=["42501"]),
    ] = None
    series: Annotated[
        Annotated[str, Meta(max_length=20, extra_json_schema={"pattern": "^[A-Za-z0-9]{1,20}$"})],
        Meta(description=_SERIES_OF),
    ] = "A"
    public_in_general: Annotated[bool, Meta(description=_PUBLIC)] = False
    iva_rate: Annotated[_Rate | None | UnsetType, Meta(description=f"{_IVA} Absent: 0.16.")] = UNSET
    certificate: Annotated[_File | None, Meta(description="Required. The file .cer in base64.")] = None
    private_key: Annotated[_File | None, Meta(description="Required. The file .key in base64.")] = None
    password: Annotated[
        Annotated[str, Meta(max_length=_PASSWORD_MAX)] | None,
        Meta(description="Required. The password of the private key. It is used once and not stored."),
    ] = None


class FiscalIssuerDocument(Struct, kw_only=True, rename="camel"):
    """The issuer of the merchant's documents, with the certificate that seals them."""

    rfc: Annotated[str, Meta(description=_RFC_OF)]
    legal_name: Annotated[str, Meta(description=_NAME)]
    tax_system: Annotated[str, Meta(description=_SYSTEM)]
    zip_code: Annotated[str, Meta(description=_ZIP)]
    series: Annotated[str, Meta(description=_SERIES_OF)]
    public_in_general: Annotated[bool, Meta(description=_PUBLIC)]
    iva_rate: Annotated[str | None, Meta(description=_IVA)]
    certificate_number: Annotated[str, Meta(description="The number of the certificate: twenty digits.")]
    valid_from: Annotated[Moment, Meta(description="The beginning of the certificate's validity.")]
    valid_until: Annotated[Moment, Meta(description="Its end. Set the next certificate before.")]


_decode: Final = BodyDecoder(SetFiscalIssuer)


def parse_issuer(body: bytes, at: datetime) -> tuple[Issuer, Csd]:
    """Returns the issuer and the opened certificate of a body. `at` is real time.

    Raises ApiError (400), with every wrong field.
    """
    sent, errors = _decode.gather(body)
    rfc = errors.check(_rfc, sent.rfc)
    errors.check(_shaped, sent.tax_system, "taxSystem", r"6[0-9]{2}", "a regime of SAT's c_RegimenFiscal, as 601")
    errors.check(_shaped, sent.zip_code, "zipCode", r"[0-9]{5}", "a postal code of five digits")
    errors.check(_shaped, sent.series, "series", _SERIES.pattern, "1 to 20 letters and digits")
    errors.check(_legal_name, sent.legal_name)
    csd = _csd(sent, rfc, at, errors)
    name = sent.legal_name
    if csd is not None and not name:
        try:
            name = legal_name_of(csd)
        except CertificateWrong as wrong:
            errors.add(invalid(wrong.field, wrong.problem))
    errors.refuse()
    assert rfc, "it was checked"
    assert sent.tax_system, "it was checked"
    assert sent.zip_code, "it was checked"
    assert csd, "it was checked"
    assert name, "it was checked"
    iva_rate = "0.16" if sent.iva_rate is UNSET else sent.iva_rate
    issuer = Issuer(
        rfc=rfc,
        legal_name=name,
        tax_system=sent.tax_system,
        zip_code=sent.zip_code,
        series=sent.series,
        public_in_general=sent.public_in_general,
        iva_rate=None if iva_rate is None else Decimal(str(iva_rate)),
    )
    return issuer, csd


def _csd(sent: SetFiscalIssuer, rfc: str | None, at: datetime, errors: FieldErrors) -> Csd | None:
    """Returns the opened certificate, None if it, or what it is compared with, is wrong."""
    certificate = errors.check(_file, sent.certificate, "certificate")
    key = errors.check(_file, sent.private_key, "privateKey")
    if sent.password is None:
        errors.add(required("password"))
    if certificate is None or key is None or sent.password is None or rfc is None:
        return None
    try:
        return open_csd(certificate, key, sent.password, rfc=rfc, at=at)
    except CertificateWrong as wrong:
        errors.add(invalid(wrong.field, wrong.problem))
        return None


def _rfc(text: str | None) -> str:
    if text is None:
        raise required("rfc")
    return tax_id(text, "rfc")


def _shaped(text: str | None, name: str, pattern: str, wanted: str) -> None:
    if text is None:
        raise required(name)
    if not re.fullmatch(pattern, text):
        raise invalid(name, f"must be {wanted}", "INVALID_FORMAT")


def _legal_name(text: str | None) -> None:
    if text is not None:
        printable(text, "legalName")
        check_card_data(text, "legalName")


def _file(text: str | None, name: str) -> bytes:
    if text is None:
        raise required(name)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(name, "must be a file in base64", "INVALID_FORMAT") from None


async def show_issuer(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/merchant/fiscal-issuer: the issuer, 404 if none is set."""
    try:
        return json_response(200, _document(await _issuers(deps).find(request.principal.merchant_id)))
    except IssuerMissing:
        raise ApiError(404, "NOT_FOUND", "No fiscal issuer is set: set one with PUT at this address.") from None


async def set_issuer(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """PUT /v1/merchant/fiscal-issuer: 200 with the issuer. The same request again changes nothing."""
    body = await request.body(deps.body_limit)
    merchant_id = request.principal.merchant_id
    issuer, csd = await check_in_turn(deps, merchant_id, parse_issuer, body, datetime.now(UTC))
    return json_response(200, _document(await _issuers(deps).set(merchant_id, issuer, csd)))


def _issuers(deps: Dependencies) -> Issuers:
    assert deps.ledger.invoicing is not None, "a process that serves has access to stamping"
    return deps.ledger.invoicing.issuers


def _document(found: FoundIssuer) -> FiscalIssuerDocument:
    issuer = found.issuer
    return FiscalIssuerDocument(
        rfc=issuer.rfc,
        legal_name=issuer.legal_name,
        tax_system=issuer.tax_system,
        zip_code=issuer.zip_code,
        series=issuer.series,
        public_in_general=issuer.public_in_general,
        iva_rate=None if issuer.iva_rate is None else f"{issuer.iva_rate:.2f}",
        certificate_number=found.certificate_number,
        valid_from=moment(found.valid_from),
        valid_until=moment(found.valid_until),
    )


SHOW_ISSUER: Final = ScopedOperation(
    show_issuer,
    Scope.SETTINGS,
    OperationSpec(
        name="getFiscalIssuer",
        summary="Read the issuer of electronic invoices",
        description="""
The merchant as the issuer of electronic invoices, and the certificate that seals them; never the private key. In the
sandbox a merchant that has set none has a test issuer.
""",
        tag=MERCHANT,
        answers={200: ("The issuer.", FiscalIssuerDocument)},
        codes=codes_of(ANY, {404: ("NOT_FOUND",)}),
    ),
)
SET_ISSUER: Final = ScopedOperation(
    set_issuer,
    Scope.SETTINGS,
    OperationSpec(
        name="setFiscalIssuer",
        summary="Set the issuer of electronic invoices",
        description="""
Sets what documents show of their issuer, and the certificate of digital seal (CSD) that seals them from now on, with
its private key, which is stored sealed and never returned. A certificate that is expired, a FIEL (e.firma) or another
taxpayer's, and a key that the password does not open, are refused. Documents that were stamped before keep their seal.
""",
        tag=MERCHANT,
        takes=SetFiscalIssuer,
        examples={
            "issuer": {
                "summary": "A company with a certificate",
                "value": {
                    "rfc": "EKU9003173C9",
                    "taxSystem": "601",
                    "zipCode": "42501",
                    "certificate": "MIIF…",
                    "privateKey": "MIIF…",
                    "password": "12345678a",
                },
            },
        },
        answers={200: ("The issuer.", FiscalIssuerDocument)},
        codes=codes_of(ANY, BODY),
    ),
)
