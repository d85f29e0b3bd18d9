"""The receiver of an invoice is checked by SAT's catalogues, and a refusal lists what would be allowed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests.api.bodies import drafted, encoded, order, refusal_of

from api.orders.invoices.stamp import parse_stamp

COMPANY, PERSON = "EKU9003173C9", "CACX7605101P8"


def wrong(**fiscal: Any) -> dict[str, str]:
    refused = refusal_of(order(customerFiscalData=fiscal))
    return {each.field.removeprefix("customerFiscalData."): each.message for each in refused.errors}


@pytest.mark.parametrize(
    "fiscal",
    [
        {"taxId": COMPANY, "taxSystem": "601", "cfdiUse": "G03", "zipCode": "06600", "paymentForm": "03"},
        {"taxId": PERSON, "taxSystem": "605", "cfdiUse": "D10", "zipCode": "83000"},
        {"taxId": PERSON, "taxSystem": "626", "cfdiUse": "I08"},
        {"taxId": "XAXX010101000", "taxSystem": "616", "cfdiUse": "S01"},
        {"cfdiUse": "D01"},
        {"taxSystem": "603"},
        {},
    ],
)
def test_a_receiver_that_the_catalogues_allow_is_taken(fiscal: dict[str, str]):
    kept = drafted(order(customerFiscalData=fiscal)).terms.fiscal
    assert kept is not None
    assert (kept.tax_system, kept.cfdi_use) == (fiscal.get("taxSystem"), fiscal.get("cfdiUse"))


def test_an_unknown_value_is_refused_with_all_that_are_known():
    assert wrong(taxSystem="600") == {
        "taxSystem": "must be 601, 603, 605, 606, 607, 608, 610, 611, 612, 614, 615, 616, 620, 621, 622, 623, 624, 625 "
        "or 626"
    }
    assert wrong(cfdiUse="P01")["cfdiUse"].startswith("must be G01, G02, G03, I01,")
    assert wrong(paymentForm="07")["paymentForm"].startswith("must be 01, 02, 03, 04,")
    for code in ("00001", "6600", "066000", ""):
        assert wrong(zipCode=code) == {
            "zipCode": "must be a postal code of five digits in SAT's catalogue c_CodigoPostal, such as 06600"
        }


def test_the_regime_is_one_that_the_tax_number_can_have():
    companies = "must be 601, 603, 610, 620, 622, 623, 624 or 626 for a company"
    assert wrong(taxId=COMPANY, taxSystem="605") == {"taxSystem": companies}
    assert wrong(taxId=PERSON, taxSystem="601")["taxSystem"].endswith("621, 625 or 626 for a person")
    assert wrong(taxId="XAXX010101000", taxSystem="601") == {"taxSystem": "must be 616 for a generic RFC"}


def test_the_use_is_one_that_the_regime_can_have():
    assert wrong(taxId=PERSON, taxSystem="616", cfdiUse="G03") == {"cfdiUse": "must be G02 or S01 for the regime 616"}
    assert wrong(taxId=COMPANY, cfdiUse="D01")["cfdiUse"].endswith("I08 or S01 for a company")
    assert wrong(taxId="XEXX010101000", cfdiUse="G03") == {"cfdiUse": "must be S01 for a generic RFC"}


def test_every_wrong_field_is_named_at_once_under_the_canonical_name():
    receiver = {"taxId": "ABC", "email": "@", "taxSystem": "1", "cfdiUse": "X", "zipCode": "1", "paymentForm": "0"}
    refused = refusal_of(order(fiscalData=receiver))
    assert [each.field for each in refused.errors] == [f"customerFiscalData.{name}" for name in receiver]
    stamped = refusal_of({"fiscalConfig": receiver}, lambda body: parse_stamp(encoded(body)))
    assert {each.field for each in stamped.errors} == {f"fiscalConfig.{name}" for name in receiver}


def test_a_wrong_receiver_does_not_repeat_what_was_sent():
    refused = refusal_of(order(customerFiscalData={"taxSystem": "4242424242424242", "zipCode": "secreto"}))
    assert "4242" not in f"{refused.message} {refused.errors}"
    assert "secreto" not in f"{refused.message} {refused.errors}"


def test_the_api_checks_a_postal_code_without_satcfdi():
    """A process that checks fields would be slower to start, and larger by 40 MB."""
    program = """
import sys, api.app
from ledger.invoicing.catalogs import is_postal_code
assert is_postal_code("06600")
assert "satcfdi" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": "src"})
