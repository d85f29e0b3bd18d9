"""Certificates of digital seal (CSD): the checks of one, and generated ones for the sandbox.

SAT's certificates are X.509 with the RFC in the subject's `x500UniqueIdentifier`, and with a serial number whose bytes
are the twenty ASCII digits of the certificate's number. A CSD has two extensions; the taxpayer's own certificate (FIEL,
e.firma) has four, and must not seal invoices.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier
from msgspec import Struct

from ledger.invoicing import locked_keys

if TYPE_CHECKING:
    from satcfdi.models import Signer

_RFC: Final = re.compile(r"[A-ZÑ&]{3,4}[0-9]{6}[A-Z0-9]{3}")
_NUMBER: Final = re.compile(r"[0-9]{20}")
_VALIDITY: Final = timedelta(days=4 * 365)  # SAT's certificates are valid for four years
_NAME: Final = ObjectIdentifier("2.5.4.41")
_BITS_MAX: Final = 4096
_PROBE: Final = b"what a document is sealed over"


class CertificateWrong(Exception):
    """A certificate or key that cannot seal a merchant's documents. `field` is the wrong part of the request."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field, self.problem = field, problem


class Csd(Struct, frozen=True):
    """A certificate (DER) with its private key (PKCS#8, DER, open). Prints as stars."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Csd(***)"

    __str__ = __repr__


def open_csd(certificate: bytes, key: bytes, password: str, *, rfc: str, at: datetime) -> Csd:
    """Returns a certificate and its key, as SAT issues them (DER, the key under a password), opened and checked.

    Raises CertificateWrong if the certificate is unreadable, expired or not yet valid at `at`, a FIEL, or another
    taxpayer's than `rfc`, if the password does not open the key, or if the key belongs to another certificate.
    """
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        _check(parsed, rfc, at)
        public = parsed.public_key()
    except (
        ValueError,
        UnsupportedAlgorithm,
        x509.InvalidVersion,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ):
        raise CertificateWrong("certificate", "is no X.509 certificate in DER (the .cer file)") from None
    if not isinstance(public, rsa.RSAPublicKey) or public.key_size > _BITS_MAX:
        raise CertificateWrong("certificate", f"has no RSA key of at most {_BITS_MAX} bits")
    opened = _opened(key, password)
    if public != opened.public_key():
        raise CertificateWrong("privateKey", "belongs to another certificate")
    if not _seals(opened, public):
        raise CertificateWrong("privateKey", "is damaged: the certificate does not confirm what it signs")
    return Csd(certificate, _open_der(opened))


def _opened(key: bytes, password: str) -> rsa.RSAPrivateKey:
    """Returns a private key. Raises CertificateWrong if it does not open, is too long, or is damaged."""
    try:
        numbers = locked_keys.rsa_numbers(locked_keys.unlock(key, password))
    except locked_keys.TooManyRounds as refused:
        raise CertificateWrong("privateKey", str(refused)) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateWrong(
            "privateKey",
            "does not open: it is no RSA key in PKCS#8 and DER (the .key file), or the password is another",
        ) from None
    if max(number.bit_length() for number in numbers) > _BITS_MAX:
        raise CertificateWrong("privateKey", f"is no RSA key of at most {_BITS_MAX} bits")
    damaged = CertificateWrong("privateKey", "is damaged: its numbers do not fit each other")
    if min(numbers) <= 0 or not numbers.fit:
        raise damaged
    n, e, d, p, q, dmp1, dmq1, iqmp = numbers
    parts = rsa.RSAPrivateNumbers(p, q, d, dmp1, dmq1, iqmp, rsa.RSAPublicNumbers(e, n))
    try:
        return parts.private_key(unsafe_skip_rsa_key_validation=True)
    except ValueError:
        raise damaged from None


def _seals(key: rsa.RSAPrivateKey, public: rsa.RSAPublicKey) -> bool:
    """Returns whether the certificate confirms what the key signs.

    The library's own check of a key looks for primes, and holds the interpreter's lock for 40 to 300 ms meanwhile.
    """
    try:
        public.verify(key.sign(_PROBE, PKCS1v15(), hashes.SHA256()), _PROBE, PKCS1v15(), hashes.SHA256())
    except Exception:  # noqa: BLE001 - numbers that are no key raise several kinds
        return False
    return True


def _check(certificate: x509.Certificate, rfc: str, at: datetime) -> None:
    if len(certificate.extensions) == 4:
        raise CertificateWrong("certificate", "is a FIEL (e.firma): invoices are sealed with a CSD")
    owner = _owner(certificate)
    if owner is None or not _NUMBER.fullmatch(certificate_number(certificate)):
        raise CertificateWrong(
            "certificate", "is no CSD of SAT: its subject has no RFC, or its number is not 20 digits"
        )
    if owner != rfc:
        raise CertificateWrong("certificate", f"belongs to {owner}, and the issuer is {rfc}")
    if certificate.not_valid_before_utc > at:
        raise CertificateWrong("certificate", f"is valid from {certificate.not_valid_before_utc:%Y-%m-%d} only")
    if certificate.not_valid_after_utc <= at:
        raise CertificateWrong("certificate", f"expired on {certificate.not_valid_after_utc:%Y-%m-%d}")


def _owner(certificate: x509.Certificate) -> str | None:
    """Returns the taxpayer's RFC: the text before the slash.

    In a company's certificate its representative's RFC follows.
    """
    found = certificate.subject.get_attributes_for_oid(NameOID.X500_UNIQUE_IDENTIFIER)
    rfc = str(found[0].value).split("/")[0].strip() if found else ""
    return rfc if _RFC.fullmatch(rfc) else None


def certificate_number(certificate: x509.Certificate) -> str:
    """Returns the twenty digits by which SAT names a certificate, for one of SAT's."""
    return f"{certificate.serial_number:x}"[1::2]


def legal_name_of(csd: Csd) -> str:
    """Returns the taxpayer's name in the form of CFDI 4.0: the certificate's name without the kind of company.

    Raises CertificateWrong if the certificate has none.
    """
    from satcfdi.models import Certificate

    try:
        name = Certificate.load_certificate(csd.certificate).legal_name
    except Exception:  # noqa: BLE001 - pyOpenSSL raises classes of its own for a damaged name
        name = None
    if not name:
        raise CertificateWrong("certificate", "has no name: send the legal name beside it")
    return str(name)


def load_signer(csd: Csd) -> Signer:
    """Returns the signer of a certificate that was checked. It takes 30 ms: keep it."""
    from satcfdi.models import Signer

    return Signer.load(certificate=csd.certificate, key=csd.key)


def generate_csd(
    rfc: str, legal_name: str, number: str, *, branch: str = "Unidad 1", at: datetime | None = None, fiel: bool = False
) -> Csd:
    """Returns a new certificate in the form of SAT's, signed by its own key: worth nothing outside the sandbox.

    `number` has twenty digits. With `branch` "PAC" and an RFC the certificate is a provider's. `at` is the beginning of
    its four years, None for the present time. With `fiel` it has the four extensions of a FIEL.
    """
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, legal_name),
            x509.NameAttribute(_NAME, legal_name),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, legal_name),
            x509.NameAttribute(NameOID.X500_UNIQUE_IDENTIFIER, f"{rfc} / XIQB891116QE4"),
            x509.NameAttribute(NameOID.SERIAL_NUMBER, " / XIQB891116HMCXXX00"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, branch),
        ]
    )
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "SANDBOX, not SAT")])
    begins = (at or datetime.now(UTC)) - timedelta(days=1)
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=True, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(number.encode(), "big"))
        .not_valid_before(begins)
        .not_valid_after(begins + _VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    if fiel:
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False).add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
    certificate = builder.sign(key, hashes.SHA256())
    return Csd(certificate.public_bytes(serialization.Encoding.DER), _open_der(key))


def locked_key(csd: Csd, password: str) -> bytes:
    """Returns the private key under a password, as SAT issues it (PKCS#8, DER)."""
    key = serialization.load_der_private_key(csd.key, None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, encryption)


def _open_der(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
