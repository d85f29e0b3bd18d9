"""A field that merchants send with an order is stored in its creation and returned in its document.

A new field is added in four files: `api/orders/create.py`, `ledger/domain/orders/terms.py`,
`ledger/domain/orders/events.py` and `projections/orders/head.py`.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_type_hints

import pytest

from ledger.domain.orders.events import OrderCreated
from ledger.domain.orders.terms import OrderTerms
from projections.orders import head

NOT_RETURNED = {
    "device_information": "it identifies the payer's device, and only the processor needs it",
}


@pytest.mark.parametrize("field", OrderTerms.__struct_fields__)
def test_every_term_of_an_order_is_stored_in_its_creation(field: str) -> None:
    assert field in OrderCreated.__struct_fields__
    assert get_type_hints(OrderCreated)[field] == get_type_hints(OrderTerms)[field]


@pytest.mark.parametrize("field", [field for field in OrderTerms.__struct_fields__ if field not in NOT_RETURNED])
def test_every_term_of_an_order_is_returned_in_its_document(field: str) -> None:
    assert field in _read_from_terms()


def _read_from_terms() -> set[str]:
    """The names that the rendering reads from `terms` or `order.terms`; the receiver comes from the order's state."""
    module = ast.parse(Path(head.__file__).read_text())
    attributes = [node for node in ast.walk(module) if isinstance(node, ast.Attribute)]
    read = {ast.unparse(node) for node in attributes}
    return {name.rpartition(".")[2] for name in read if name.rpartition(".")[0] in {"terms", "order.terms"}} | (
        {"fiscal"} if "order.invoiced_to" in read else set()
    )
