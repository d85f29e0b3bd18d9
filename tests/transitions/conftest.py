"""One application over one database for all stories, and nothing that anybody has to wait long for."""

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
    """A call that is slow is given up before it answers after five seconds, one that is silent at once."""
    own = msgspec.structs.replace(
        settings, processor_timeout_s=4.5, request_timeout_s=20.0, sandbox_deadline_s=0.05, log_level="warning"
    )
    async with opened(own) as storefront:
        yield storefront


@pytest.fixture(scope="module")
def of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that all processes of this run of the tests share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
