"""Routes are found by a dictionary or by Starlette's router: a request gets the same one from both."""

from starlette.routing import Match

from api.app import routes
from api.dependencies import DependencyHolder
from ledger.settings import Settings


def test_no_route_with_parameters_takes_the_path_of_another_route():
    every = routes(Settings(), DependencyHolder())
    for route in every:
        scope = {"type": "http", "path": route.path, "method": "GET", "root_path": ""}
        first = next(other for other in every if other.matches(scope)[0] is not Match.NONE)
        assert first is route or route.param_convertors
