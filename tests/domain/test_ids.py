"""Numbers and ids that people see."""

from __future__ import annotations

import re
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.ids import entry_id, order_number, parse_uuid

PAYMENT = UUID("01890a5d-ac96-774b-bcce-b302099a8004")


@given(st.sets(st.integers(0, (1 << 50) - 1), min_size=2, max_size=200))
def test_different_orders_have_different_numbers(ordinals):
    assert len({order_number(ordinal) for ordinal in ordinals}) == len(ordinals)


def test_ordinals_that_differ_in_one_bit_have_different_numbers():
    for bit in range(50):
        assert order_number(1) != order_number(1 ^ 1 << bit)


def test_consecutive_orders_have_different_numbers():
    numbers = {order_number(ordinal) for ordinal in range(50_000)}
    assert len(numbers) == 50_000
    assert all(re.fullmatch(r"PO[0-9A-HJKMNP-TV-Z]{10}", number) for number in numbers)


def test_consecutive_orders_have_scattered_numbers():
    assert len({order_number(ordinal)[:6] for ordinal in range(1000)}) > 900


def test_an_entry_has_the_same_id_in_every_replay():
    assert entry_id(PAYMENT, 1) == UUID("5e5871c2-9ec8-5941-86cd-6595f35f2ab8")
    assert len({entry_id(PAYMENT, n) for n in range(100)}) == 100


def test_a_uuid_is_parsed_in_its_36_character_form_only():
    assert parse_uuid(str(PAYMENT)) == PAYMENT
    assert parse_uuid(PAYMENT.hex) is None
    assert parse_uuid("{" + PAYMENT.hex + "}") is None
    assert parse_uuid("x" * 36) is None
