"""Derivations of keys without end, in a process of their own: what they take of a machine's cores, and of nothing else."""

from __future__ import annotations

import hashlib
import threading

from benchmarks.load.processes import end_with_parent
from ledger.invoicing.locked_keys import ROUNDS_MAX

if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    while True:
        hashlib.pbkdf2_hmac("sha1", b"12345678a", bytes(8), ROUNDS_MAX, 32)
