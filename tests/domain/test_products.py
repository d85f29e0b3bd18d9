"""The product of a catalogue: its creation, changed and cleared details, attributes, and what it needs."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from msgspec import UNSET, Raw
from msgspec.structs import replace
from tests.domain.builders import NOON
from tests.domain.scenario import given

from ledger.domain.orders.terms import Tax
from ledger.domain.products.commands import ImportProduct
from ledger.domain.products.decide import ATTRIBUTES_BYTES_MAX, problems_of
from ledger.domain.products.events import ProductImported
from ledger.domain.products.evolve import evolve

LATER = NOON + timedelta(hours=1)
PRODUCT = UUID(int=77)
IVA = Tax(type="IVA", rate=Decimal("0.16"), factor="Tasa", withholding=False)
COFFEE = ProductImported(
    product_id=PRODUCT,
    id="cafe",
    name="Café",
    price=Decimal(38900),
    status="active",
    created_at=NOON,
    at=NOON,
    sku="CAF-1",
    taxes=(IVA,),
    metadata=Raw(b'{"a":1}'),
    attributes=Raw(b'{"roast":"dark","size":1}'),
)


def importing(**details: Any) -> ImportProduct:
    return ImportProduct(product_id=PRODUCT, id="cafe", details=details, at=LATER)


def test_a_new_product_is_active_and_has_the_given_details():
    product = (
        given()
        .when(importing(name="Café", price=Decimal(1), attributes={"roast": Raw(b'"dark"'), "none": None}))
        .then(
            ProductImported(
                product_id=PRODUCT,
                id="cafe",
                name="Café",
                price=Decimal(1),
                status="active",
                created_at=LATER,
                at=LATER,
                attributes=Raw(b'{"roast":"dark"}'),
            )
        )
    )
    assert (product.created_at, product.updated_at, product.taxes) == (LATER, LATER, None)


def test_only_given_details_change_and_the_event_has_the_whole_product():
    product = given(COFFEE).when(importing(price=Decimal(39900))).then(replace(COFFEE, price=Decimal(39900), at=LATER))
    assert (product.created_at, product.updated_at) == (NOON, LATER)


def test_an_import_that_changes_nothing_has_no_event():
    given(COFFEE).when(importing()).then()
    same = {"name": "Café", "price": Decimal("38900.00"), "status": "active", "taxes": (IVA,), "sku": "CAF-1"}
    given(COFFEE).when(importing(**same, metadata=Raw(b'{"a":1}'), attributes={"size": Raw(b"1")})).then()


def test_null_clears_a_detail():
    cleared = {"sku": None, "taxes": None, "metadata": UNSET, "attributes": UNSET}
    given(COFFEE).when(importing(sku=None, taxes=None, metadata=None, attributes=None)).then(
        replace(COFFEE, at=LATER, **cleared)
    )


def test_attributes_are_merged_by_their_names():
    given(COFFEE).when(importing(attributes={"size": None, "bean": Raw(b"[1]")})).then(
        replace(COFFEE, at=LATER, attributes=Raw(b'{"roast":"dark","bean":[1]}'))
    )


def test_the_ids_and_the_creation_of_a_product_never_change():
    other = ImportProduct(product_id=UUID(int=78), id="other", details={"status": "archived"}, at=LATER)
    given(COFFEE).when(other).then(replace(COFFEE, status="archived", at=LATER))


def test_a_new_product_needs_a_name_and_a_price_and_an_existing_one_does_not():
    assert [problem.field for problem in problems_of(None, {})] == ["name", "price"]
    assert problems_of(evolve(None, COFFEE), {}) == []


def test_attributes_may_not_grow_without_bound():
    half = {"long": Raw(b'"%s"' % (b"x" * (ATTRIBUTES_BYTES_MAX - 20)))}
    assert problems_of(None, {"name": "a", "price": Decimal(1), "attributes": half}) == []
    (problem,) = problems_of(evolve(None, COFFEE), {"attributes": half})
    assert (problem.field, problem.code) == ("attributes", "INVALID_LENGTH")
