"""SAT's catalogues, as satcfdi ships them and as the domain states them."""

import pytest
from lxml import etree
from tests.invoicing.sat_schemas import SCHEMAS

from ledger.domain.invoices.receivers import PAYMENT_FORMS, REGIMES, USES, regimes_of, use_of_refund, uses_of
from ledger.invoicing.catalogs import is_postal_code, is_product_key, is_unit_key, time_zone_of


@pytest.fixture(scope="module")
def keys():
    """The keys of each catalogue in SAT's schema."""
    root = etree.parse(SCHEMAS / "www.sat.gob.mx/sitio_internet/cfd/catalogos/catCFDI.xsd")
    types = {each.get("name"): each for each in root.iterfind("{*}simpleType")}
    return {
        name: {each.get("value") for each in types[name].iterfind(".//{*}enumeration")}
        for name in ("c_RegimenFiscal", "c_UsoCFDI", "c_FormaPago", "c_ClaveProdServ", "c_ClaveUnidad")
    }


def test_the_regimes_and_uses_are_those_of_the_schema_without_the_old_ones(keys):
    assert keys["c_RegimenFiscal"] - set(REGIMES) == {"609", "628", "629", "630"}
    assert keys["c_UsoCFDI"] - set(USES) == {"P01", "CP01", "CN01"}
    assert set(REGIMES) < keys["c_RegimenFiscal"]
    assert set(USES) < keys["c_UsoCFDI"]


def test_the_payment_forms_are_those_of_the_schema(keys):
    assert set(PAYMENT_FORMS) == keys["c_FormaPago"]


def test_regimes_and_uses_depend_on_the_receiver():
    company, person = "URE180429TM6", "CACX7605101P8"
    assert set(regimes_of(company)) | set(regimes_of(person)) == set(REGIMES) == set(regimes_of(None))
    assert set(regimes_of(company)) & set(regimes_of(person)) == {"610", "626"}
    assert "D01" not in uses_of(company, None)
    assert {"D01", "G03", "S01"} <= set(uses_of(person, None))
    assert uses_of(person, "616") == ("G02", "S01")
    assert "D01" not in uses_of(person, "626")
    assert uses_of("XAXX010101000", None) == ("S01",)
    assert regimes_of("XEXX010101000") == ("616",)
    assert (use_of_refund("616"), use_of_refund("605")) == ("G02", "S01")


@pytest.mark.parametrize("code", ["06600", "42501", "86991", "83000"])
def test_a_postal_code_is_one_of_the_catalogue(code):
    assert is_postal_code(code)


@pytest.mark.parametrize("code", ["00001", "6600", "066000", "", "ABCDE", "0660\u0660"])
def test_another_text_is_none(code):
    assert not is_postal_code(code)


def test_a_place_that_is_unknown_has_the_time_of_the_capital():
    assert time_zone_of("00001").key == "America/Mexico_City"


def test_products_and_units_are_those_of_the_schema(keys):
    """SAT has withdrawn some 200 products that its schema still lists."""
    units, products = sorted(keys["c_ClaveUnidad"]), sorted(keys["c_ClaveProdServ"])
    assert all(is_unit_key(unit) for unit in units)
    assert sum(not is_product_key(key) for key in products[::50]) < 10
    assert all(is_product_key(key) for key in ("01010101", "84111506", "50201706"))
    assert not any(is_product_key(key) for key in ("", "5020170", "502017066", "99999999", "A0201706"))
    assert not any(is_unit_key(key) for key in ("", "h87", "H87 ", "PIEZA"))
