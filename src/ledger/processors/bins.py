"""What the first digits of a card number mean: its brand and, if the table has them, its type, country and bank.

Use this to describe a card to people and in reports, never to refuse one. Ranges are sold, split and re-assigned, and
only the processor has the present table. `is_issued` is wider: it decides which numbers a text may not hold.
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
