"""`ledger export`: what the log holds, line by line, and a proof of each line."""

import asyncio
import json
import os
import subprocess
import sys

import msgspec
import psycopg
import pytest
from tests.cli.test_log import sealed
from tests.seeding.conftest import APPROVED, line, opening, order
from tests.service.trees import environment
from tests.tlog.logs import entries, execute, sealer_of

from ledger.domain.streams import STREAMS
from ledger.journal.codec import CODEC
from ledger.security.secrets import load_checkpoint_keys
from ledger.settings import log_origin
from ledger.tlog.event_lines import entry_in
from ledger.tlog.keys import LogKeys
from ledger.tlog.merkle import inclusion_ranges
from ledger.tlog.notes import Unverified
from ledger.tlog.proofs import Proof, encode_proof
from ledger.tlog.reading import TreeReader

NOON = "2026-03-02T12:00:00-06:00"


@pytest.fixture
def merchant(ledger, write, database_url):
    """A merchant with a paid order, whose metadata has line ends, and another one with a log of its own."""
    other = {**opening(), "as": "Otra"}
    body = order("A/1", APPROVED, metadata={"note": "mesa\n4"})
    assert ledger("seed", write(opening(), line("create", NOON, body), other)).code == 0
    with psycopg.connect(database_url) as connection:
        (found,) = connection.execute("select merchant_id from payment_order").fetchone()
    return found


def lines(printed):
    return [json.loads(text) for text in printed.splitlines()]


def test_every_event_is_a_line_with_what_the_log_holds(ledger, merchant, database_url, tmp_path):
    place = tmp_path / "log.jsonl"
    printed = ledger("export", "--to", "-", "--merchant", merchant).done
    count = len(printed.splitlines())
    assert ledger("export", "--to", place, "--merchant", merchant).done == f"wrote {count} events to {place}\n"
    assert place.read_text(encoding="utf-8") == printed
    assert place.stat().st_mode & 0o777 == 0o600
    assert [entry_in(text.encode()) for text in printed.splitlines()] == entries(database_url, merchant)
    found = lines(printed)
    assert [event["position"] for event in found] == list(range(1, count + 1))
    assert "Zaragoza 12" in printed
    order_id = str(execute(database_url, "select order_id from payment_order")[0][0])
    shown = [event["event"] for event in found if event["streamId"] == order_id]
    assert shown == [event["event"] for event in ledger("replay", order_id, "--json").json["events"]]
    assert lines(ledger("export", "--to", "-", "--merchant", merchant, "--from", 3).done) == found[2:]
    every = lines(ledger("export", "--to", "-").done)
    assert [event for event in every if event["merchantId"] == str(merchant)] == found
    assert len({event["merchantId"] for event in every}) == 2
    assert ledger("export", "--to", place, "--json").json == {"events": len(every), "problems": []}


def test_what_was_erased_is_left_out_and_the_entry_stays(ledger, merchant, database_url):
    before = ledger("export", "--to", "-", "--merchant", merchant).done
    customer = execute(database_url, "select customer_id from customer where merchant_id = %s", merchant)[0][0]

    query = "update data_key set wrapped = null, sealing_key_id = null, destroyed_at = now() where customer_id = %s returning 1"
    assert len(execute(database_url, query, customer)) == 1  # what an erasure's commit does to what was stored before
    after = ledger("export", "--to", "-", "--merchant", merchant).done.splitlines()
    assert "Zaragoza" not in "".join(after)
    count = len(before.splitlines())
    assert [entry_in(text.encode()) for text in after[:count]] == entries(database_url, merchant)[:count]


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ("delete from event where position = 2", "1 events are missing, the first at position 2"),
        (
            "update event set recorded_at = 'infinity' where position = 2",
            "1 events are missing, the first at position 2",
        ),
        (
            "update event set data = overlay(data placing 'AAAA' from 60) where data like '{\"sealed%%'",
            "events cannot be read, the first at position",
        ),
        ("update event set data = 'x' where position = 1", "cannot be read, the first at position 1 (it is not in"),
    ],
)
def test_a_damaged_event_stops_no_export(ledger, merchant, database_url, tmp_path, edit, problem):
    whole = len(ledger("export", "--to", "-", "--merchant", merchant).done.splitlines())
    execute(database_url, edit)
    place = tmp_path / "log.jsonl"
    refused = ledger("export", "--to", place, "--merchant", merchant)
    assert refused.code == 1
    assert problem in refused.err
    found = place.read_bytes().splitlines()
    assert len(found) == whole - ("missing" in problem)
    execute(database_url, "delete from event where recorded_at = 'infinity'")
    assert [entry_in(text) for text in found] == entries(database_url, merchant)


def test_events_of_another_application_are_written_as_bytes(ledger, merchant, database_url):
    execute(
        database_url,
        "insert into event select merchant_id, gen_random_uuid(), 1, position + 1, gen_random_uuid(), now(), 'other',"
        " '\\x00ff', '\\x01' from merchant_head where merchant_id = %s returning 1",
        merchant,
    )
    execute(
        database_url, "update merchant_head set position = position + 1 where merchant_id = %s returning 1", merchant
    )
    last = ledger("export", "--to", "-", "--merchant", merchant).done.splitlines()[-1]
    found = json.loads(last)
    assert (found["event"], found["stored"], found["context"]) == (None, "AP8=", "AQ==")
    assert entry_in(last.encode()) == entries(database_url, merchant)[-1]


def test_an_export_that_is_impossible_gives_the_reason(ledger, merchant, tmp_path):
    unknown = "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44"
    assert "there is no merchant" in ledger("export", "--to", tmp_path / "x", "--merchant", unknown).one_line
    assert "is not the id of a merchant" in ledger("export", "--to", tmp_path / "x", "--merchant", "A").one_line
    assert "cannot be written" in ledger("export", "--to", tmp_path / "absent" / "x").one_line
    assert "Is a directory" in ledger("export", "--to", tmp_path).one_line
    assert "name a .jsonl file instead of" in ledger("export", "--to", tmp_path / "x.parquet").one_line
    assert list(tmp_path.glob("*x*")) == []  # nor a part of what was not completed


def test_an_export_to_a_pipe_does_not_replace_it(ledger, merchant, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        assert ledger("export", "--to", pipe, "--merchant", merchant).code == 0
        assert lines(reader.communicate(timeout=30)[0]) != []
    assert pipe.is_fifo()


def test_a_command_ends_in_silence_once_nobody_reads(settings):
    """`settings` prints at once, `export` page by page."""
    command = f"{sys.executable} -P -c 'from ledger.cli.main import main; main()'"
    sealed(settings, 3000)
    for arguments in ("export --to -", "settings", "settings --json"):
        shell = f"set -o pipefail; {command} {arguments} | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
        variables = {"LEDGER_DATABASE_URL": settings.database_url, "LEDGER_DATABASE_APP_URL": settings.database_url}
        ended = subprocess.run(
            ["bash", "-c", shell],
            env=environment(**variables, LEDGER_DATA_DIR=str(settings.data_dir)),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (ended.stdout.strip() in ("141", "0"), ended.stderr) == (True, ""), arguments
        assert arguments != "export --to -" or ended.stdout == "141\n"


@pytest.fixture
def proved(ledger, merchant, settings, tmp_path):
    """Returns a function that writes the proof and the line of an event, and the public key of the log."""
    keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
    exported = ledger("export", "--to", "-", "--merchant", merchant).done.splitlines()

    async def proofs():
        async with sealer_of(settings.database_url, keys) as sealer:
            await sealer.seal(asyncio.Event())
        trees = TreeReader(settings.database_url)
        place = await trees.place(merchant)
        found = [
            Proof(
                n, await trees.hashes(merchant, inclusion_ranges(n, place.size), place.size), place.checkpoint.encode()
            )
            for n in range(place.size)
        ]
        await trees.stop()
        return found

    def write(position, change=lambda event: event):
        (tmp_path / "proof").write_bytes(encode_proof(found[position - 1]))
        event = change(json.loads(exported[position - 1]))
        text = json.dumps(event, separators=(",", ":"), ensure_ascii=False) if isinstance(event, dict) else event
        (tmp_path / "event").write_text(text, encoding="utf-8")
        return tmp_path / "proof", "--event", tmp_path / "event", "--key", keys.verifiers(merchant)[0]

    found = asyncio.run(proofs())
    write.count = len(exported)
    write.personal = next(n for n, text in enumerate(exported, 1) if "Zaragoza" in text)
    return write


def test_a_line_is_verified_with_its_content(ledger, proved):
    for position in range(1, proved.count + 1):
        done = ledger("log", "verify", *proved(position)).done
        assert done.startswith(f"the event at position {position} is in the log ")

    def forged(change):
        return ledger("log", "verify", *proved(proved.personal, change))

    for name, value in (
        ("position", 1), ("version", 9), ("topic", "x"), ("recordedAt", "2026-03-02T18:00:00.000001Z"), ("context", {}),
    ):  # fmt: skip
        refused = forged(lambda event, name=name, value=value: {**event, name: value})
        assert (refused.code, refused.out) == (1, ""), name
    shown = forged(lambda event: {**event, "event": {**event["event"], "externalId": "B/1"}})
    assert shown.code == 1
    assert "`event.externalId` is not what the log holds" in shown.err
    held = forged(lambda event: {**event, "stored": {**event["stored"], "externalId": "B/1"}})
    assert held.code == 1
    for text in ("", "{}", "[1]", '{"merchantId":"x"}'):
        assert forged(lambda _, text=text: text).code == 2
    answered = forged(
        lambda event: {name: event[name] for name in ("version", "position", "recordedAt", "topic", "event")}
    )
    assert (answered.code, "an answer of /events has not the bytes that the log holds" in answered.err) == (2, True)
    assert forged(lambda event: {**event, "stored": "?"}).code == 2
    assert forged(lambda event: {**event, "recordedAt": "2026-03-02T18:00:00"}).code == 2


def test_the_entry_or_the_event_is_given(ledger, proved):
    proof, option, event, *key = proved(1)
    for options in ((), ("--leaf", event, option, event)):
        refused = ledger("log", "verify", proof, *options, *key)
        assert (refused.code, refused.err) == (
            2,
            "ledger: give --leaf or --event, the entry or the event that is proved\n",
        )


def test_a_content_that_is_none_is_no_proof():
    head = (
        b'{"merchantId":"01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44","position":1,"version":1,"topic":"x","context":{},'
        b'"streamId":"01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44","recordedAt":"2026-03-02T18:00:00Z",'
        b'"commandId":"01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44",'
    )
    with pytest.raises(Unverified, match="`event` is not in the bytes"):
        entry_in(head + b'"event":{"a":1},"stored":"AP8="}')
    with pytest.raises(Unverified, match=r"`event\.a\.b` is not what"):
        entry_in(head + b'"event":{"a":{"b":1}},"stored":{"a":{"b":2}}}')
    for shown, stored in (
        ({"a": {"b": 1}, "c": 2}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": {"b": None}}),
        ({"a": {"b": 1}}, {"a": {}}),
        ({"a": True}, {"a": 1}),
        ({}, {"a": 1}),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}),
    ):
        with pytest.raises(Unverified, match="is not what the log holds"):
            entry_in(head + b'"event":%s,"stored":%s}' % (json.dumps(shown).encode(), json.dumps(stored).encode()))
    with pytest.raises(Unverified, match="does not know the topic of the event"):
        entry_in(head + b'"event":{"a":1},"stored":{"sealed":"","a":1}}')


def test_only_what_is_encrypted_may_be_others(ledger, proved):
    def forged(**members):
        change = lambda event: {**event, "event": {**event["event"], **members}}  # noqa: E731
        return ledger("log", "verify", *proved(proved.personal, change))

    assert forged(metadata={"note": "mesa 5"}).code == 0
    for name, value in (("amountPaid", "1.00"), ("subscriptionId", "x"), ("sealed", "x"), ("", 1)):
        refused = forged(**{name: value})
        assert (refused.code, f"`event.{name}` is not what the log holds" in refused.err) == (1, True), name
    plain = next(n for n in range(1, proved.count + 1) if n != proved.personal)
    held = lambda event: {**event, "stored": event["event"], "event": {**event["event"], "metadata": {}}}  # noqa: E731
    assert ledger("log", "verify", *proved(plain, held)).code == 1


def test_the_paths_of_personal_data_are_those_of_the_json():
    for stream in STREAMS:
        for topic, kind in stream.topics.items():
            names = {name for path in CODEC.personal_paths(topic) for name in path.split(".")}
            schemas = str(msgspec.json.schema(kind))
            assert all(f"'{name}'" in schemas for name in names), topic
