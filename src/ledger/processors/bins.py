"""What the first digits of a card number mean: its brand and, where the table has them, its type, country and bank.

Use this to describe a card to people and in reports, never to refuse one. Ranges are sold, split and re-assigned, and
only the processor has the present table.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

UNKNOWN_BRAND: Final = "UNKNOWN"


class Issuer(NamedTuple):
    """The issuer of a card number. `type` is CREDIT or DEBIT, `country` two letters; None where the table lacks it."""

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
_FIRST: Final = [first for first, _, _ in _RANGES]

# The ranges that the sandbox's test cards come from, with the banks that a Mexican merchant's payers would have.
_TEST_RANGES: Final = {
    "400000": Issuer("VISA", "CREDIT", "MX", "BANORTE"),
    "410000": Issuer("VISA", "CREDIT", "MX", "HSBC"),
    "411111": Issuer("VISA", "DEBIT", "MX", "SANTANDER"),
    "424242": Issuer("VISA", "CREDIT", "MX", "BBVA MEXICO"),
    "555555": Issuer("MASTERCARD", "CREDIT", "MX", "BANAMEX"),
}


# The electronic commerce indicator (EMV 3-D Secure) by which a network marks an authentication that succeeded, and one
# that failed. Networks that are missing here have none, or an unknown one.
_ECI: Final = {
    **dict.fromkeys(("VISA", "AMEX", "DINERS", "DISCOVER", "JCB", "UNIONPAY"), ("05", "07")),
    **dict.fromkeys(("MASTERCARD", "MAESTRO"), ("02", "00")),
}


def eci_of(brand: str, *, authenticated: bool) -> str | None:
    """Returns the network's electronic commerce indicator of a payer's authentication, None where the table has none.

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
    """
    bin_ = number[:6]
    if bin_ in _TEST_RANGES:
        return _TEST_RANGES[bin_]
    if len(bin_) < 6 or not (bin_.isascii() and bin_.isdecimal()):
        return Issuer(UNKNOWN_BRAND)
    at = bisect_right(_FIRST, int(bin_)) - 1
    if at < 0 or int(bin_) > _RANGES[at][1]:
        return Issuer(UNKNOWN_BRAND)
    return _RANGES[at][2]
