"""SAT's catalogues of postal codes, products, units, currencies, regimes and uses: a SQLite file of satcfdi.

Read the file without satcfdi: importing it takes 0.1 seconds and 40 MB, which a process that only checks the fields of
a request never needs. Its keys and values are pickled; `tests/invoicing/test_catalogs.py` holds that they still are.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

_ZONES: Final = {
    "Tiempo del Centro": "America/Mexico_City",
    "Tiempo del Centro en Frontera": "America/Matamoros",
    "Tiempo del Noroeste": "America/Tijuana",
    "Tiempo del Pacífico": "America/Mazatlan",
    "Tiempo del Sureste": "America/Cancun",
}
"""The zone of each name in the catalogue. satcfdi's own table has the zone of La Paz in Bolivia for the Pacific."""


def is_postal_code(zip_code: str) -> bool:
    """Returns whether SAT's c_CodigoPostal has this code."""
    return len(zip_code) == 5 and _entry(zip_code) is not None


def time_zone_of(zip_code: str) -> ZoneInfo:
    """Returns the time zone of a postal code: documents state the local time of the place of issue (Anexo 20)."""
    entry = _entry(zip_code)
    return ZoneInfo(_ZONES["Tiempo del Centro"] if entry is None else _ZONES[entry[4]])


@lru_cache(maxsize=4096)
def is_product_key(key: str) -> bool:
    """Returns whether SAT's c_ClaveProdServ has this key."""
    return _has("C756_c_ClaveProdServ", key)


@lru_cache(maxsize=1024)
def is_unit_key(key: str) -> bool:
    """Returns whether SAT's c_ClaveUnidad has this key, in which case counts."""
    return _has("C756_c_ClaveUnidad", key)


@lru_cache(maxsize=256)
def is_currency(code: str) -> bool:
    """Returns whether SAT's c_Moneda has this code."""
    return _has("C756_c_Moneda", code)


@cache
def tax_systems() -> Mapping[str, str]:
    """Returns SAT's c_RegimenFiscal: the names, in Spanish, by their codes."""
    return _names(_catalog().execute("SELECT key, value FROM C756_c_RegimenFiscal"))


@cache
def cfdi_uses() -> Mapping[str, str]:
    """Returns SAT's c_UsoCFDI: the names, in Spanish, by their codes."""
    return _names(_catalog().execute("SELECT key, value FROM C756_c_UsoCFDI"))


def _names(rows: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    found = ((pickle.loads(key), pickle.loads(value)) for key, value in rows)  # noqa: S301 - a file of a pinned package
    return {key: value if isinstance(value, str) else value[0] for key, value in sorted(found)}


def _has(table: str, key: str) -> bool:
    select = f"SELECT 1 FROM {table} WHERE key = ?"  # noqa: S608 - the table is a constant of this module
    return _catalog().execute(select, (pickle.dumps(key, protocol=4),)).fetchone() is not None


@lru_cache(maxsize=4096)
def _entry(zip_code: str) -> list[Any] | None:
    """Returns state, municipality, locality, whether it is at the border, and the name of the zone."""
    row = _catalog().execute(
        "SELECT value FROM C756_c_CodigoPostal WHERE key = ?", (pickle.dumps(zip_code, protocol=4),)
    )
    found = row.fetchone()
    return None if found is None else pickle.loads(found[0])  # noqa: S301 - a file of a pinned package


@cache
def _catalog() -> sqlite3.Connection:
    package = find_spec("satcfdi")
    assert package is not None, "satcfdi is a dependency"
    assert package.submodule_search_locations is not None, "satcfdi is a package"
    file = Path(package.submodule_search_locations[0]) / "catalogs" / "catalogs.db"
    return sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
