"""Two API processes on one database, each with its own port, and a merchant whose requests go to both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from campaigns.chaos.clients import Merchant
from campaigns.chaos.installation import Installation, installed
from campaigns.chaos.running import LEDGER, Running, new_merchant
from msgspec import Struct

# The processor takes so long that every request of a race has arrived before the first one is answered.
_SETTINGS = {"LEDGER_SANDBOX_DELAY_MS": "250", "LEDGER_PROCESSOR_TIMEOUT_S": "10", "LEDGER_NOT_FOUND_FINAL_S": "20"}


class TwoProcesses(Struct, frozen=True, kw_only=True):
    """Two API processes on one database: a port per process, and the merchant whose requests race."""

    installation: Installation
    ports: Sequence[int]
    merchant: Merchant


@pytest.fixture(scope="module")
def processes(
    postgres_url: str, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoProcesses]:
    log: Path = tmp_path_factory.mktemp("races") / "log"
    with installed(postgres_url, template_database, _SETTINGS) as installation:
        command, environment = [*LEDGER, "api", "--port", "0"], installation.environment
        with Running(command, environment, log) as one, Running(command, environment, log) as other:
            merchant = new_merchant("Races", environment)
            yield TwoProcesses(installation=installation, ports=(one.wait_port(), other.wait_port()), merchant=merchant)
