"""The secrets of an installation: one master key, and a key for every purpose derived from it.

The rule a stranger would break: the master key itself encrypts and signs nothing. Whoever needs a key names a purpose,
once and for ever, since what was made with a derived key is only readable under the same name.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from enum import StrEnum
from pathlib import Path
from typing import Final
from uuid import uuid4

from ledger.settings import CannotRun, Settings, SettingWrong

MASTER_KEY_BYTES: Final = 32
MASTER_KEY_NAME: Final = "master.key"
_OWN: Final = "master"


class Purpose(StrEnum):
    """What a derived key is for. The text is part of the derivation: permanent, like an event's topic."""

    API_KEY_PEPPER = "api-key-pepper"
    REQUEST_FINGERPRINT = "request-fingerprint"
    DATABASE_APP_ROLE = "database-app-role"
    DATABASE_VAULT_ROLE = "database-vault-role"
    DATA_KEY_WRAPPING = "data-key-wrapping"


class Secrets:
    """The keys of an installation. Prints as stars."""

    def __init__(self, master_key: bytes) -> None:
        assert len(master_key) == MASTER_KEY_BYTES, "the loader has checked it"
        self._master_key = master_key

    def key(self, purpose: Purpose) -> bytes:
        """The 32 bytes for a purpose, by HKDF-SHA256 (RFC 5869): knowing one tells nothing about another."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        label = f"payment-ledger {purpose}".encode()
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=label).derive(self._master_key)

    def __repr__(self) -> str:
        return "Secrets(***)"


def load_secrets(settings: Settings) -> Secrets:
    """The installation's secrets; the sandbox makes a master key of its own under the data directory where none is given.

    Raises SettingWrong: not 32 bytes, an unreadable file, or production without one.
    """
    if settings.master_key:
        return Secrets(_decoded("LEDGER_MASTER_KEY", settings.master_key))
    if settings.master_key_file:
        return Secrets(_read("LEDGER_MASTER_KEY_FILE", settings.master_key_file))
    if settings.environment == "production":
        raise SettingWrong("LEDGER_MASTER_KEY", "or LEDGER_MASTER_KEY_FILE must be set in production")
    place = settings.data_dir / MASTER_KEY_NAME
    if not place.exists():
        _make(place)
    return Secrets(_read(f"{place}, the sandbox's own LEDGER_MASTER_KEY,", place))


def load_sealing_keys(settings: Settings) -> list[bytes]:
    """The keys that wrap the customers' data keys, newest first. The master key's own is always among them: where the word
    `master` stands, else last.

    Raises SettingWrong like `load_secrets`, naming LEDGER_SEALING_KEYS or LEDGER_SEALING_KEYS_FILE.
    """
    variable, given = "LEDGER_SEALING_KEYS", settings.sealing_keys.split(",") if settings.sealing_keys else []
    if settings.sealing_keys_file:
        variable = "LEDGER_SEALING_KEYS_FILE"
        given = _text_of(variable, settings.sealing_keys_file).split()
    own = load_secrets(settings)
    known = [own if text.strip() == _OWN else Secrets(_decoded(variable, text)) for text in given]
    if own not in known:
        known.append(own)
    return [secrets.key(Purpose.DATA_KEY_WRAPPING) for secrets in known]


def load_processor_keys(settings: Settings) -> dict[str, tuple[bytes, ...]]:
    """The keys that processors sign their messages with, by the processor's name: one, or two while it is changed.

    Raises SettingWrong, naming LEDGER_PROCESSOR_KEYS or LEDGER_PROCESSOR_KEYS_FILE.
    """
    variable = "LEDGER_PROCESSOR_KEYS"
    given = settings.processor_keys.split(",") if settings.processor_keys else []
    if settings.processor_keys_file:
        variable = "LEDGER_PROCESSOR_KEYS_FILE"
        given = _text_of(variable, settings.processor_keys_file).split()
    keys: dict[str, tuple[bytes, ...]] = {}
    for text in given:
        name, colon, key = text.strip().partition(":")
        if not (colon and re.fullmatch(r"[a-z0-9-]{1,64}", name)):
            raise SettingWrong(variable, "must be name:key, the name in small letters, digits and -")
        keys[name] = (*keys.get(name, ()), _decoded(variable, key))
    return keys


def _make(place: Path) -> None:
    """Write a new key so that the file is never seen half written, and of two who write at once only the first counts."""
    place.parent.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    unfinished = place.with_name(f"{place.name}.{uuid4().hex}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(os.urandom(MASTER_KEY_BYTES).hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, place)
    except FileExistsError:
        pass
    except OSError as refusal:
        raise CannotRun(f"the sandbox cannot keep its master key in {place}: {refusal.strerror}") from refusal
    finally:
        unfinished.unlink(missing_ok=True)


def _read(variable: str, place: Path) -> bytes:
    return _decoded(variable, _text_of(variable, place))


def _text_of(variable: str, place: Path) -> str:
    try:
        return place.read_text(encoding="ascii")
    except OSError as refusal:
        raise SettingWrong(variable, f"cannot be read: {refusal.strerror}") from refusal
    except UnicodeDecodeError:
        raise SettingWrong(variable, "must hold 32 bytes in hex or base64") from None


def _decoded(variable: str, text: str) -> bytes:
    text = text.strip()
    try:
        if re.fullmatch(r"[0-9A-Fa-f]{64}", text):
            return bytes.fromhex(text)
        key = base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != MASTER_KEY_BYTES:
        raise SettingWrong(variable, "must be 32 bytes in hex (64 characters) or base64")
    return key
