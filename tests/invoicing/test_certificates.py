"""Which certificates may seal a merchant's documents: the others are refused when they are set."""

import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateNumbers
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import NameOID, ObjectIdentifier
from tests.invoicing.documents import LEGAL_NAME, NUMBER, RFC

from ledger.invoicing import certificates
from ledger.invoicing.certificates import CertificateWrong, Csd, generate_csd, load_signer, locked_key, open_csd

NOW = datetime.now(UTC)
PASSWORD = "12345678a"


@pytest.fixture(scope="module")
def fiel():
    return generate_csd(RFC, LEGAL_NAME, NUMBER, fiel=True)


def test_a_csd_with_its_key_and_password_is_opened(csd):
    opened = open_csd(csd.certificate, locked_key(csd, PASSWORD), PASSWORD, rfc=RFC, at=NOW)
    signer = load_signer(opened)
    assert (signer.rfc, signer.certificate_number, signer.legal_name) == (RFC, NUMBER, LEGAL_NAME)
    assert str(opened) == repr(opened) == "Csd(***)"


@pytest.mark.parametrize(
    ("given", "field", "problem"),
    [
        ({"password": "another"}, "privateKey", "password"),
        ({"rfc": "XIA190128J61"}, "certificate", f"belongs to {RFC}, and the issuer is XIA190128J61"),
        ({"at": NOW + timedelta(days=5 * 365)}, "certificate", "expired on"),
        ({"at": NOW - timedelta(days=30)}, "certificate", "is valid from"),
        ({"certificate": b"no certificate"}, "certificate", "is no X.509 certificate"),
        ({"key": b"no key"}, "privateKey", "does not open"),
    ],
    ids=["wrong password", "foreign", "expired", "not yet valid", "no certificate", "no key"],
)
def test_a_certificate_that_could_not_seal_is_refused(csd, given, field, problem):
    arguments = {"certificate": csd.certificate, "key": locked_key(csd, PASSWORD), "password": PASSWORD}
    with pytest.raises(CertificateWrong, match=problem) as refused:
        open_csd(**(arguments | {"rfc": RFC, "at": NOW} | given))
    assert refused.value.field == field


@pytest.mark.parametrize(
    "change",
    [(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x67"), (b"\x86\xf7\x0d\x01\x01\x01", b"\x86\xf7\x0d\x01\x01\x35")],
)
def test_a_damaged_certificate_is_refused(csd, change):
    damaged = csd.certificate.replace(*change)
    assert damaged != csd.certificate
    with pytest.raises(CertificateWrong, match=r"X\.509 certificate in DER"):
        open_csd(damaged, locked_key(csd, PASSWORD), PASSWORD, rfc=RFC, at=NOW)


def test_a_fiel_is_refused(fiel):
    with pytest.raises(CertificateWrong, match="is a FIEL"):
        open_csd(fiel.certificate, locked_key(fiel, PASSWORD), PASSWORD, rfc=RFC, at=NOW)


def test_the_key_of_another_certificate_is_refused(csd, fiel):
    other = Csd(csd.certificate, fiel.key)
    with pytest.raises(CertificateWrong, match="belongs to another certificate"):
        open_csd(other.certificate, locked_key(other, PASSWORD), PASSWORD, rfc=RFC, at=NOW)


def test_a_certificate_that_sat_did_not_form_is_refused():
    short = generate_csd(RFC, LEGAL_NAME, "12345")
    with pytest.raises(CertificateWrong, match="is no CSD of SAT"):
        open_csd(short.certificate, locked_key(short, PASSWORD), PASSWORD, rfc=RFC, at=NOW)


def der(tag, *parts):
    content = b"".join(parts)
    length = len(content)
    return bytes([tag, length]) + content if length < 128 else bytes([tag, 0x82]) + length.to_bytes(2, "big") + content


def locked(rounds, derivation="06092a864886f70d01050c", salt=b"saltsalt"):
    """Returns a PKCS#8 key under PBES2 with so many rounds of PBKDF2."""
    cipher = der(0x30, bytes.fromhex("060960864801650304012a"), der(0x04, bytes(16)))
    parameters = der(0x30, der(0x04, salt), der(0x02, rounds.to_bytes(5, "big")))
    scheme = der(0x30, der(0x30, bytes.fromhex(derivation), parameters), cipher)
    return der(0x30, der(0x30, bytes.fromhex("06092a864886f70d01050d"), scheme), der(0x04, bytes(1232)))


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (locked(2**31 - 1), "asks for more than 100,000 rounds"),
        (locked(100_001), "asks for more than 100,000 rounds"),
        (locked(20_000_000, salt=b"\x02\x00" * 256), "asks for more than 100,000 rounds"),
        (locked(1), "does not open"),
        (locked(1, "060b2b06010401da47040b"), "does not open"),
        (locked(2**31 - 1)[:60], "does not open"),
        (b"0", "does not open"),
        (b"", "does not open"),
    ],
    ids=[
        "endless",
        "too long",
        "a salt that looks like rounds",
        "no key inside",
        "scrypt",
        "cut off",
        "one byte",
        "empty",
    ],
)
def test_a_key_that_would_take_hours_to_open_is_refused_unopened(csd, key, problem):
    with pytest.raises(CertificateWrong, match=problem):
        open_csd(csd.certificate, key, PASSWORD, rfc=RFC, at=NOW)


@pytest.mark.parametrize("cipher", ["aes256", "aes192", "aes128", "des3"])
@pytest.mark.parametrize("hash_", ["hmacWithSHA1", "hmacWithSHA256", "hmacWithSHA512"])
def test_keys_as_openssl_locks_them_are_opened(csd, cipher, hash_):
    command = ["openssl", "pkcs8", "-topk8", "-inform", "DER", "-outform", "DER", "-v2", cipher, "-v2prf", hash_]
    command += ["-iter", "2048", "-passout", f"pass:{PASSWORD}"]
    key = subprocess.run(command, input=csd.key, capture_output=True, check=True).stdout
    assert open_csd(csd.certificate, key, PASSWORD, rfc=RFC, at=NOW) == csd


def test_a_key_whose_parts_do_not_fit_each_other_is_refused(csd):
    numbers = serialization.load_der_private_key(csd.key, None).private_numbers()
    parts = {name: getattr(numbers, name) for name in ("p", "q", "d", "dmp1", "dmq1", "iqmp")}
    damaged = RSAPrivateNumbers(
        **(parts | {"d": numbers.d + 2, "dmp1": numbers.dmp1 + 2}), public_numbers=numbers.public_numbers
    ).private_key(unsafe_skip_rsa_key_validation=True)
    key = damaged.private_bytes(Encoding.DER, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode()))
    with pytest.raises(CertificateWrong, match="is damaged"):
        open_csd(csd.certificate, key, PASSWORD, rfc=RFC, at=NOW)


def test_a_key_with_a_bit_that_differs_is_refused_wherever_the_bit_is(csd):
    key = locked_key(csd, PASSWORD)
    for at in range(len(key) // 4, len(key), 97):
        damaged = bytearray(key)
        damaged[at] ^= 1
        with pytest.raises(CertificateWrong, match=r"does not open|is damaged|another certificate|bits"):
            open_csd(csd.certificate, bytes(damaged), PASSWORD, rfc=RFC, at=NOW)


def test_a_key_of_another_kind_is_refused_before_anything_computes_with_it(csd, monkeypatch):
    monkeypatch.setattr(serialization, "load_der_private_key", None)
    key = ed25519.Ed25519PrivateKey.generate().private_bytes(
        Encoding.DER, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode())
    )
    with pytest.raises(CertificateWrong, match="is no RSA key in PKCS#8"):
        open_csd(csd.certificate, key, PASSWORD, rfc=RFC, at=NOW)


def test_a_certificate_with_a_name_that_the_library_does_not_read_is_refused():
    """x400Address and ediPartyName, as other names of the subject."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    names = x509.UnrecognizedExtension(ObjectIdentifier("2.5.29.17"), bytes.fromhex("3002a300"))
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW - timedelta(1)).not_valid_after(NOW + timedelta(1))
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
    with pytest.raises(CertificateWrong, match=r"X\.509 certificate in DER"):
        open_csd(certificate, b"", PASSWORD, rfc=RFC, at=NOW)


def test_a_key_longer_than_the_tax_authoritys_is_refused(csd, monkeypatch):
    monkeypatch.setattr(certificates, "_BITS_MAX", 1024)
    with pytest.raises(CertificateWrong, match="RSA key of at most 1024 bits"):
        open_csd(csd.certificate, locked_key(csd, PASSWORD), PASSWORD, rfc=RFC, at=NOW)
