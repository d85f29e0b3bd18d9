"""An exported log is read by two programs for C2SP tlog-tiles that are not of this project, each where it is installed.

`tlog-scales` is among the tools of the tests; `aics-tlog` needs Python 3.12.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_log import sealed
from tests.tlog.logs import entries

SIZES = (3, 256, 700)


@pytest.fixture
def exported(ledger: Any, settings: Any, tmp_path: Path) -> list[tuple[Path, list[bytes]]]:
    """Returns the folders of logs, each with the entries that it has to have."""
    merchants = sealed(settings, *SIZES)
    assert ledger("log", "export", tmp_path).code == 0
    return [(tmp_path / str(merchant), entries(settings.database_url, merchant)) for merchant in merchants]


def test_tlog_scales_verifies_an_exported_log(exported: list[tuple[Path, list[bytes]]]) -> None:
    reader, backend, tiles, signing = [
        pytest.importorskip(f"tlog_scales.{name}") for name in ("reader", "backend", "tiles", "signing")
    ]
    for folder, written in exported:
        log = reader.TilesReader(backend.LocalBackend(folder))
        checkpoint = log.get_checkpoint()
        checkpoint.verify(signing.Vkey.from_string((folder / "key").read_text().splitlines()[0]))
        assert (checkpoint.size, log.calculate_root_hash()) == (len(written), checkpoint.root_hash)
        for index in {0, len(written) // 2, len(written) - 1}:
            assert log.get_entry(index) == written[index]
            proof = log.get_inclusion_proof(index, checkpoint.size)
            proof.check(tiles.leaf_hash(written[index]), checkpoint.root_hash)
            with pytest.raises(Exception, match="root_hash"):
                proof.check(tiles.leaf_hash(written[index] + b" "), checkpoint.root_hash)
        for size in {1, len(written) // 2 + 1}:
            log.get_consistency_proof(size, checkpoint.size).check(log.mth(0, size), checkpoint.root_hash)


@pytest.fixture
def aics() -> Any:
    return pytest.importorskip("aics_tlog")


def test_aics_tlog_verifies_an_exported_log(aics: Any, exported: list[tuple[Path, list[bytes]]]) -> None:
    for folder, written in exported:
        key = aics.parse_vkey((folder / "key").read_text().splitlines()[0])
        checkpoint = aics.verify_checkpoint(aics.parse_note((folder / "checkpoint").read_bytes()), key)
        assert checkpoint.ok
        size, root = len(written), checkpoint.root
        log = aics.FileSystemTileReader(folder)
        assert checkpoint.size == aics.audit_tiles(log, size, root).size == size
        for index in {0, size // 2, size - 1}:
            assert aics.read_entry(log, index, size) == written[index]
            proof = aics.inclusion_proof_from_tiles(log, index, size)
            assert aics.verify_leaf_inclusion(written[index], index, size, proof, root)
            assert not aics.verify_leaf_inclusion(written[index] + b" ", index, size, proof, root)
        for old in {1, size // 2 + 1}:
            proof = aics.consistency_proof_from_tiles(log, old, size)
            assert aics.verify_consistency(old, size, aics.tree_root_from_tiles(log, old, size), root, proof)
