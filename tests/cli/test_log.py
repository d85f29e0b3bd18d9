"""`ledger log`: an exported log is read by the rules of tlog-tiles, and forged proofs are refused by both verifiers."""

import base64
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tests.docs.pages import ROOT
from tests.tlog.logs import append, entries, execute, sealer_of
from tests.tlog.test_notes import ENTRIES, FOREIGN, OTHER, SIGNER, proof_of

from ledger.security.secrets import load_checkpoint_keys
from ledger.settings import log_origin
from ledger.tlog.checkpoints import open_checkpoint
from ledger.tlog.keys import LogKeys
from ledger.tlog.merkle import leaf_hash
from ledger.tlog.notes import parse_verifier
from ledger.tlog.tiles import bundles_in, decode_bundle, range_hash, tile_path, tiles_in

SCRIPT = ROOT / "docs" / "how-to" / "verify_proof.py"


def sealed(settings, *counts):
    """Returns merchants with logs of so many events, which have checkpoints."""
    import asyncio

    merchants = sorted(uuid4() for _ in counts)
    for merchant, count in zip(merchants, counts, strict=True):
        append(settings.database_url, merchant, count)

    async def seal():
        keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
        async with sealer_of(settings.database_url, keys) as sealer:
            await sealer.seal(asyncio.Event())

    asyncio.run(seal())
    return merchants


def test_an_exported_folder_has_the_whole_log(ledger, settings, tmp_path):
    merchants = sealed(settings, 700, 3)
    done = ledger("log", "export", tmp_path, "--json")
    assert [(UUID(each["merchantId"]), each["size"]) for each in done.json] == list(
        zip(merchants, (700, 3), strict=True)
    )
    for merchant, size in zip(merchants, (700, 3), strict=True):
        folder = tmp_path / str(merchant)
        verifiers = [parse_verifier(line) for line in (folder / "key").read_text().splitlines()]
        checkpoint = open_checkpoint((folder / "checkpoint").read_bytes(), verifiers)
        tiles = {tile[:2]: (folder / "tile" / tile_path(tile)).read_bytes() for tile in tiles_in(size)}
        bundles = [(folder / "tile" / tile_path(tile)).read_bytes() for tile in bundles_in(size)]
        written = [entry for bundle in bundles for entry in decode_bundle(bundle)]
        assert written == entries(settings.database_url, merchant)
        leaves = b"".join(leaf_hash(entry) for entry in written)
        assert leaves == b"".join(tiles[0, number] for number in range(-(-size // 256)))
        assert checkpoint.size == size
        assert range_hash(range(size), lambda level, number, tiles=tiles: tiles[level, number]) == checkpoint.root
    alone = tmp_path / "alone"
    assert ledger("log", "export", alone, "--merchant", merchants[1]).code == 0
    assert (alone / "checkpoint").read_bytes() == (tmp_path / str(merchants[1]) / "checkpoint").read_bytes()
    assert not list(tmp_path.rglob("*.unfinished"))


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ("update event set data = 'x' where position = 300", "an event of the positions 300 to 300"),
        ("delete from event where position = 300", "an event of the positions 300 to 512"),
        (
            "update log_tile set hashes = overlay(hashes placing '\\x00'::bytea from 8192) where number = 1",
            "512 to 512",
        ),
        ("update log_tile set root = overlay(root placing '\\x00'::bytea from 1) where number = 1", "tile 1/0 has not"),
        ("update log_checkpoint set note = overlay(note placing '600' from strpos(note, '700'))", "signature"),
    ],
)
def test_an_export_names_what_was_changed(ledger, settings, tmp_path, edit, named):
    sealed(settings, 700)
    execute(settings.database_url, edit)
    refused = ledger("log", "export", tmp_path)
    assert (refused.code, refused.out) == (1, "")
    assert "is not what its checkpoint has" in refused.err
    assert named in refused.err
    assert not list(tmp_path.rglob("checkpoint"))


def test_a_merchant_without_a_signed_log_is_named(ledger, settings, tmp_path):
    assert ledger("log", "export", tmp_path, "--merchant", uuid4()).err.startswith("ledger: the merchant ")
    assert ledger("log", "export", tmp_path, "--merchant", "x").code == 1
    assert ledger("log", "export", tmp_path, "--json").json == []


def write(folder: Path, proof: bytes, entry: bytes) -> tuple[Path, Path]:
    places = folder / "proof", folder / "entry"
    for place, content in zip(places, (proof, entry), strict=True):
        place.write_bytes(content)
    return places


@pytest.mark.parametrize(
    ("proof", "entry", "key", "code"),
    [
        (proof_of(5, 9), ENTRIES[5], SIGNER, 0),
        (proof_of(5, 9), ENTRIES[5], OTHER, 1),
        (proof_of(5, 9, FOREIGN), ENTRIES[5], SIGNER, 1),
        (proof_of(5, 9), ENTRIES[6], SIGNER, 1),
        (proof_of(5, 9).replace(b"index 5", b"index 6"), ENTRIES[5], SIGNER, 1),
        (proof_of(5, 9).replace(b"\n9\n", b"\n8\n"), ENTRIES[5], SIGNER, 1),
        (b"no proof", ENTRIES[5], SIGNER, 2),
        (proof_of(5, 9), ENTRIES[5], None, 2),
    ],
)
def test_a_proof_is_verified_by_the_command_and_by_the_script(ledger, tmp_path, proof, entry, key, code):
    place, leaf = write(tmp_path, proof, entry)
    vkey = "not+a+key" if key is None else str(key.verifier)
    done = ledger("log", "verify", place, "--leaf", leaf, "--key", vkey)
    assert done.code == code, done.err
    alone = subprocess.run(
        [sys.executable, "-I", SCRIPT, place, leaf, vkey], capture_output=True, text=True, check=False
    )
    assert alone.returncode == code, alone.stderr
    if code == 0:
        assert alone.stdout == done.out
        shown = ledger("log", "verify", place, "--leaf", leaf, "--key", vkey, "--json").json
        assert shown == {"position": 6, "index": 5, "size": 9, "origin": SIGNER.verifier.name}
    else:
        assert done.out == alone.stdout == ""
    assert ledger("log", "verify", tmp_path / "absent", "--leaf", leaf, "--key", vkey).code == 2


def test_what_cannot_be_read_is_named(ledger, tmp_path):
    proof, leaf = write(tmp_path, proof_of(5, 9), ENTRIES[5])
    key = str(SIGNER.verifier)

    def unread(*arguments):
        done = ledger("log", "verify", *arguments)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        return done.err

    assert "/dev/zero is not readable: it has more than" in unread("/dev/zero", "--leaf", leaf, "--key", key)
    assert "/dev/zero is not readable: it has more than" in unread(proof, "--leaf", "/dev/zero", "--key", key)
    assert f"{leaf} is not readable: a proof begins with" in unread(leaf, "--leaf", leaf, "--key", key)
    assert f"{leaf} is not readable: the event is not a line" in unread(proof, "--event", leaf, "--key", key)
    assert "a key is not readable: a verifier key is NAME+ID+KEY" in unread(proof, "--leaf", leaf, "--key", "x")
    assert "NAME+ID+KEY" in script(proof, leaf, "x")
    assert script(proof, leaf) == "usage: verify_proof.py PROOF ENTRY VKEY\n"


def script(*arguments):
    done = subprocess.run([sys.executable, "-I", SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    return done.stderr


@examples(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(2, 300), st.data())
def test_the_script_accepts_no_forged_proof(size, data):
    import runpy

    verify = runpy.run_path(str(SCRIPT), run_name="a module")["verify"]
    index = data.draw(st.integers(0, size - 1))
    file, vkey = proof_of(index, size), str(SIGNER.verifier)
    assert verify(file, ENTRIES[index], vkey) == (index + 1, SIGNER.verifier.name, size)
    head, blank, note = file.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    hashes = [base64.b64decode(line) for line in lines[1:]]
    at = data.draw(st.integers(0, len(hashes) - 1))
    bit = data.draw(st.integers(0, 255))
    changed = (int.from_bytes(hashes[at], "big") ^ (1 << bit)).to_bytes(32, "big")
    forged = [*hashes[:at], changed, *hashes[at + 1 :]]
    for other in (forged, hashes[:at] + hashes[at + 1 :], [*hashes, hashes[at]], hashes[::-1]):
        if other != hashes:
            text = b"\n".join([first, lines[0], *map(base64.b64encode, other)])
            assert verify(text + blank + note, ENTRIES[index], vkey) is None
    assert verify(file, ENTRIES[(index + 1) % size], vkey) is None
    assert verify(file, ENTRIES[index], str(OTHER.verifier)) is None
    assert verify(file, ENTRIES[index], str(FOREIGN.verifier)) is None
