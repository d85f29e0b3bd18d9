"""`python -m campaigns card-numbers`: how often ids are taken for card numbers, and how many of those are missed.

A million ids of six usual kinds, which must all be accepted, and a million valid card numbers in the ways in which
people write them. The command prints the errors of both by kind, the same ones for the same seed. It exits 1 if more
ids than one in 100,000, or more card numbers than one in 500, are judged wrongly: an id may be a card number by chance,
and digits alone are searched only in the ranges of payers' cards.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from random import Random
from string import ascii_letters, digits
from typing import Final
from uuid import UUID

from stdnum import luhn

from ledger.processors.pan_detection import contains_pan

_TAKEN_MAX: Final = 1e-5
_MISSED_MAX: Final = 2e-3

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_NANOID: Final = f"{digits}{ascii_letters}_-"
_FROM, _UNTIL = datetime(2023, 1, 1, tzinfo=UTC).timestamp(), datetime(2028, 1, 1, tzinfo=UTC).timestamp()

Maker = Callable[[Random], str]


def uuid(random: Random) -> str:
    """Returns a UUID of version 4 or 7, with dashes or without, some with a prefix."""
    version = random.choice((4, 7))
    number = random.getrandbits(128)
    if version == 7:
        number = int(_moment(random) * 1000) << 80 | number & ((1 << 80) - 1)
    id_ = UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | version << 76 | 0x2 << 62)
    return random.choice((str(id_), id_.hex, str(id_).upper(), f"order-{id_}", f"ord_{id_.hex}"))


def hexadecimal(random: Random) -> str:
    """Returns 12 to 64 hexadecimal digits, some with a prefix."""
    length = random.choice((12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 64))
    return random.choice(("", "", "", "ord_")) + f"{random.getrandbits(4 * length):0{length}x}"


def ulid(random: Random) -> str:
    """Returns a ULID: 48 bits of the time and 80 random ones in base 32."""
    number = int(_moment(random) * 1000) << 80 | random.getrandbits(80)
    text = "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
    return random.choice((text, text.lower(), f"order_{text}"))


def nanoid(random: Random) -> str:
    """Returns 10, 16 or 21 letters, digits, dashes and underscores."""
    return "".join(random.choices(_NANOID, k=random.choice((10, 16, 21, 21))))


def time_and_counter(random: Random) -> str:
    """Returns a time, as a number since 1970 or by the calendar, and a counter behind it."""
    moment = _moment(random)
    at = datetime.fromtimestamp(moment, UTC)
    time = random.choice(
        (
            f"{moment:.0f}",
            f"{moment * 1e3:.0f}",
            f"{moment * 1e6:.0f}",
            f"{moment * 1e9:.0f}",
            f"{at:%Y%m%d}",
            f"{at:%Y%m%d%H%M%S}",
            f"{at:%y%m%d%H%M%S}",
            f"{at:%d%m%Y%H%M%S}",
            f"{at:%Y%m%d-%H%M%S}",
            f"{at:%Y-%m-%d}",
        )
    )
    counter = f"{random.randrange(10 ** random.choice((1, 2, 3, 4, 6))):0{random.choice((1, 2, 3, 4, 6))}}"
    return random.choice(("", "", "ORD", "PED-", "order_")) + time + random.choice(("", "", "-", "_")) + counter


def shop_order(random: Random) -> str:
    """Returns an order number of Shopify, WooCommerce, VTEX or Adobe Commerce, in one of the forms that each has."""
    shopify = str(random.randrange(4_000_000_000_000, 7_500_000_000_000))
    vtex = str(random.randrange(1_000_000_000_000, 1_600_000_000_000))
    adobe = str(random.randrange(1, 5) * 10**8 + random.randrange(10**6))
    key = "".join(random.choices(digits + ascii_letters, k=13))
    return random.choice(
        (
            random.choice((shopify, shopify, f"gid://shopify/Order/{shopify}", f"#{random.randrange(1001, 99999)}")),
            random.choice((f"wc_order_{key}", str(random.randrange(10, 10**7)), f"WC-{random.randrange(10**6)}")),
            random.choice((f"{vtex}-01", f"{vtex}-02", f"v{random.randrange(10**7, 10**8)}{key[:4].lower()}-01")),
            random.choice((f"{adobe:0>9}", f"0{adobe}", f"{adobe}-{random.randrange(1, 9)}")),
        )
    )


IDS: Final[Mapping[str, Maker]] = {
    "UUID": uuid,
    "hexadecimal": hexadecimal,
    "ULID": ulid,
    "nanoid": nanoid,
    "time and counter": time_and_counter,
    "shops' order numbers": shop_order,
}

# Brands by their share in ten thousand cards: first digits from and to, length of the number.
_BRANDS: Final = (
    (4500, "4", "4", 16),  # Visa
    (4, "4", "4", 13),
    (4, "4", "4", 19),
    (2400, "51", "55", 16),  # Mastercard
    (800, "2221", "2720", 16),
    (900, "37", "37", 15),  # American Express
    (100, "34", "34", 15),
    (300, "506199", "506499", 16),  # Carnet
    (50, "286900", "286900", 16),
    (200, "6011", "6011", 16),  # Discover
    (100, "644", "659", 16),
    (80, "36", "36", 14),  # Diners
    (40, "38", "39", 16),
    (100, "3528", "3589", 16),  # JCB
    (150, "62", "62", 16),  # UnionPay
    (100, "62", "62", 19),
    (40, "6759", "6759", 16),  # Maestro
    (40, "6761", "6763", 18),
    (30, "509000", "509999", 16),  # Elo
    (20, "606282", "606282", 16),  # Hipercard
    (17, "2200", "2204", 16),  # Mir
    (10, "9792", "9792", 16),  # Troy
    (10, "6070", "6079", 16),  # RuPay
    (5, "1001", "1999", 15),  # UATP, the airlines' cards
)
_SHARES: Final = [share for share, *_ in _BRANDS]


def card_number(random: Random) -> str:
    """Returns a valid card number of a brand that is drawn by its share."""
    _, first, last, length = random.choices(_BRANDS, _SHARES)[0]
    stem = str(random.randint(int(first), int(last)))
    stem += f"{random.randrange(10 ** (length - 1 - len(stem))):0{length - 1 - len(stem)}}"
    return stem + luhn.calc_check_digit(stem)


def in_groups(number: str, sign: str) -> str:
    """Returns a number in the groups that are printed on its card, with a sign between them."""
    sizes = (4, 6, 5) if len(number) in {14, 15} else (4,) * 5
    ends = [min(sum(sizes[:n]), len(number)) for n in range(len(sizes) + 1)]
    return sign.join(filter(None, (number[a:b] for a, b in pairwise(ends))))


def _grouped(*signs: str) -> tuple[Callable[[str], str], ...]:
    """Returns for each sign how a number is written in groups with that sign between them."""
    return tuple(partial(in_groups, sign=sign) for sign in signs)


WAYS: Final[Mapping[str, tuple[Callable[[str], str], ...]]] = {
    "digits alone": (str,),
    "in a sentence": ("pago con {} 12/27, gracias".format, "{} vence 12/27".format, "mi tarjeta es {}".format),
    "behind a label": ("tarjeta:{}".format, "card={}".format, "#{}".format, "({})".format, '{{"pan":"{}"}}'.format),
    "touching letters": ("card{}exp1227".format, "TDC{}".format, "x{}y".format, "{}visa".format),
    "groups, spaces": _grouped(" ", "  ", "\u00a0", "\t", "\n"),
    "groups, dashes": _grouped("-", " - ", "\u2013"),
    "groups, other signs": _grouped(".", "/", "_", ", ", "|", "\u200b"),
    "digit by digit": (
        " ".join,
        "-".join,
        ".".join,
        "  ".join,
        lambda number: f"tarjeta {' '.join(number)} 12/27",
        lambda number: f"TDC {'-'.join(number)}, CVV aparte",
    ),
    "two by two": (lambda number: " ".join(number[n : n + 2] for n in range(0, len(number), 2)),),
    "other scripts' digits": (
        lambda number: number.translate(dict(zip(range(48, 58), range(0xFF10, 0xFF1A), strict=True))),
    ),
}


def count_taken(number: int, random: Random) -> Iterator[tuple[str, int, int]]:
    """Yields each kind of id, how many were made, and how many of them are taken for card numbers."""
    for kind, make in IDS.items():
        made = -(-number // len(IDS))
        yield kind, made, sum(contains_pan(make(random)) for _ in range(made))


def count_missed(number: int, random: Random) -> Iterator[tuple[str, int, int]]:
    """Yields each way of writing card numbers, how many were written, and how many of them are not found."""
    written: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    ways = list(WAYS)
    for n in range(number):
        way = ways[n % len(ways)]
        written[way] += 1
        missed[way] += not contains_pan(random.choice(WAYS[way])(card_number(random)))
    yield from ((way, written[way], missed[way]) for way in ways)


def main(arguments: Sequence[str]) -> int:
    """Prints both kinds of errors and returns whether there are too many."""
    parser = argparse.ArgumentParser(prog="python -m campaigns card-numbers", description=__doc__)
    parser.add_argument("--number", type=int, default=1_000_000, help="how many ids, and how many card numbers")
    parser.add_argument("--seed", type=int, default=26, help="the same seed makes the same ids and card numbers")
    options = parser.parse_args(arguments)
    taken = _print("ids taken for card numbers", count_taken(options.number, Random(options.seed)))
    missed = _print("card numbers not found", count_missed(options.number, Random(options.seed)))
    return int(taken > _TAKEN_MAX or missed > _MISSED_MAX)


def _print(title: str, counts: Iterator[tuple[str, int, int]]) -> float:
    """Prints the errors of each kind and of all, and returns the share of errors."""
    sys.stdout.write(f"{title}\n")
    total = wrong = 0
    for kind, number, errors in counts:
        total, wrong = total + number, wrong + errors
        sys.stdout.write(f"  {kind:<24}{number:>10,}{errors:>10,}\n")
    sys.stdout.write(f"  {'all':<24}{total:>10,}{wrong:>10,}\n")
    return wrong / total


def _moment(random: Random) -> float:
    return random.uniform(_FROM, _UNTIL)
