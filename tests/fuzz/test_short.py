"""A bounded run of what `python -m tests.fuzz` does at length, the same requests every time."""

from __future__ import annotations

import re

from tests.fuzz.running import fuzzed


def test_the_service_answers_as_it_describes_whatever_it_is_asked():
    status, report = fuzzed(["--max-examples", "15", "--seed", "20261120"], patience_s=240)
    assert status == 0, report
    tested = re.search(r"Selected: (\d+)/\1\n\s+Tested: \1\n", report)
    assert tested, report
    sent = re.search(r"(\d+) generated, \1 passed", report)
    assert sent, report
    assert int(sent[1]) > 1000
