"""The names of SAT's codes, as the printed document shows them beside the code. SAT publishes them in Spanish only."""

from __future__ import annotations

from functools import cache
from typing import Final

_TABLES: Final = {
    "tax_system": "C756_c_RegimenFiscal",
    "cfdi_use": "C756_c_UsoCFDI",
    "payment_form": "C756_c_FormaPago",
    "payment_method": "C756_c_MetodoPago",
    "relation": "C756_c_TipoRelacion",
}


@cache
def described(kind: str, code: str) -> str:
    """Returns a code with its name: "G03 Gastos en general.". A code without a name is shown alone."""
    from satcfdi.catalogs import select

    found = select(_TABLES[kind], code)
    name = found[0] if isinstance(found, list | tuple) else found
    return f"{code} {name}" if name else code
