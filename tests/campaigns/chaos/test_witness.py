"""The clients' record: on disk before anything counts, readable to the last whole line."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from campaigns.chaos.witness import Asked, RecordedAnswer, Witness, read_record

pytestmark = pytest.mark.anyio

MERCHANT = uuid4()


def a_create(name: str = "1") -> Asked:
    return Asked(do="create", merchant_id=MERCHANT, external_id=name, amount=1000)


async def test_an_operation_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    witness = Witness(tmp_path / "record")
    n = await witness.invoke(a_create())
    answer = RecordedAnswer(status=201, order_id=UUID(int=7), order_status="PENDING", amount_paid=0)
    await witness.ended(n, "ok", answer)
    (operation,) = read_record(tmp_path / "record")
    assert (operation.asked, operation.outcome, operation.answer) == (a_create(), "ok", answer)
    assert (operation.began, operation.ended) == (0, 1)


async def test_nothing_is_acknowledged_before_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    witness = Witness(tmp_path / "record")
    n = await witness.invoke(a_create())

    def full_disk(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fdatasync", full_disk)
    with pytest.raises(OSError, match="no space"):
        await witness.ended(n, "ok", RecordedAnswer(status=201))


async def test_many_clients_share_a_sync_and_each_has_waited_for_its_own(tmp_path: Path) -> None:
    witness = Witness(tmp_path / "record")

    async def client(name: int) -> None:
        n = await witness.invoke(a_create(str(name)))
        await witness.ended(n, "fail", RecordedAnswer(status=409))
        lines = (tmp_path / "record").read_text().splitlines()
        assert sum(f'"n":{n},' in line for line in lines) == 2

    await asyncio.gather(*[client(n) for n in range(100)])
    assert len(read_record(tmp_path / "record")) == 100
    assert witness.syncs < 20


async def test_an_operation_that_never_ended_is_of_unknown_outcome(tmp_path: Path) -> None:
    witness = Witness(tmp_path / "record")
    await witness.invoke(a_create())
    assert [operation.outcome for operation in read_record(tmp_path / "record")] == ["info"]


async def test_a_last_line_that_was_cut_short_is_not_there(tmp_path: Path) -> None:
    witness = Witness(tmp_path / "record")
    n = await witness.invoke(a_create())
    with (tmp_path / "record").open("ab") as file:
        file.write(b'{"n":%d,"outcome":"ok"' % n)
    assert [operation.outcome for operation in read_record(tmp_path / "record")] == ["info"]
