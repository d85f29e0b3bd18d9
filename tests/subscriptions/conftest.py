"""A merchant that bills subscriptions, on a ledger of its own."""

from __future__ import annotations

import pytest
from tests.operations.conftest import database_url, ledger, merchant, module_ledger, module_url, open_another
from tests.subscriptions.shop import Shop

from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger

__all__ = ["database_url", "ledger", "merchant", "module_ledger", "module_url", "open_another"]


@pytest.fixture
async def shop(ledger: Ledger, merchant: Actor, database_url: str) -> Shop:
    return Shop(ledger, merchant, database_url)
