"""`openapi.json`: the document that the service serves at `/openapi.json`, made by the same code."""

from api.app import describe_interface
from api.description import as_json
from ledger.settings import Settings


def page() -> str:
    """Returns the document as it should be."""
    return as_json(describe_interface(Settings()))
