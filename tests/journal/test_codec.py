"""Events keep their bytes: the stored sample of every topic loads, and equal events have equal bytes."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct
from tests.journal.samples import SAMPLES

from ledger.domain.streams import TOPICS
from ledger.journal.codec import CODEC, Codec, UnknownTopic

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("topic", TOPICS)
def test_the_stored_sample_of_a_topic_still_loads(topic: str) -> None:
    stored = (GOLDEN / f"{topic}.json").read_bytes()
    assert CODEC.decode(topic, stored) == SAMPLES[topic]


@pytest.mark.parametrize("topic", TOPICS)
def test_an_event_is_written_as_it_was_the_first_time(topic: str) -> None:
    encoded = CODEC.encode(SAMPLES[topic])
    assert encoded.topic.decode() == topic
    assert encoded.data == (GOLDEN / f"{topic}.json").read_bytes()


@pytest.mark.parametrize("topic", TOPICS)
def test_a_sample_fills_every_field(topic: str) -> None:
    sample = SAMPLES[topic]
    stored = json.loads((GOLDEN / f"{topic}.json").read_bytes())
    assert set(stored) == set(sample.__struct_encode_fields__)


def test_no_sample_belongs_to_a_removed_topic() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(TOPICS)


class Paid(Struct, frozen=True):
    amount_minor: int


def test_an_old_topic_is_read_through_its_upcasters() -> None:
    codec = Codec(
        {"paid.v3": Paid},
        {
            "paid.v1": ("paid.v2", lambda old: {"amount": int(old["pesos"]) * 100}),
            "paid.v2": ("paid.v3", lambda old: {"amount_minor": old["amount"]}),
        },
    )
    assert codec.decode("paid.v1", b'{"pesos": "12"}') == Paid(1200)
    assert codec.decode("paid.v2", b'{"amount": 7}') == Paid(7)


def test_reading_stops_at_an_unknown_topic() -> None:
    with pytest.raises(UnknownTopic):
        CODEC.decode("order-vanished.v1", b"{}")


def test_an_event_that_lacks_a_field_does_not_load() -> None:
    with pytest.raises(msgspec.ValidationError):
        CODEC.decode("payment-declined.v1", b'{"payment_id": "01890000-0000-7000-8000-000000000001"}')
