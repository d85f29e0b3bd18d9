"""SAT's XML schemas with its catalogues, compiled once: that takes half a second."""

from functools import cache
from pathlib import Path

import satcfdi.transform
from lxml import etree

SCHEMAS = Path(satcfdi.transform.__file__).parent / "schemas"
_FILES = (
    "www.sat.gob.mx/sitio_internet/cfd/4/cfdv40.xsd",
    "www.sat.gob.mx/sitio_internet/cfd/Pagos/Pagos20.xsd",
    "www.sat.gob.mx/sitio_internet/cfd/TimbreFiscalDigital/TimbreFiscalDigitalv11.xsd",
)


def schema_errors(xml: bytes) -> list[str]:
    """Returns what the schemas find wrong in a document."""
    schema = _schema()
    schema.validate(etree.fromstring(xml))
    return [f"{error.line}: {error.message}" for error in schema.error_log]


@cache
def _schema() -> etree.XMLSchema:
    imports = "".join(
        f'<xs:import namespace="{_namespace(SCHEMAS / file)}" schemaLocation="{file}"/>' for file in _FILES
    )
    text = f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{imports}</xs:schema>'
    return etree.XMLSchema(etree.fromstring(text, base_url=str(SCHEMAS / "schema.xsd")))


def _namespace(file: Path) -> str:
    return etree.parse(file).getroot().get("targetNamespace")
