"""One application over one database for all scenarios, with short time-outs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.api.conftest import settings
from tests.api.storefront import Storefront, opened

from ledger.settings import Settings

__all__ = ["settings"]


@pytest.fixture(scope="module")
async def store(settings: Settings) -> AsyncIterator[Storefront]:
    """Runs the application. A slow call, which answers after five seconds, times out before; a silent one at once."""
    own = msgspec.structs.replace(
        settings, processor_timeout_s=4.5, request_timeout_s=60.0, sandbox_deadline_s=0.05, log_level="warning"
    )
    async with opened(own) as storefront:
        yield storefront


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory that all processes of this test run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
