"""Checks the issuer's seal of a document and adds the provider's stamp, as a stamping provider does.

The refusals are SAT's codes and words (Anexo 20, "matriz de validaciones"), as providers answer with them.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID
from lxml import etree
from msgspec import Struct

from ledger.invoicing.contract import Refused
from ledger.invoicing.stamped_xml import CFD, XmlUnreadable, original_chain, parse_cfdi, stamp_of

if TYPE_CHECKING:
    from satcfdi.models import Signer

ZONE: Final = ZoneInfo("America/Mexico_City")
"""FechaTimbrado is the time of central Mexico, wherever the issuer is."""

ALREADY_STAMPED: Final = Refused(code="307", message="El CFDI contiene un timbre previo.")
_MALFORMED: Final = Refused(code="301", message="XML mal formado.")
_NOT_THE_ISSUERS: Final = Refused(code="303", message="Sello no corresponde a emisor.")
_NOT_VALID: Final = Refused(code="305", message="La fecha de emisión no está dentro de la vigencia del CSD del Emisor.")
_WRONG_SEAL: Final = Refused(
    code="CFDI40102",
    message="El resultado de la digestión debe ser igual al resultado de la desencripción del sello.",
)


class SealedDocument(Struct, frozen=True):
    """A Comprobante whose seal was checked."""

    root: Any
    seal: str


def check_seal(xml: bytes) -> SealedDocument | Refused:
    """Returns a document whose seal is its issuer's, or SAT's refusal: malformed, stamped already, sealed by another
    taxpayer or outside the certificate's validity, or changed after it was sealed.
    """
    try:
        root = parse_cfdi(xml)
        issued_at = datetime.fromisoformat(root.get("Fecha") or "")
        certificate = x509.load_der_x509_certificate(base64.b64decode(root.get("Certificado") or "", validate=True))
        seal = root.get("Sello") or ""
        signature = base64.b64decode(seal, validate=True)
    except (XmlUnreadable, ValueError, binascii.Error):
        return _MALFORMED
    if stamp_of(root) is not None:
        return ALREADY_STAMPED
    issuer = root.find(f"{CFD}Emisor")
    if issuer is None or _owner(certificate) != issuer.get("Rfc"):
        return _NOT_THE_ISSUERS
    day_of = issued_at.replace(tzinfo=ZONE)
    if not certificate.not_valid_before_utc <= day_of < certificate.not_valid_after_utc:
        return _NOT_VALID
    key = certificate.public_key()
    try:
        assert isinstance(key, rsa.RSAPublicKey), "SAT's certificates have RSA keys"
        key.verify(signature, original_chain(root, "4.0"), padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return _WRONG_SEAL
    return SealedDocument(root, seal)


def add_stamp(document: SealedDocument, provider: Signer, fiscal_uuid: UUID, at: datetime) -> bytes:
    """Returns the XML with a TimbreFiscalDigital. Nothing else of the document changes.

    The stamp is never older than the document: the clock of a sandbox's merchant may be ahead of real time.
    """
    from satcfdi.create.cfd.tfd11 import TimbreFiscalDigital

    root = document.root
    local = at.astimezone(ZONE).replace(tzinfo=None, microsecond=0)
    stamp = TimbreFiscalDigital(
        proveedor=provider,
        uuid=str(fiscal_uuid).upper(),
        fecha_timbrado=max(local, datetime.fromisoformat(root.get("Fecha"))),
        sello_cfd=document.seal,
    )
    complement = root.find(f"{CFD}Complemento")
    if complement is None:
        complement = etree.Element(f"{CFD}Complemento")
        addendum = root.find(f"{CFD}Addenda")
        root.insert(len(root) if addendum is None else root.index(addendum), complement)
    complement.append(stamp.to_xml())
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8"))


def _owner(certificate: x509.Certificate) -> str:
    found = certificate.subject.get_attributes_for_oid(NameOID.X500_UNIQUE_IDENTIFIER)
    return str(found[0].value).split("/")[0].strip() if found else ""
