"""An event's personal fields are sealed for their place in the log: they open only there, and only with their key."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec.structs import replace
from tests.journal.samples import CUSTOMER, DATA_KEY, MERCHANT, NONCE, ORDER, SAMPLES, SEAL, SEALED, VERSION

from ledger.domain.customers import events as customer_events
from ledger.domain.orders import events as order_events
from ledger.domain.payment_methods import events as payment_method_events
from ledger.domain.subscriptions import events as subscription_events
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.codec import CODEC, Codec
from ledger.journal.encryption.sealing import Seal, customer_of
from ledger.journal.encryption.sealing_keys import SealingKeys, sealing_key_id
from ledger.personal_data import without

GOLDEN = Path(__file__).parents[1] / "golden" / "sealed"
PERSONAL = {
    **order_events.PERSONAL,
    **customer_events.PERSONAL,
    **payment_method_events.PERSONAL,
    **subscription_events.PERSONAL,
}
OTHER = UUID(int=99)


def opened(topic: str, data: bytes, seal: Seal = SEAL, version: int = VERSION) -> object:
    return CODEC.decode(topic, seal.opened(topic.encode(), version, data))


@pytest.mark.parametrize("topic", SEALED)
def test_a_stored_sealed_sample_still_opens(topic: str) -> None:
    stored = (GOLDEN / f"{topic}.json").read_bytes()
    assert customer_of(stored) == CUSTOMER.bytes
    assert opened(topic, stored) == SAMPLES[topic]


@pytest.mark.parametrize("topic", SEALED)
def test_with_one_key_and_nonce_an_event_is_sealed_as_it_was_the_first_time(topic: str) -> None:
    sealed = CODEC.encode_sealed(SAMPLES[topic], VERSION, SEAL)
    assert sealed.data == (GOLDEN / f"{topic}.json").read_bytes()


@pytest.mark.parametrize("topic", SEALED)
def test_without_the_key_the_event_lacks_its_personal_fields(topic: str) -> None:
    sample = SAMPLES[topic]
    stored = (GOLDEN / f"{topic}.json").read_bytes()
    forgotten = without(sample, PERSONAL[type(sample)])
    assert forgotten != sample
    assert CODEC.decode(topic, stored) == forgotten
    assert CODEC.encode_sealed(sample, VERSION, None).data == CODEC.encode(forgotten).data


@pytest.mark.parametrize("topic", SEALED)
def test_the_stored_bytes_contain_nothing_personal(topic: str) -> None:
    clear = json.loads(CODEC.encode(SAMPLES[topic]).data)
    stored = json.loads((GOLDEN / f"{topic}.json").read_bytes())
    box = stored.pop("sealed")
    for name, value in clear.items():
        assert name in {"method", "card"} or name not in stored or stored[name] == value
    for word in (
        "Ana",
        "López",
        "ANA",
        "Insurgentes",
        "203.0.113.7",
        "Mozilla",
        "EKU9003173C9",
        "+5255",
        "gold",
        "tienda",
    ):
        assert word not in json.dumps(stored, ensure_ascii=False)
        assert word.encode() not in base64.b64decode(box)


def test_two_seals_of_one_event_share_no_nonce() -> None:
    seal = Seal(AESGCM(DATA_KEY), MERCHANT.bytes + CUSTOMER.bytes, ORDER.bytes)
    one, two = (CODEC.encode_sealed(SAMPLES["order-created.v1"], VERSION, seal).data for _ in range(2))
    assert one != two
    assert opened("order-created.v1", one) == opened("order-created.v1", two)


def sealed(topic: str = "customer-details-changed.v1") -> bytes:
    return CODEC.encode_sealed(SAMPLES[topic], VERSION, SEAL).data


@pytest.mark.parametrize(
    "elsewhere",
    [
        Seal(AESGCM(DATA_KEY), OTHER.bytes + CUSTOMER.bytes, ORDER.bytes),
        Seal(AESGCM(DATA_KEY), MERCHANT.bytes + OTHER.bytes, ORDER.bytes),
        Seal(AESGCM(DATA_KEY), MERCHANT.bytes + CUSTOMER.bytes, OTHER.bytes),
        Seal(AESGCM(bytes(32)), MERCHANT.bytes + CUSTOMER.bytes, ORDER.bytes),
    ],
    ids=["merchant", "customer", "stream", "key"],
)
def test_a_box_does_not_open_in_another_place(elsewhere: Seal) -> None:
    with pytest.raises(SealBroken):
        opened("customer-details-changed.v1", sealed(), elsewhere)


def test_a_box_does_not_open_at_another_version_or_under_another_topic() -> None:
    with pytest.raises(SealBroken):
        opened("customer-details-changed.v1", sealed(), version=VERSION + 1)
    with pytest.raises(SealBroken):
        opened("customer-created.v1", sealed())


def test_a_box_that_was_changed_anywhere_does_not_open() -> None:
    data = sealed()
    end = data.index(b'",')
    for place in (12, 40, 60, end - 5):
        other = b"A" if data[place : place + 1] != b"A" else b"B"
        with pytest.raises(SealBroken):
            opened("customer-details-changed.v1", data[:place] + other + data[place + 1 :])
    with pytest.raises(SealBroken):
        opened("customer-details-changed.v1", data[:20] + data[end:])
    with pytest.raises(SealBroken):
        customer_of(b'{"sealed":"' + base64.b64encode(b"\x02" + bytes(60)) + b'","a":1}')


def test_an_event_without_personal_values_is_stored_unsealed() -> None:
    bare = replace(SAMPLES["customer-created.v1"], first_name=None, last_name=None, email=None, phone_number=None)
    bare = without(bare, ("metadata",))
    data = CODEC.encode_sealed(bare, VERSION, SEAL).data
    assert customer_of(data) is None
    assert data == CODEC.encode(bare).data


def test_a_sealed_event_of_an_old_topic_is_opened_before_it_is_upcast() -> None:
    old = {
        "customer-details-changed.v0": (
            "customer-details-changed.v1",
            lambda fields: {**fields, "firstName": fields["name"]},
        )
    }
    codec = Codec(customer_events.TOPICS, old)
    clear = b'{"customerId":"%s","at":"2026-01-31T18:30:15Z"}' % str(CUSTOMER).encode()
    stored = SEAL.sealed(b"customer-details-changed.v0", VERSION, clear, b'{"name":"Ana"}')
    event = codec.decode("customer-details-changed.v0", SEAL.opened(b"customer-details-changed.v0", VERSION, stored))
    assert event.first_name == "Ana"


OLD, NEW = b"o" * 32, b"n" * 32


def test_a_data_key_is_wrapped_by_the_newest_key_and_opened_by_any_known_one() -> None:
    before = SealingKeys([OLD], draw=lambda length: NONCE[:length])
    wrapped = before.wrap(MERCHANT, CUSTOMER, DATA_KEY)
    after = SealingKeys([NEW, OLD])
    assert after.newest == sealing_key_id(NEW) != before.newest
    assert after.unwrap(before.newest, MERCHANT, CUSTOMER, wrapped) == DATA_KEY
    again = after.wrap(MERCHANT, CUSTOMER, DATA_KEY)
    assert SealingKeys([NEW]).unwrap(after.newest, MERCHANT, CUSTOMER, again) == DATA_KEY


def test_a_stored_wrapped_key_still_opens() -> None:
    wrapped = bytes.fromhex(
        "000102030405060708090a0b1884043bda7e9f972d2fb4475a71739afc58"
        "dd3171a63a97d80e10469ef6ac4c9064490f8f2e969f9566d484fc2dd906"
    )
    assert SealingKeys([OLD]).unwrap("878e97855928ce7f", MERCHANT, CUSTOMER, wrapped) == DATA_KEY


def test_the_error_names_the_missing_sealing_key() -> None:
    wrapped = SealingKeys([OLD]).wrap(MERCHANT, CUSTOMER, DATA_KEY)
    with pytest.raises(KeyUnavailable, match=f"{sealing_key_id(OLD)}, which LEDGER_SEALING_KEYS lacks"):
        SealingKeys([NEW]).unwrap(sealing_key_id(OLD), MERCHANT, CUSTOMER, wrapped)


def test_a_wrapped_key_opens_for_its_customer_and_under_its_own_key_id_only() -> None:
    keys = SealingKeys([NEW, OLD])
    wrapped = keys.wrap(MERCHANT, CUSTOMER, DATA_KEY)
    for key_id, merchant, customer in (
        (sealing_key_id(OLD), MERCHANT, CUSTOMER),
        (keys.newest, OTHER, CUSTOMER),
        (keys.newest, MERCHANT, OTHER),
    ):
        with pytest.raises(SealBroken):
            keys.unwrap(key_id, merchant, customer, wrapped)
    assert "n" * 32 not in repr(keys)
