"""What this process counts, for tests that compare it before and after."""

from collections.abc import Sequence

from prometheus_client.parser import text_string_to_metric_families

from ledger.telemetry.metrics import AllProcesses


def metric_value(name: str, *labels: str) -> float:
    """Returns the value of a sample by its name and the values of its labels in order; 0 where there is none."""
    samples = (sample for family in AllProcesses().collect() for sample in family.samples)
    return sum(each.value for each in samples if (each.name, *each.labels.values()) == (name, *labels))


def value_in(exposed: str, name: str, *labels: str) -> float:
    """Returns the value of a sample in what a service exposes, by its name and the values of its labels in order."""
    samples = (sample for family in text_string_to_metric_families(exposed) for sample in family.samples)
    return sum(each.value for each in samples if (each.name, *each.labels.values()) == (name, *labels))


class JobsCounted:
    """How many attempts at jobs have ended in each way since this was made: `done`, `failed`, `given-up`."""

    def __init__(self) -> None:
        self._before = self._now()

    @staticmethod
    def _now() -> Sequence[float]:
        return [metric_value("ledger_jobs_total", outcome) for outcome in ("done", "failed", "given-up")]

    def __call__(self) -> tuple[float, ...]:
        return tuple(now - before for now, before in zip(self._now(), self._before, strict=True))


class Counted:
    """What this process has counted since this was made: by the name of a sample and the values of its labels."""

    def __init__(self) -> None:
        self._before = self._now()

    @staticmethod
    def _now() -> dict[tuple[str, ...], float]:
        samples = (sample for family in AllProcesses().collect() for sample in family.samples)
        return {(each.name, *each.labels.values()): each.value for each in samples}

    def __call__(self, *names: str) -> dict[tuple[str, ...], float]:
        """Returns the samples of these names that have grown, with how much."""
        grown = {key: value - self._before.get(key, 0) for key, value in self._now().items() if key[0] in names}
        return {key: amount for key, amount in grown.items() if amount}
