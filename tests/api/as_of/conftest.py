"""A second process whose clock is behind that of the first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import pytest
from tests.api.storefront import Storefront, opened

from ledger.operations.context.clock import MerchantClocks
from ledger.settings import Settings

BEHIND: Final = timedelta(milliseconds=50)


class LateClocks(MerchantClocks):
    """The clocks of a process on a machine whose clock is behind."""

    behind = BEHIND

    def now(self, merchant_id: UUID) -> datetime:
        return super().now(merchant_id) - self.behind


@pytest.fixture
async def late(store: Storefront, settings: Settings) -> AsyncIterator[Storefront]:
    """A second process on the same database, whose clock is behind that of the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ledger.wiring.MerchantClocks", LateClocks)
        async with opened(settings) as storefront:
            yield storefront
