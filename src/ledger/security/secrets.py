"""The secrets of an installation: one master key, and a derived key for every purpose.

Never encrypt or sign with the master key itself. Derive a key by a purpose, and never rename a purpose: what was
encrypted with its key is readable only under the same name.
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

from ledger.bounded_file import TooLarge, read_file
from ledger.settings import CannotRun, Settings, SettingWrong

MASTER_KEY_BYTES: Final = 32
MASTER_KEY_NAME: Final = "master.key"
_MASTER: Final = "master"
_FINGERPRINT_BYTES: Final = 8
_FILE_BYTES_MAX: Final = 2**20


class Purpose(StrEnum):
    """The purposes of derived keys. The text is part of the derivation, and permanent like an event's topic."""

    API_KEY_PEPPER = "api-key-pepper"
    REQUEST_FINGERPRINT = "request-fingerprint"
    DATABASE_APP_ROLE = "database-app-role"
    DATABASE_VAULT_ROLE = "database-vault-role"
    DATA_KEY_WRAPPING = "data-key-wrapping"
    ORDER_NUMBERS = "order-numbers"
    CARD_KEY_WRAPPING = "card-key-wrapping"
    CARD_FINGERPRINT = "card-fingerprint"
    ISSUER_KEY_WRAPPING = "issuer-key-wrapping"
    PROCESSOR_KEY_WRAPPING = "processor-key-wrapping"
    WEBHOOK_KEY_WRAPPING = "webhook-key-wrapping"
    FILE_LINKS = "file-links"
    SELF_INVOICE_LINKS = "self-invoice-links"
    PAYER_RETURNS = "payer-returns"
    LOG_CHECKPOINT = "log-checkpoint"
    MASTER_KEY_FINGERPRINT = "master-key-fingerprint"


class Secrets:
    """The keys of an installation. Its text form is stars."""

    def __init__(self, master_key: bytes) -> None:
        assert len(master_key) == MASTER_KEY_BYTES, "the loader has checked it"
        self._master_key = master_key

    def key(self, purpose: Purpose) -> bytes:
        """Returns the 32 bytes for a purpose, by HKDF-SHA256 (RFC 5869): one key reveals nothing about another."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        label = f"payment-ledger {purpose}".encode()
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=label).derive(self._master_key)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits by which the master key is recognised: derived from it, and no help in guessing it."""
        return self.key(Purpose.MASTER_KEY_FINGERPRINT)[:_FINGERPRINT_BYTES].hex()

    def __repr__(self) -> str:
        return "Secrets(***)"


def load_secrets(settings: Settings) -> Secrets:
    """Returns the installation's secrets. Without a master key, the sandbox generates one in the data directory.

    Raises SettingWrong: not 32 bytes, an unreadable file, or production without a master key.
    """
    if settings.master_key:
        return Secrets(_decoded("LEDGER_MASTER_KEY", settings.master_key))
    if settings.master_key_file:
        return Secrets(_read("LEDGER_MASTER_KEY_FILE", settings.master_key_file))
    if settings.environment == "production":
        raise SettingWrong("LEDGER_MASTER_KEY", "or LEDGER_MASTER_KEY_FILE must be set in production")
    path = settings.data_dir / MASTER_KEY_NAME
    if not path.exists():
        _make(path)
    return Secrets(_read(f"{path}, the sandbox's own LEDGER_MASTER_KEY,", path))


def generates_master_key(settings: Settings) -> bool:
    """Returns whether `load_secrets` would generate a master key: in a sandbox that has none yet, or has lost it."""
    is_given = settings.master_key or settings.master_key_file
    return not is_given and settings.environment == "sandbox" and not (settings.data_dir / MASTER_KEY_NAME).exists()


def master_key_source(settings: Settings) -> str:
    """Returns where the master key of these settings is read: the variable, or the sandbox's own file."""
    if settings.master_key:
        return "LEDGER_MASTER_KEY"
    if settings.master_key_file:
        return f"LEDGER_MASTER_KEY_FILE {settings.master_key_file}"
    return f"{settings.data_dir / MASTER_KEY_NAME}, the sandbox's own master key,"


def load_sealing_keys(settings: Settings, purpose: Purpose = Purpose.DATA_KEY_WRAPPING) -> list[bytes]:
    """Returns the keys that wrap the customers' data keys, or those that wrap the cards' keys, newest first.

    The master key's own is always among them: in the place of the word `master`, else last. Raises SettingWrong like
    `load_secrets`, for LEDGER_SEALING_KEYS or LEDGER_SEALING_KEYS_FILE.
    """
    listed = _listed("LEDGER_SEALING_KEYS", settings.sealing_keys, settings.sealing_keys_file)
    return _derived(settings, *listed, purpose)


def load_checkpoint_keys(settings: Settings) -> list[bytes]:
    """Returns the private keys that sign the checkpoints of merchants' logs, newest first, like `load_sealing_keys`.

    Raises SettingWrong like `load_secrets`, for LEDGER_CHECKPOINT_KEYS or LEDGER_CHECKPOINT_KEYS_FILE.
    """
    listed = _listed("LEDGER_CHECKPOINT_KEYS", settings.checkpoint_keys, settings.checkpoint_keys_file)
    return _derived(settings, *listed, Purpose.LOG_CHECKPOINT)


def _derived(settings: Settings, variable: str, texts: list[str], purpose: Purpose) -> list[bytes]:
    """Returns the keys for a purpose of a list of keys like the master key, whose own is always among them."""
    master = load_secrets(settings)
    given = [master if text == _MASTER else Secrets(_decoded(variable, text)) for text in texts]
    if master not in given:
        given.append(master)
    return [secrets.key(purpose) for secrets in given]


def load_processor_keys(settings: Settings) -> dict[str, tuple[bytes, ...]]:
    """Returns the keys by which processors sign their messages, by processor: one, or two while a key is replaced.

    Raises SettingWrong for LEDGER_PROCESSOR_KEYS or LEDGER_PROCESSOR_KEYS_FILE.
    """
    variable, texts = _listed("LEDGER_PROCESSOR_KEYS", settings.processor_keys, settings.processor_keys_file)
    keys: dict[str, tuple[bytes, ...]] = {}
    for text in texts:
        name, colon, key = text.partition(":")
        if not (colon and re.fullmatch(r"[a-z0-9-]{1,64}", name)):
            raise SettingWrong(variable, "must be name:key, the name in small letters, digits and -")
        keys[name] = (*keys.get(name, ()), _decoded(variable, key))
    return keys


def _listed(variable: str, setting: str | None, file: Path | None) -> tuple[str, list[str]]:
    """Returns the keys of a setting (separated by commas) or a file (one per line), and the variable's name."""
    if file:
        variable = f"{variable}_FILE"
        return variable, _text_of(variable, file).split()
    return variable, [text.strip() for text in setting.split(",")] if setting else []


def _make(path: Path) -> None:
    """Writes a new master key. The file appears complete, and of several processes only the first one's counts."""
    path.parent.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(os.urandom(MASTER_KEY_BYTES).hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)
    except FileExistsError:
        pass
    except OSError as refusal:
        raise CannotRun(f"the sandbox cannot keep its master key in {path}: {refusal.strerror}") from refusal
    finally:
        unfinished.unlink(missing_ok=True)


def _read(variable: str, path: Path) -> bytes:
    return _decoded(variable, _text_of(variable, path))


def _text_of(variable: str, path: Path) -> str:
    try:
        return read_file(path, _FILE_BYTES_MAX).decode("ascii")
    except (OSError, TooLarge) as refusal:
        reason = refusal.strerror if isinstance(refusal, OSError) else refusal
        named = variable if str(path) in variable else f"{variable} {path}"
        raise SettingWrong(named, f"cannot be read: {reason}") from None
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
