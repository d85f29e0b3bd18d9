"""What a process says that has lost its database while it needed something rare of it."""

from __future__ import annotations

import pytest

from ledger.operations.order_numbers import OrderNumbers
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = pytest.mark.anyio


async def test_order_numbers_that_cannot_be_had_are_a_fault_of_the_database() -> None:
    with pytest.raises(DatabaseUnavailable):
        await OrderNumbers("host=/nowhere dbname=none").take()
