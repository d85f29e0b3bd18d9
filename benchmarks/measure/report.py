"""Reports of benchmarks: figures beside their limits and targets, for people and as JSON.

Missed targets and errors are shown like everything else.
"""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime

import msgspec
import psycopg
from msgspec import Struct

from benchmarks.measure.samples import Sample


class Target(Struct, frozen=True):
    """What a ratio should reach: at least `bound`, or at most."""

    bound: float
    at_most: bool = False

    def reached(self, ratio: float) -> bool:
        return ratio <= self.bound if self.at_most else ratio >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}"


class Ratio(Struct, frozen=True, kw_only=True):
    """One comparison: `of` what, `to` which limit, and its target, if it has one."""

    of: str
    to: str
    value: float
    target: Target | None = None

    @property
    def reached(self) -> bool | None:
        return None if self.target is None else self.target.reached(self.value)


class Report(Struct, frozen=True, kw_only=True):
    """The result of one benchmark. `samples` are typical runs by name; `facts` are other findings.

    `shares` are further columns of the table of samples: by title, the ratio of each sample to the one that it names.
    """

    name: str
    samples: dict[str, Sample]
    ratios: list[Ratio]
    facts: dict[str, str] = {}
    shares: dict[str, dict[str, float]] = {}


def as_json(reports: list[Report], machine: dict[str, str]) -> bytes:
    """Returns the reports as JSON, for programs."""
    return msgspec.json.format(
        msgspec.json.encode(
            {
                "machine": machine,
                "reports": [
                    {
                        "name": report.name,
                        "samples": {name: _sample(one) for name, one in report.samples.items()},
                        "ratios": [_ratio(one) for one in report.ratios],
                        "facts": report.facts,
                        "shares": report.shares,
                    }
                    for report in reports
                ],
            }
        ),
        indent=2,
    )


def _sample(one: Sample) -> dict[str, object]:
    fields: dict[str, object] = {name: getattr(one, name) for name in one.__struct_fields__}
    return fields | {"per_second": one.per_second}


def _ratio(one: Ratio) -> dict[str, object]:
    target = None if one.target is None else str(one.target)
    return {"of": one.of, "to": one.to, "ratio": one.value, "target": target, "reached": one.reached}


def show(reports: list[Report], machine: dict[str, str]) -> None:
    """Prints the reports as tables, for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(", ".join(f"{name} {value}" for name, value in machine.items()), style="dim")
    for report in reports:
        titles = ("", "per second", "p50 ms", "p99 ms", "p99.9 ms", *report.shares, "errors")
        samples = Table(*titles, title=report.name, title_justify="left")
        for name, one in report.samples.items():
            errors = ", ".join(f"{times} {what}" for what, times in one.others.items())
            shares = [f"{share[name]:.3f}" if name in share else "" for share in report.shares.values()]
            latencies = [f"{ms:.2f}" if ms else "" for ms in (one.p50_ms, one.p99_ms, one.p999_ms)]
            samples.add_row(name, f"{one.per_second:,.0f}", *latencies, *shares, errors)
        console.print(samples if report.samples else report.name)
        ratios = Table("ratio", "of", "to", "target", "")
        for ratio in report.ratios:
            verdict = {None: "", True: "[green]reached[/]", False: "[red]missed[/]"}[ratio.reached]
            ratios.add_row(
                f"{ratio.value:.{2 if ratio.value >= 0.1 else 4}f}",
                ratio.of,
                ratio.to,
                str(ratio.target or ""),
                verdict,
            )
        if report.ratios:
            console.print(ratios)
        for name, value in report.facts.items():
            console.print(f"{name}: {value}")
        console.print()


def machine(url: str) -> dict[str, str]:
    """Returns what the figures were measured on: cores, load, system and versions."""
    with psycopg.connect(url) as connection:
        row = connection.execute("select current_setting('server_version'), current_setting('fsync')").fetchone()
    assert row is not None, "settings are always there"
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": str(os.cpu_count()),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "PostgreSQL": row[0],
        "fsync": row[1],
    }
