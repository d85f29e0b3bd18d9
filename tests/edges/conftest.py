"""One application over one database for all stories, and nothing that anybody has to wait long for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.api.conftest import settings
from tests.api.storefront import Storefront, opened

from ledger.settings import Settings

__all__ = ["settings"]


@pytest.fixture(scope="module")
async def store(settings: Settings) -> AsyncIterator[Storefront]:
    """A call that is slow is given up after three seconds, one that is silent at once."""
    own = msgspec.structs.replace(
        settings, processor_timeout_s=3.0, request_timeout_s=20.0, sandbox_deadline_s=0.05, log_level="warning"
    )
    async with opened(own) as storefront:
        yield storefront
