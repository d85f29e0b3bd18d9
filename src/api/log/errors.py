"""What the tree of a log cannot answer yet, or at all."""

from __future__ import annotations

from typing import Final

from api.errors import ApiError
from api.response import Headers

_NEXT_ROUND: Final[Headers] = ((b"retry-after", b"10"),)
"""By default the worker seals so often."""


def log_empty() -> ApiError:
    """Returns the 404 about a log without a checkpoint."""
    return ApiError(404, "LOG_EMPTY", "The log has no checkpoint yet: ask again in some seconds.")


def entry_not_found() -> ApiError:
    """Returns the 404 about a position behind the log's last event."""
    return ApiError(404, "ENTRY_NOT_FOUND", "The log has no event at this position.")


def entry_not_sealed() -> ApiError:
    """Returns the 409 about an event that no checkpoint has yet."""
    message = "No checkpoint has this event yet: ask again after the seconds in Retry-After."
    return ApiError(409, "ENTRY_NOT_SEALED", message, headers=_NEXT_ROUND)


def checkpoint_not_found() -> ApiError:
    """Returns the 404 about a size that the tree had at no checkpoint."""
    message = "No checkpoint was signed at this size: leave size out for the newest one."
    return ApiError(404, "CHECKPOINT_NOT_FOUND", message)


def tile_not_found() -> ApiError:
    """Returns the 404 about a tile or a bundle that the tree does not have."""
    message = "The tree has no such tile: check the path, and its width against the size of the checkpoint."
    return ApiError(404, "TILE_NOT_FOUND", message)


def log_changed() -> ApiError:
    """Returns the 409 about a log of which an event was changed or removed after it had a checkpoint."""
    message = (
        "An event of the log was changed or removed after a checkpoint had it: the operator of the service has to "
        "restore it."
    )
    return ApiError(409, "LOG_CHANGED", message)
