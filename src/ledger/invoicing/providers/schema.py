"""SAT's XML schemas of a CFDI 4.0 and of its complement for payments 2.0, as satcfdi ships them, without catalogues.

The schemas hold each catalogue as a list, 52,000 products among them: they take 1.4 seconds and 100 MB to compile, and
20 ms for each line of a document. Here a key of a catalogue is any text. `rules` looks keys up in the catalogues.
"""

from __future__ import annotations

import re
import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Final

from lxml import etree

from ledger.invoicing.contract import Refused

_ROOT: Final = Path("www.sat.gob.mx/sitio_internet/cfd")
_SCHEMAS: Final = {
    "http://www.sat.gob.mx/cfd/4": _ROOT / "4" / "cfdv40.xsd",
    "http://www.sat.gob.mx/Pagos20": _ROOT / "Pagos" / "Pagos20.xsd",
}
_TYPES: Final = _ROOT / "tipoDatos" / "tdCFDI" / "tdCFDI.xsd"
_CATALOGUES: Final = {
    "catCFDI": ("http://www.sat.gob.mx/sitio_internet/cfd/catalogos", _ROOT / "catalogos" / "catCFDI.xsd"),
    "catPagos": ("http://www.sat.gob.mx/sitio_internet/cfd/catalogos/Pagos", _ROOT / "catalogos/Pagos/catPagos.xsd"),
}
_PLACE: Final = re.compile(r"Element '(?:\{[^}]*\})?(\w+)'(?:, attribute '(\w+)')?")
_PATTERNS: Final = {
    ("Comprobante", "Fecha"): ("CFDI40101", "El campo Fecha no cumple con el patrón requerido."),
    ("Comprobante", "TipoCambio"): ("CFDI40117", "El campo TipoCambio no cumple con el patrón requerido."),
}
"""The faults of a schema that have a code of their own."""

_LOCK: Final = Lock()


def check_structure(root: Any) -> Refused | None:
    """Returns SAT's refusal of a Comprobante that its schemas do not allow; None for one that they do.

    The refusal names the element and the attribute, and no value: it is stored and shown, and a value may be personal.
    """
    with _LOCK:  # the log of errors belongs to the schema
        schema = _schema()
        if schema.validate(root):
            return None
        problem = str(schema.error_log[0].message)
    found = _PLACE.match(problem)
    element, attribute = (found[1], found[2] or "") if found else ("", "")
    if (element, attribute) in _PATTERNS:
        code, message = _PATTERNS[element, attribute]
        return Refused(code=code, message=message)
    place = f"{element}, atributo {attribute}" if attribute else element
    return Refused(code="301", message=f"XML mal formado: no cumple con el esquema ({place}).")


@cache
def _schema() -> etree.XMLSchema:
    """Returns the compiled schemas. It takes some ten milliseconds, once."""
    package = find_spec("satcfdi")
    assert package is not None, "satcfdi is a dependency"
    assert package.submodule_search_locations is not None, "satcfdi is a package"
    shipped = Path(package.submodule_search_locations[0]) / "transform" / "schemas"
    with TemporaryDirectory(prefix="ledger-schemas-") as made:
        texts = []
        for file in (*_SCHEMAS.values(), _TYPES):
            (Path(made) / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(shipped / file, Path(made) / file)
            texts.append((shipped / file).read_text("utf-8"))
        for prefix, (namespace, file) in _CATALOGUES.items():
            (Path(made) / file).parent.mkdir(parents=True, exist_ok=True)
            names = {name for text in texts for name in re.findall(rf'"{prefix}:(\w+)"', text)}
            (Path(made) / file).write_text(_without_keys(namespace, sorted(names)), "utf-8")
        imports = "".join(
            f'<xs:import namespace="{namespace}" schemaLocation="{file.as_posix()}"/>'
            for namespace, file in _SCHEMAS.items()
        )
        text = f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{imports}</xs:schema>'
        return etree.XMLSchema(etree.fromstring(text, base_url=str(Path(made) / "schema.xsd")))


def _without_keys(namespace: str, names: list[str]) -> str:
    """Returns the schema of a catalogue whose types take every text."""
    types = "".join(
        f'<xs:simpleType name="{name}"><xs:restriction base="xs:string"/></xs:simpleType>' for name in names
    )
    return (
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="{namespace}"'
        f' elementFormDefault="qualified">{types}</xs:schema>'
    )
