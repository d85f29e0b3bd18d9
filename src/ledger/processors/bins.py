"""What the first digits of a card number mean: its brand and, if the table has them, its type, country and bank.

Use this to describe a card to people and in reports, never to refuse one. Ranges are sold, split and re-assigned, and
only the processor has the present table. `is_issued` and `is_in_issued_range` decide which numbers a text may not hold:
the first one is wide, for numbers that are written like a card's, the second one narrow, for digits that may be an id.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, NamedTuple

from ledger.processors.mexican_issuers import mexican_issuers

UNKNOWN_BRAND: Final = "UNKNOWN"


class Issuer(NamedTuple):
    """The issuer of a card number. `type` is CREDIT or DEBIT, `country` two letters; None if the table lacks it."""

    brand: str
    type: str | None = None
    country: str | None = None
    issuer_bank: str | None = None


# First and last six digits of each range, as the schemes publish them (ISO/IEC 7812). Carnet is Mexico's own scheme.
_RANGES: Final = sorted(
    [
        (222100, 272099, Issuer("MASTERCARD")),
        (286900, 286900, Issuer("CARNET", country="MX")),
        (300000, 305999, Issuer("DINERS")),
        (309500, 309599, Issuer("DINERS")),
        (340000, 349999, Issuer("AMEX")),
        (352800, 358999, Issuer("JCB")),
        (360000, 369999, Issuer("DINERS")),
        (370000, 379999, Issuer("AMEX")),
        (380000, 399999, Issuer("DINERS")),
        (400000, 499999, Issuer("VISA")),
        (501800, 501899, Issuer("MAESTRO", type="DEBIT")),
        (502000, 502099, Issuer("MAESTRO", type="DEBIT")),
        (502275, 502275, Issuer("CARNET", country="MX")),
        (503800, 503899, Issuer("MAESTRO", type="DEBIT")),
        (506199, 506499, Issuer("CARNET", country="MX")),
        (510000, 559999, Issuer("MASTERCARD")),
        (588772, 588772, Issuer("CARNET", country="MX")),
        (589300, 589399, Issuer("MAESTRO", type="DEBIT")),
        (601100, 601199, Issuer("DISCOVER")),
        (604622, 604622, Issuer("CARNET", country="MX")),
        (606333, 606333, Issuer("CARNET", country="MX")),
        (620000, 627534, Issuer("UNIONPAY")),
        (627535, 627535, Issuer("CARNET", country="MX")),
        (627536, 629999, Issuer("UNIONPAY")),
        (630400, 630499, Issuer("MAESTRO", type="DEBIT")),
        (636318, 636318, Issuer("CARNET", country="MX")),
        (636379, 636379, Issuer("CARNET", country="MX")),
        (639388, 639388, Issuer("CARNET", country="MX")),
        (639484, 639484, Issuer("CARNET", country="MX")),
        (639559, 639559, Issuer("CARNET", country="MX")),
        (644000, 659999, Issuer("DISCOVER")),
        (675900, 675999, Issuer("MAESTRO", type="DEBIT")),
        (676100, 676399, Issuer("MAESTRO", type="DEBIT")),
    ],
    key=lambda row: row[0],
)
_ISSUED: Final = re.compile(
    # Visa; 13 and 19 digits are rare, and still accepted.
    r"4[0-9]{12}(?:[0-9]{3}|[0-9]{6})?"
    # American Express, UATP (the airlines' card) and the oldest JCB cards: 15 digits.
    r"|(?:3[47]|1[0-9]|21(?=31))[0-9]{13}"
    # Diners: 14 digits, 16 if Discover issues it.
    r"|3(?:0[0-5]|09(?=5)|[689][0-9])[0-9]{11}(?:[0-9]{2})?"
    # 16 digits: Mastercard, Mir and BORICA (2200 to 2205), Carnet 2869.
    r"|(?:5[1-5][0-9]{2}|2(?:22[1-9]|2[3-9][0-9]|[3-6][0-9]{2}|7[01][0-9]|720)|220[0-5]|2869)[0-9]{12}"
    # JCB, RuPay 353 and 356, LankaPay 357.
    r"|35[0-9]{14}"
    # Maestro, Elo, Verve, RuPay 508, Meeza, Cabal, Naranja, Carnet, Dankort, Uzcard 5614.
    r"|5[0678][0-9]{14}"
    # Discover, RuPay 60, 65, 81 and 82, Hipercard, UnionPay 62 and 81, Maestro, Elo, Carnet, Verve 650.
    r"|(?:6[023457]|8[12])[0-9]{14}"
    # Troy, Napas, Humo, Uzcard.
    r"|(?:9792|9704|9860|8600)[0-9]{12}"
    # 17 to 19 digits: UnionPay and Maestro, by Maestro's narrower ranges; Discover, Napas and Hipercard: 19.
    r"|(?:62|81|67|50(?=18|20|38)|58(?=93)|63(?=04))[0-9]{15,17}"
    r"|(?:6011|64[4-9][0-9]|65[0-9]{2}|9704|3841)[0-9]{15}"
)
"""First digits and lengths in which cards are issued (ISO/IEC 7812), over all schemes in use.

They cover a third of the numbers of 16 digits, and 2 to 14 % of those of 17 to 19; one in ten of them passes Luhn.
"""

_SIXTEEN: Final = frozenset({16})
_UP_TO_NINETEEN: Final = frozenset(range(16, 20))

# First and last eight digits of each range in which cards are issued today (ISO/IEC 7812-1:2017), with their lengths.
# Only what payers of a shop have: no Visa cards of 13 and 19 digits, no airlines' cards (UATP), no Diners of 14 digits
# outside 36. Shops' own ids have just these lengths: epoch milliseconds 13, with a counter 15.
_ISSUED_RANGES: Final = sorted(
    [
        (22000000, 22059999, _SIXTEEN),  # Mir, BORICA
        (22210000, 27209999, _SIXTEEN),  # Mastercard
        (28690000, 28690099, _SIXTEEN),  # Carnet
        (30000000, 30599999, _SIXTEEN),  # Diners
        (30950000, 30959999, _SIXTEEN),
        (34000000, 34999999, frozenset({15})),  # American Express
        (35280000, 35899999, _SIXTEEN),  # JCB
        (36000000, 36999999, frozenset({14})),  # Diners
        (37000000, 37999999, frozenset({15})),  # American Express
        (38000000, 39999999, _SIXTEEN),  # Diners, Hipercard
        (40000000, 49999999, _SIXTEEN),  # Visa
        (50180000, 50189999, _UP_TO_NINETEEN),  # Maestro
        (50190000, 50199999, _SIXTEEN),  # Dankort
        (50200000, 50209999, _UP_TO_NINETEEN),  # Maestro
        (50227500, 50227599, _SIXTEEN),  # Carnet
        (50380000, 50389999, _UP_TO_NINETEEN),  # Maestro
        (50417500, 50417599, _SIXTEEN),  # Elo
        (50609900, 50677899, _SIXTEEN),  # Verve, Carnet, Elo
        (50780000, 50789999, _SIXTEEN),  # Meeza, Verve
        (50850000, 50899999, _SIXTEEN),  # RuPay
        (50900000, 50999999, _SIXTEEN),  # Elo
        (51000000, 55999999, _SIXTEEN),  # Mastercard
        (56140000, 56149999, _SIXTEEN),  # Uzcard
        (58877200, 58877299, _SIXTEEN),  # Carnet
        (58930000, 58939999, _UP_TO_NINETEEN),  # Maestro
        (58956200, 58956299, _SIXTEEN),  # Naranja
        (58965700, 58965799, _SIXTEEN),  # Cabal
        (60110000, 60119999, _SIXTEEN),  # Discover
        (60420100, 60421999, _SIXTEEN),  # Cabal
        (60462200, 60462299, _SIXTEEN),  # Carnet
        (60628200, 60628299, _SIXTEEN),  # Hipercard
        (60633300, 60633399, _SIXTEEN),  # Carnet
        (60698500, 60850099, _SIXTEEN),  # RuPay
        (62000000, 62999999, _UP_TO_NINETEEN),  # UnionPay
        (63040000, 63049999, _UP_TO_NINETEEN),  # Maestro
        (63629700, 63629799, _SIXTEEN),  # Elo
        (63631800, 63631899, _SIXTEEN),  # Carnet
        (63636800, 63636899, _SIXTEEN),  # Elo
        (63637900, 63637999, _SIXTEEN),  # Carnet
        (63709500, 63709599, _SIXTEEN),  # Hipercard
        (63756800, 63756899, _SIXTEEN),
        (63759900, 63759999, _SIXTEEN),
        (63760900, 63760999, _SIXTEEN),
        (63761200, 63761299, _SIXTEEN),
        (63938800, 63938899, _SIXTEEN),  # Carnet
        (63948400, 63948499, _SIXTEEN),
        (63955900, 63955999, _SIXTEEN),
        (64400000, 65999999, _SIXTEEN),  # Discover, RuPay, Elo, Verve, Troy
        (67590000, 67599999, _UP_TO_NINETEEN),  # Maestro
        (67610000, 67639999, _UP_TO_NINETEEN),
        (81000000, 81719999, _UP_TO_NINETEEN),  # UnionPay
        (81720000, 82019999, _SIXTEEN),  # RuPay
        (86000000, 86009999, _SIXTEEN),  # Uzcard
        (97040000, 97049999, frozenset({16, 19})),  # Napas
        (97920000, 97929999, _SIXTEEN),  # Troy
        (98600000, 98609999, _SIXTEEN),  # Humo
    ],
    key=lambda row: row[0],
)
_FIRST_EIGHT: Final = [first for first, _, _ in _ISSUED_RANGES]

# Sixteen digits of these ranges that are a time before a counter: the last two digits of the year first, or the day.
_TIME_AND_COUNTER: Final = re.compile(
    r"2[2-7](?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:(?:[01][0-9]|2[0-3])[0-5][0-9][0-5][0-9][0-9]{4}|0000[0-9]{6})"
    r"|(?:2[2-7]|30)(?:0[1-9]|1[0-2])20[0-9]{2}(?:[01][0-9]|2[0-3])[0-5][0-9][0-5][0-9][0-9]{2}"
)

_FIRST: Final = [first for first, _, _ in _RANGES]

# The ranges that the sandbox's test cards come from, with the banks that a Mexican merchant's payers would have.
_TEST_RANGES: Final = {
    "400000": Issuer("VISA", "CREDIT", "MX", "BANORTE"),
    "410000": Issuer("VISA", "CREDIT", "MX", "HSBC"),
    "411111": Issuer("VISA", "DEBIT", "MX", "SANTANDER"),
    "424242": Issuer("VISA", "CREDIT", "MX", "BBVA MEXICO"),
    "555555": Issuer("MASTERCARD", "CREDIT", "MX", "BANAMEX"),
}
_MEXICAN: Final = {bin_: (kind, bank) for bin_, kind, bank in mexican_issuers()}


# The electronic commerce indicator (EMV 3-D Secure) by which a network marks an authentication that succeeded, and one
# that failed. Networks that are missing here have none, or an unknown one.
_ECI: Final = {
    **dict.fromkeys(("VISA", "AMEX", "DINERS", "DISCOVER", "JCB", "UNIONPAY"), ("05", "07")),
    **dict.fromkeys(("MASTERCARD", "MAESTRO"), ("02", "00")),
}


def eci_of(brand: str, *, authenticated: bool) -> str | None:
    """Returns the network's electronic commerce indicator of a payer's authentication, None if the table has none.

    >>> eci_of("VISA", authenticated=True), eci_of("MASTERCARD", authenticated=False)
    ('05', '00')
    >>> eci_of("CARNET", authenticated=True)
    """
    succeeded, failed = _ECI.get(brand, (None, None))
    return succeeded if authenticated else failed


def bin_info(number: str) -> Issuer:
    """Returns brand, type, country and issuing bank of a card number, which consists of digits only.

    >>> bin_info("2221000000000009").brand
    'MASTERCARD'
    >>> bin_info("4242424242424242")
    Issuer(brand='VISA', type='CREDIT', country='MX', issuer_bank='BBVA MEXICO')
    >>> bin_info("4098510000000009")
    Issuer(brand='VISA', type='DEBIT', country='MX', issuer_bank='BBVA MEXICO')
    """
    bin_ = number[:6]
    if bin_ in _TEST_RANGES:
        return _TEST_RANGES[bin_]
    if len(bin_) < 6 or not (bin_.isascii() and bin_.isdecimal()):
        return Issuer(UNKNOWN_BRAND)
    at = bisect_right(_FIRST, int(bin_)) - 1
    if at < 0 or int(bin_) > _RANGES[at][1]:
        return Issuer(UNKNOWN_BRAND)
    issuer = _RANGES[at][2]
    if bin_ in _MEXICAN:
        kind, bank = _MEXICAN[bin_]
        return Issuer(issuer.brand, kind or issuer.type, "MX", bank)
    return issuer


def is_issued(number: str) -> bool:
    """Returns whether cards with these first digits and this length are issued. The number consists of digits only.

    >>> is_issued("9792030000000000"), is_issued("9892030000000000"), is_issued("979203000000000")
    (True, False, False)
    """
    return _ISSUED.fullmatch(number) is not None


def is_in_issued_range(number: str) -> bool:
    """Returns whether the first eight digits lie in a range in which payers' cards are issued, with this length.

    The number consists of digits only. It is narrower than `is_issued`, for digits that may as well be an id. A time
    with a counter behind it, such as 2611251843140042 (25 November 2026), is none.

    >>> is_in_issued_range("4242424242424242"), is_in_issued_range("4222222222222")
    (True, False)
    >>> is_in_issued_range("2611251843140042"), is_in_issued_range("2611998877665544")
    (False, True)
    """
    at = bisect_right(_FIRST_EIGHT, int(number[:8])) - 1
    if at < 0:
        return False
    _, last, lengths = _ISSUED_RANGES[at]
    return int(number[:8]) <= last and len(number) in lengths and _TIME_AND_COUNTER.fullmatch(number) is None
