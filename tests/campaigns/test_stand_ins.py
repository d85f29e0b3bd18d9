"""What stands in for Stripe: the fake agrees with Stripe World, and what cannot start is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from campaigns.stand_ins import environment
from campaigns.stand_ins.__main__ import compared
from campaigns.stand_ins.environment import INTERPRETER, CannotStart
from campaigns.stand_ins.script import scenarios


def test_the_comparison_has_two_hundred_calls_and_its_steps_have_names_of_their_own() -> None:
    every = list(scenarios())
    assert sum(len(scenario.steps) for scenario in every) >= 200
    assert all(len({step.name for step in scenario.steps}) == len(scenario.steps) for scenario in every)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this interpreter can run Stripe World")
def test_a_python_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "PLACE", tmp_path / "none")
    for named in (sys.executable, str(tmp_path / "missing")):
        monkeypatch.setenv(INTERPRETER, named)
        with pytest.raises(CannotStart, match=r"needs Python 3\.13 or newer; tried .*" + INTERPRETER):
            environment.installed()


@pytest.mark.long
def test_the_fake_and_stripe_world_agree_on_every_call() -> None:
    try:
        outcome = compared()
    except CannotStart as reason:
        pytest.skip(str(reason))
    assert [str(difference) for difference in outcome.differences] == []
    assert [rule.place for rule in outcome.unused] == []
    assert outcome.calls >= 200
