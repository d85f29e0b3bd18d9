"""The reader of the log that commands without a whole ledger use, on connections of their own."""

from __future__ import annotations

from ledger.invoicing.files import files_address
from ledger.journal.codec import CODEC
from ledger.journal.encryption.data_keys import DataKeys
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.journal.event_archive import EventArchive
from ledger.journal.reader import LogReader
from ledger.security.secrets import load_sealing_keys
from ledger.settings import Settings


def log_reader(settings: Settings, url: str) -> LogReader:
    """Returns a reader with the installation's keys, which is not connected: pass each read a connection."""
    archive = EventArchive(files_address(settings.files_url, settings.data_dir))
    archive.answer_max_s = 60.0  # no request waits for a command
    return LogReader(url, CODEC, DataKeys(url, SealingKeys(load_sealing_keys(settings))), archive)
