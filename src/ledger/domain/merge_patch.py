"""A JSON merge patch (RFC 7396) on JSON as it was sent: what a patch leaves alone keeps its bytes."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

_NULL: Final = b"null"


def patched(target: Raw | UnsetType, patch: Raw) -> Raw | UnsetType:
    """Returns the target after a patch. UNSET is a target that is absent."""
    after = merged(None if isinstance(target, UnsetType) else target, patch)
    return UNSET if after is None else after


def merged(target: Raw | None, patch: Raw) -> Raw | None:
    """Returns the target after a patch; None is JSON's null.

    An object of the patch changes the members that it names, and its nulls take members away. Anything else takes the
    target's place.
    """
    if bytes(patch) == _NULL:
        return None
    if not _is_object(patch):
        return patch
    members = {} if target is None or not _is_object(target) else _members(target)
    for name, value in _members(patch).items():
        after = merged(members.get(name), value)
        if after is None:
            members.pop(name, None)
        else:
            members[name] = after
    return Raw(msgspec.json.encode(members))


def _is_object(value: Raw) -> bool:
    return bytes(value)[:1] == b"{"


def _members(value: Raw) -> dict[str, Raw]:
    return msgspec.json.decode(value, type=dict[str, Raw])
