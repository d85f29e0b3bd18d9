"""Every kind of stream is whole: a part that was forgotten fails here by its name."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, get_args, get_type_hints

import pytest
from tests.journal.samples import SAMPLES

import ledger.domain
from ledger.domain.rejections import Rejected
from ledger.domain.streams import STREAM_OF, STREAMS, TOPICS, ClaimKind, Stream

EACH = pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
MODULES = [import_module(each.name) for each in walk_packages(ledger.domain.__path__, "ledger.domain.")]


def test_every_topic_of_the_domain_belongs_to_a_stream() -> None:
    defined = {topic: module.__name__ for module in MODULES for topic in getattr(module, "TOPICS", ())}
    assert {topic: module for topic, module in defined.items() if topic not in TOPICS} == {}


def test_every_list_of_personal_fields_belongs_to_a_stream() -> None:
    sealed = {kind for stream in STREAMS for kind in stream.personal}
    defined = {kind: module.__name__ for module in MODULES for kind in getattr(module, "PERSONAL", ())}
    assert {kind: module for kind, module in defined.items() if kind not in sealed} == {}


def test_no_two_streams_share_an_event_a_state_or_a_name() -> None:
    kinds = Counter(kind.__name__ for stream in STREAMS for kind in stream.topics.values())
    assert [name for name, times in kinds.items() if times > 1] == []
    assert len(STREAM_OF) == len({stream.name for stream in STREAMS}) == len(STREAMS)


def test_every_kind_of_claim_belongs_to_one_stream() -> None:
    own_ids = [stream.claim for stream in STREAMS if stream.claim is not None]
    numbers = [ClaimKind.WEBHOOK_ENDPOINT_NUMBER]  # by which no request names an endpoint
    assert sorted([*own_ids, *numbers]) == list(ClaimKind)


@EACH
def test_a_stream_begins_with_its_first_events_and_folds_them_to_its_state(stream: Stream[Any]) -> None:
    topics = {kind: topic for topic, kind in stream.topics.items()}
    for kind in stream.first:
        assert isinstance(stream.evolve(None, SAMPLES[topics[kind]]), stream.state), kind.__name__


@EACH
def test_the_fold_of_a_stream_takes_each_of_its_events(stream: Stream[Any]) -> None:
    """mypy reports a member of this union that has no case in a `match`; the table of orders is compared with it."""
    union = get_type_hints(stream.evolve)["event"]
    folded = set(get_args(union) or [union])
    assert {kind.__name__ for kind in folded ^ set(stream.topics.values())} == set()


@EACH
def test_personal_fields_are_sealed_for_a_customer(stream: Stream[Any]) -> None:
    assert {kind.__name__ for kind in stream.personal if kind not in stream.topics.values()} == set()
    assert (stream.customer_of is not None) == bool(stream.personal)


@EACH
def test_a_stream_that_requests_can_name_has_a_refusal(stream: Stream[Any]) -> None:
    if stream.claim is not None:
        refusal = stream.missing()
        assert isinstance(refusal, Rejected)
        assert refusal.message == stream.not_found_text != ""
