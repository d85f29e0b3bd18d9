"""The error of a process that has lost its database when it needs a new block of order numbers."""

from __future__ import annotations

import pytest

from ledger.operations.context.order_numbers import OrderNumbers
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = pytest.mark.anyio


async def test_missing_order_numbers_are_a_fault_of_the_database() -> None:
    with pytest.raises(DatabaseUnavailable):
        await OrderNumbers("host=/nowhere dbname=none", b"k" * 32).take()
