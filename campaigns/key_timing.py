"""`python -m campaigns key-timing`: how the time of a key's check depends on how much of the key is right.

Wrong keys that share no character with a valid key, and wrong keys that differ from it in the last character only, are
checked in turn, in one process without a database. The medians should differ by less than a microsecond: only keyed
hashes are compared. The command prints figures and judges nothing, since the machine may be busy.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hmac
import secrets
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from string import ascii_letters, digits

from api.errors import ApiError
from api.http.auth import KEY_HEADER, Authenticator
from ledger.security.api_keys import PREFIXES, hash_key, new_key
from projections.merchants import FoundKey

_PEPPER = b"p" * 32
_ALPHABET = digits + ascii_letters


async def measure(number: int) -> tuple[float, float]:
    """Returns the median times of a check in microseconds: with no equal character, and with all but the last one."""
    valid = new_key("sandbox", _PEPPER).secret
    stored = bytes.fromhex(hash_key(valid, _PEPPER))

    async def find(key_hash: bytes) -> FoundKey | None:
        assert not hmac.compare_digest(key_hash, stored), "every key that is checked is wrong"
        return None

    seconds = count(step=10)  # no key is cached
    authenticator = Authenticator(
        find, _PEPPER, "sandbox", per_minute=0, per_second=0, monotonic=lambda: float(next(seconds))
    )
    prefix = PREFIXES["sandbox"]
    times: tuple[list[int], list[int]] = ([], [])
    for n in range(2 * number):
        body = valid.removeprefix(prefix)
        if n % 2:
            last = secrets.choice(_ALPHABET.replace(body[-1], ""))
            secret = prefix + body[:-1] + last
        else:
            secret = prefix + "".join(secrets.choice(_ALPHABET.replace(right, "")) for right in body)
        headers = {KEY_HEADER: secret.encode()}
        began = time.perf_counter_ns()
        with suppress(ApiError):
            await authenticator.identify(headers, None)
        times[n % 2].append(time.perf_counter_ns() - began)
    none, almost = (statistics.median(each) / 1_000 for each in times)
    return none, almost


def main(arguments: Sequence[str]) -> int:
    """Prints the medians and their difference. The reader compares them: a busy machine delays single checks."""
    parser = argparse.ArgumentParser(prog="python -m campaigns key-timing", description=__doc__)
    parser.add_argument("--number", type=int, default=20_000, help="how many keys of each kind are checked")
    options = parser.parse_args(arguments)
    gc.disable()
    none, almost = asyncio.run(measure(options.number))
    sys.stdout.write(
        f"median of {options.number} checks with no equal character      {none:8.3f} µs\n"
        f"median of {options.number} checks with all equal but the last  {almost:8.3f} µs\n"
        f"difference                                             {almost - none:+8.3f} µs\n"
    )
    return 0
