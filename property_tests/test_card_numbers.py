"""Card numbers are found in every common form, and other numbers are accepted."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from decimal import Decimal
from ipaddress import IPv4Address
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from stdnum import luhn

from ledger.processors.pan_detection import contains_pan

DIGIT = st.sampled_from("0123456789")
STEMS = {
    16: ("4", "51", "2221", "6011", "35", "62", "81", "9792", "2200", "5018", "508", "606282", "6362", "65"),
    15: ("34", "37", "1"),
    14: ("36", "300"),
    19: ("4", "62", "81", "6759"),
}
GROUPS = {16: (4, 4, 4, 4), 15: (4, 6, 5), 14: (4, 6, 4), 19: (4, 4, 4, 4, 3)}
SIGNS = (
    *("", " ", "-", ".", " . ", "/", "_", "\u00b7", "\u00a0", "\u2013"),
    *("\t", "\n", "\r\n", ",", ", ", "|", " | ", ":", "=", "   ", "      ", "\u200b", "\u2060", "\ufeff"),
)


@st.composite
def cards(draw: st.DrawFn) -> list[str]:
    """Draws a valid card number, in the groups that are printed on the card."""
    length = draw(st.sampled_from(sorted(STEMS)))
    stem = draw(st.sampled_from(STEMS[length]))
    digits = stem + "".join(draw(DIGIT) for _ in range(length - 1 - len(stem)))
    digits += luhn.calc_check_digit(digits)
    ends = [sum(GROUPS[length][:n]) for n in range(len(GROUPS[length]) + 1)]
    return [digits[begin:end] for begin, end in itertools.pairwise(ends)]


@given(
    groups=cards(),
    between=st.sampled_from(SIGNS),
    before=st.sampled_from(["", "pago ", "n.º ", "tel. 55.1234.5678, ", "(", "x", "card", "abc", "+", "é"]),
    after=st.sampled_from(["", ".", " gracias", ", 12/34", ")", "x", "exp", "abc", "é"]),
)
def test_a_card_number_is_found_in_the_groups_that_are_printed_on_it(
    groups: list[str], between: str, before: str, after: str
) -> None:
    assert contains_pan(before + between.join(groups) + after)


AMOUNTS = st.decimals(min_value=0, max_value=Decimal(999999999999), places=4).map(str)
PLAIN = st.builds("{}.{}".format, st.text(DIGIT, min_size=1, max_size=12), st.text(DIGIT, min_size=1, max_size=12))


@given(st.one_of(AMOUNTS, PLAIN))
def test_a_decimal_is_no_card_number(text: str) -> None:
    assert not contains_pan(text)
    assert not contains_pan(f'{{"total":{text},"rate":"{text}"}}')


@given(st.lists(PLAIN, min_size=2, max_size=5))
def test_decimals_in_a_row_are_no_card_number(texts: list[str]) -> None:
    assert not contains_pan(", ".join(texts))


@given(st.integers(min_value=10**12, max_value=10**19).map("{:,}".format), st.sampled_from(".,"))
def test_an_amount_with_a_sign_at_the_thousands_is_no_card_number(text: str, sign: str) -> None:
    assert not contains_pan(text.replace(",", sign))


@given(
    st.one_of(
        st.uuids().map(str),
        st.ip_addresses(v=4).map(str),
        st.lists(st.integers(0, 2**32 - 1).map(IPv4Address).map(str), min_size=2, max_size=4).map(" ".join),
        st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC)).map(datetime.isoformat),  # noqa: DTZ001 - bounds
        st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1)).map(lambda at: f"{at:%d.%m.%Y %H.%M.%S}"),  # noqa: DTZ001 - bounds
        st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1)).map(lambda at: f"{at:%Y/%m/%d}"),  # noqa: DTZ001 - bounds
        st.integers(1_000_000_000_000, 1_999_999_999_999).map(str),
    )
)
def test_ids_addresses_and_times_are_no_card_numbers(text: str) -> None:
    assert not contains_pan(text)


@given(st.floats(min_value=0, max_value=1e12).map(repr), st.sampled_from(["", "-", "lat ", "["]))
def test_a_long_decimal_is_no_card_number(text: str, before: str) -> None:
    whole, _, decimals = text.partition(".")
    if len(whole) < 13 and "e" not in decimals:
        assert not contains_pan(before + text)


def test_a_uuid_of_digits_alone_is_no_card_number() -> None:
    assert not contains_pan(str(UUID("42424242-4242-4242-4242-424242424242")))
