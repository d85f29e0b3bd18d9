"""The words in which a card's verification is described: the payer's steps, and how a verification ends."""

from __future__ import annotations

from enum import StrEnum


class PayerStep(StrEnum):
    """What a verification waits for its payer to do."""

    DEVICE_DATA = "DEVICE_DATA"
    CHALLENGE = "CHALLENGE"
    REDIRECT = "REDIRECT"


class EndedBecause(StrEnum):
    """Why a verification ended that the processor did not end."""

    EXPIRED = "EXPIRED"
    REPLACED = "REPLACED"
    DELETED = "DELETED"
    CUSTOMER_ERASED = "CUSTOMER_ERASED"


class VerificationEnd(StrEnum):
    """How a verification has ended: by its issuer's answer, without one, or as in `EndedBecause`."""

    VERIFIED = "VERIFIED"
    DECLINED = "DECLINED"
    NOT_SENT = "NOT_SENT"
    NOT_FOUND = "NOT_FOUND"
    EXPIRED = "EXPIRED"
    REPLACED = "REPLACED"
    DELETED = "DELETED"
    CUSTOMER_ERASED = "CUSTOMER_ERASED"
