"""`openapi.json`: the description that the service serves, for those who have no service at hand.

The rule a stranger would break: it is the same document as at `/openapi.json`, made by the same code.
"""

from api.app import describe_interface
from api.openapi.document import as_json
from ledger.settings import Settings


def page() -> str:
    """The document as it should stand."""
    return as_json(describe_interface(Settings()))
