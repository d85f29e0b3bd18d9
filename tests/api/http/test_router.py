"""Routes are found by the table of routes: a request gets the one that Starlette's router would find."""

import re

from starlette.routing import Match

from api.app import routes
from api.http.dependencies import DependencyHolder
from api.http.endpoint import RouteTable
from ledger.settings import Settings


def test_no_route_with_parameters_takes_the_path_of_another_route():
    every = routes(Settings(), DependencyHolder())
    for route in every:
        scope = {"type": "http", "path": route.path, "method": "GET", "root_path": ""}
        first = next(other for other in every if other.matches(scope)[0] is not Match.NONE)
        assert first is route or route.param_convertors


def test_the_table_finds_what_starlettes_router_finds():
    every = routes(Settings(), DependencyHolder())
    table = RouteTable(every)
    for path in [re.sub("{.+?}", "a%2Fb", route.path) for route in every]:
        scope = {"type": "http", "path": path, "method": "GET", "root_path": ""}
        found, expected = next((other, scopes) for other in every if (scopes := other.matches(scope)[1]))
        assert table.find(scope) is found.app
        assert (scope["route"], scope["path_params"]) == (found, expected["path_params"])
        assert found.methods is None, "an endpoint refuses methods by itself"
