"""The benchmark of stamping measures a worker that really stamps."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.bench.scratch import scratch_database
from ledger.bench.suites import stamping
from ledger.settings import Settings


@pytest.mark.long
def test_a_worker_stamps_every_document_that_was_counted(postgres_url: str, tmp_path: Path) -> None:
    with scratch_database(postgres_url) as url:
        found = stamping.report(url, Settings(data_dir=tmp_path), tmp_path, 0.05)
    worker, alone = found.samples.values()
    assert (worker.done, alone.done) == (2 * (1 + stamping.PAYMENTS) - 1, 2 * (1 + stamping.PAYMENTS))
    assert found.ratios[0].value > 0
    assert len(found.facts) == 2
