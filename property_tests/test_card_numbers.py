"""Card numbers are found in every common form, and other numbers are accepted."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
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
    16: ("4", "51", "2221", "6011", "353", "62", "8100", "9792", "2200", "5018", "5085", "606282", "636297", "65"),
    15: ("34", "37"),
    14: ("36",),
    19: ("62", "8100", "6759"),
}
"""The first digits of payers' cards, by their length."""
RARE_STEMS = {16: ("8250", "5612"), 15: ("1",), 14: ("300", "38"), 19: ("4",)}
"""Those of cards that are found only if they are written like a card's."""
GROUPS = {16: (4, 4, 4, 4), 15: (4, 6, 5), 14: (4, 6, 4), 19: (4, 4, 4, 4, 3)}
UNSEEN = ("", "\u200b", "\u2060", "\ufeff")
SIGNS = (
    *(" ", "-", ".", " . ", "/", "_", "\u00b7", "\u00a0", "\u2013"),
    *("\t", "\n", "\r\n", ",", ", ", "|", " | ", ":", "=", "   ", "      "),
)
BEFORE = st.sampled_from(["", "pago ", "n.º ", "tel. 55.1234.5678, ", "(", "x", "card", "abc", "+", "é"])
AFTER = st.sampled_from(["", ".", " gracias", ", 12/34", ")", "x", "exp", "abc", "é"])


@st.composite
def cards(draw: st.DrawFn, stems: Mapping[int, Sequence[str]] = STEMS) -> list[str]:
    """Draws a valid card number, in the groups that are printed on the card."""
    length = draw(st.sampled_from(sorted(stems)))
    stem = draw(st.sampled_from(stems[length]))
    digits = stem + "".join(draw(DIGIT) for _ in range(length - 1 - len(stem)))
    digits += luhn.calc_check_digit(digits)
    ends = [sum(GROUPS[length][:n]) for n in range(len(GROUPS[length]) + 1)]
    return [digits[begin:end] for begin, end in itertools.pairwise(ends)]


@given(groups=cards(), between=st.sampled_from(SIGNS + UNSEEN), before=BEFORE, after=AFTER)
def test_a_card_number_is_found_in_the_groups_that_are_printed_on_it(
    groups: list[str], between: str, before: str, after: str
) -> None:
    assert contains_pan(before + between.join(groups) + after)


@given(groups=cards(RARE_STEMS), between=st.sampled_from(SIGNS), before=BEFORE, after=AFTER)
def test_a_rare_card_number_is_found_in_the_groups_that_are_printed_on_it(
    groups: list[str], between: str, before: str, after: str
) -> None:
    assert contains_pan(before + between.join(groups) + after)


@given(groups=cards(RARE_STEMS))
def test_the_digits_of_a_rare_card_are_found_in_a_sentence_and_are_an_id_elsewhere(groups: list[str]) -> None:
    digits = "".join(groups)
    assert contains_pan(f"pago con {digits}, gracias")
    for text in (digits, f"x{digits}", f"ORD-{digits}", f'{{"id":"{digits}"}}', " ".join(digits)):
        assert not contains_pan(text)


@given(
    groups=cards(),
    between=st.sampled_from([" ", "-", ".", "  ", "\u00a0", "\u2013", ". "]),
    before=st.sampled_from(["", "pago ", "tel. 55.1234.5678, ", "(", "x", "card:", "abc", "é"]),
    after=st.sampled_from(["", ".", " gracias", ", 12/34", " 12/34", ")", "x", "abc", "é"]),
)
def test_a_card_number_is_found_digit_by_digit(groups: list[str], between: str, before: str, after: str) -> None:
    assert contains_pan(before + between.join("".join(groups)) + after)
    if len(groups) == 4 and len(groups[1]) == 4:
        assert contains_pan(before + " - ".join(between.join(group) for group in groups) + after)


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
