"""Numbers and ids that people see."""

from __future__ import annotations

import itertools
import re
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.ids import entry_id, parse_uuid
from ledger.domain.orders import order_number as form
from ledger.security.permutation import permute

PAYMENT = UUID("01890a5d-ac96-774b-bcce-b302099a8004")


KEY, ANOTHER_KEY = b"k" * 32, b"a" * 32
MULTIPLIER, MASK = 0x2B5_9D3C_6A7F1, (1 << 50) - 1
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def order_numbers(ordinals: range, key: bytes = KEY) -> list[str]:
    return [form.order_number(place) for place in permute(ordinals, key)]


def order_number(ordinal: int, key: bytes) -> str:
    [number] = order_numbers(range(ordinal, ordinal + 1), key)
    return number


def unkeyed(ordinal: int) -> str:
    """The number that releases before the key made of an ordinal."""
    scattered = (ordinal * MULTIPLIER) & MASK
    scattered ^= scattered >> 25
    scattered = (scattered * MULTIPLIER) & MASK
    return "PO" + "".join(CROCKFORD[scattered >> shift & 31] for shift in range(45, -1, -5))


def ordinal_without_key(number: str) -> int:
    """What everybody can compute from a number: the reverse of what earlier releases did."""
    scattered = 0
    for character in number[2:]:
        scattered = scattered << 5 | CROCKFORD.index(character)
    inverse = pow(MULTIPLIER, -1, 1 << 50)
    scattered = (scattered * inverse) & MASK
    scattered ^= scattered >> 25
    return (scattered * inverse) & MASK


@given(st.sets(st.integers(0, (1 << 48) - 1), min_size=2, max_size=200), st.binary(min_size=32, max_size=32))
def test_different_orders_have_different_numbers(ordinals, key):
    assert len({order_number(ordinal, key) for ordinal in ordinals}) == len(ordinals)


def test_ordinals_that_differ_in_one_bit_have_different_numbers():
    for bit in range(48):
        assert order_number(1, KEY) != order_number(1 ^ 1 << bit, KEY)


@given(st.integers(0, (1 << 49) - 1), st.integers(0, (1 << 48) - 1))
def test_a_number_never_equals_one_that_was_made_without_a_key(old, new):
    assert ordinal_without_key(unkeyed(old)) == old
    assert ordinal_without_key(order_number(new, KEY)) >= 1 << 49
    assert order_number(new, KEY) != unkeyed(old)


def test_a_number_shows_neither_its_ordinal_nor_the_order_in_which_it_was_made():
    """The reverse without the key gives values over the whole range, rising as often as falling."""
    seen = [ordinal_without_key(number) - (1 << 49) for number in order_numbers(range(4_000))]
    assert len({value >> 40 for value in seen}) == 256
    assert 1_800 < sum(after > before for before, after in itertools.pairwise(seen)) < 2_200
    assert 1_800 < sum(value % 2 for value in seen) < 2_200
    assert min(seen) > 4_000
    differences = [after - before for before, after in itertools.pairwise(seen)]
    assert len(set(differences)) == len(differences)


def test_another_key_gives_other_numbers_and_the_same_key_the_same():
    assert order_number(0, KEY) == "POH6H02G0XTT"
    pairs = zip(order_numbers(range(1_000)), order_numbers(range(1_000), ANOTHER_KEY), strict=True)
    assert all(one != other for one, other in pairs)


def test_a_number_is_the_same_alone_and_in_its_block():
    assert [order_number(ordinal, KEY) for ordinal in range(995, 1_005)] == order_numbers(range(995, 1_005))


def test_consecutive_orders_have_different_numbers():
    numbers = set(order_numbers(range(50_000)))
    assert len(numbers) == 50_000
    assert all(re.fullmatch(r"PO[0-9A-HJKMNP-TV-Z]{10}", number) for number in numbers)


def test_consecutive_orders_have_scattered_numbers():
    assert len({number[:6] for number in order_numbers(range(1000))}) > 900


def test_an_entry_has_the_same_id_in_every_replay():
    assert entry_id(PAYMENT, 1) == UUID("5e5871c2-9ec8-5941-86cd-6595f35f2ab8")
    assert len({entry_id(PAYMENT, n) for n in range(100)}) == 100


def test_a_uuid_is_parsed_in_its_36_character_form_only():
    assert parse_uuid(str(PAYMENT)) == PAYMENT
    assert parse_uuid(PAYMENT.hex) is None
    assert parse_uuid("{" + PAYMENT.hex + "}") is None
    assert parse_uuid("x" * 36) is None
