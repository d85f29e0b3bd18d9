"""The XML of a CFDI, read without trust: no entities, no network, no great size.

Everything here works on bytes and lxml's elements, so that a document is never changed by being read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from lxml import etree

from ledger.invoicing.contract import Stamped

CFD: Final = "{http://www.sat.gob.mx/cfd/4}"
TFD: Final = "{http://www.sat.gob.mx/TimbreFiscalDigital}"
_ZONE: Final = ZoneInfo("America/Mexico_City")
_PARSER: Final = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)


class XmlUnreadable(Exception):
    """The XML is no CFDI, or lacks its stamp."""


def parse(xml: bytes) -> Any:
    """Returns the root element of an XML document. Raises XmlUnreadable."""
    try:
        return etree.fromstring(xml, _PARSER)
    except (etree.XMLSyntaxError, ValueError) as wrong:
        raise XmlUnreadable(str(wrong)) from None


def parse_cfdi(xml: bytes) -> Any:
    """Returns the Comprobante of a CFDI 4.0. Raises XmlUnreadable."""
    root = parse(xml)
    if root.tag != f"{CFD}Comprobante" or root.get("Version") != "4.0":
        raise XmlUnreadable(f"the document is {root.tag} {root.get('Version')}, not a Comprobante 4.0")
    return root


def stamp_of(root: Any) -> Any | None:
    """Returns the TimbreFiscalDigital of a Comprobante, None if it is not stamped."""
    return root.find(f"{CFD}Complemento/{TFD}TimbreFiscalDigital")


def stamped(xml: bytes, *, seal: str | None = None, invoice_id: str | None = None) -> Stamped:
    """Returns a stamped document in the contract's form. FechaTimbrado is the provider's local time in Mexico City.

    `invoice_id` is the provider's own id, the fiscal UUID if it has none. Raises XmlUnreadable if the stamp is
    missing, or if it is the stamp of another document than the one with this seal.
    """
    root = parse_cfdi(xml)
    stamp = stamp_of(root)
    if stamp is None:
        raise XmlUnreadable("the document has no TimbreFiscalDigital")
    if seal is not None and stamp.get("SelloCFD") != seal:
        raise XmlUnreadable("the stamp is that of another document")
    try:
        fiscal_uuid = UUID(stamp.get("UUID") or "")
        stamped_at = datetime.fromisoformat(stamp.get("FechaTimbrado") or "").replace(tzinfo=_ZONE)
    except ValueError:
        raise XmlUnreadable("the TimbreFiscalDigital has no readable UUID and date") from None
    return Stamped(
        fiscal_uuid=fiscal_uuid, invoice_id=invoice_id or str(fiscal_uuid).upper(), xml=xml, stamped_at=stamped_at
    )


def original_chain(element: Any, version: str) -> bytes:
    """Returns the original chain (cadena original) of a Comprobante or a TimbreFiscalDigital: what its seal signs."""
    from satcfdi.transform import xslt_transform

    return str(xslt_transform(element.tag, version)(element)).encode()
