"""A processor's words about an account, as they may be shown: without the account's keys, card data and line breaks."""

from __future__ import annotations

import re
from typing import Final

from ledger.processors.card_data import masked_text
from ledger.processors.registry import AccountKeys

_WORDS_MAX: Final = 500
_KEY: Final = re.compile(r"\b(?:sk|rk|whsec)_\w{8,}")
"""A secret key of a processor, of any account."""
_STARS: Final = "***"


def without_secrets(words: str, keys: AccountKeys) -> str:
    """Returns a processor's words with stars for these keys, for others of their form, and for card data."""
    for secret in (keys.secret_key, *keys.webhook_secrets):
        if secret:
            words = words.replace(secret, _STARS)
    return masked_text(_KEY.sub(_STARS, " ".join(words.split())))[:_WORDS_MAX]
