"""Documents of many merchants, each with a generated certificate over one key."""

from tests.invoicing.kept_keys import kept_keys

__all__ = ["kept_keys"]
