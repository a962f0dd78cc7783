"""Runs contestants in fresh processes, in turns (A B A B ...): wall time, CPU time, peak memory, and equality.

A contestant is a command. One that `reports` prints, as its last line, a JSON object of measurements made inside the
process, after its first call (contestants.py does so); of any other the whole process is measured.

This module and whoever calls it load the standard library only: a child begins with its parent's peak memory on its
account, so a large parent would hide a small child.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KILOBYTE = 1 if sys.platform == "darwin" else 1024
"""What ru_maxrss counts in."""


ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""An installed package has its bytecode beside it."""


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    command: tuple[str, ...]
    reports: bool = False
    environment: dict[str, str] = field(default_factory=lambda: ENVIRONMENT)


@dataclass(slots=True)
class Result:
    """Every measured time; ``checks`` holds what has to be equal wherever two contestants name the same key."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def wall(self) -> float:
        return statistics.median(self.wall_s)

    def add(self, measured: dict[str, Any]) -> None:
        self.wall_s += measured["wall_s"]
        self.cpu_s += measured["cpu_s"]
        self.first_s += measured.get("first_s", [])
        self.peak_mb.append(measured["peak_mb"])
        self.checks.append(measured.get("checks", {}))

    def row(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "wall_s": self.wall,
            "fastest_s": min(self.wall_s),
            "slowest_s": max(self.wall_s),
            "cpu_s": statistics.median(self.cpu_s),
            "first_s": statistics.median(self.first_s) if self.first_s else None,
            "peak_mb": max(self.peak_mb),
            "measured": len(self.wall_s),
        }


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure, and how large it should be at least or at most (neither: it is only shown)."""

    what: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    def row(self) -> dict[str, Any]:
        if self.at_least is not None:
            return self._row(f"at least {self.at_least:g}", self.value >= self.at_least)
        if self.at_most is not None:
            return self._row(f"at most {self.at_most:g}", self.value <= self.at_most)
        return self._row(None, None)

    def _row(self, target: str | None, holds: bool | None) -> dict[str, Any]:
        return {"what": self.what, "value": self.value, "target": target, "holds": holds}


def measure(contestant: Contestant) -> dict[str, Any]:
    """Runs it once. Ends the bench if it fails."""
    with tempfile.TemporaryFile() as out:
        begin = time.perf_counter()
        process = subprocess.Popen(contestant.command, stdout=out, env=contestant.environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{contestant.name}: exit code {process.returncode}: {' '.join(contestant.command)}")
        if contestant.reports:
            out.seek(0)
            return json.loads(out.read().splitlines()[-1])
    peak_mb = usage.ru_maxrss * KILOBYTE / 1e6
    return {"wall_s": [wall], "cpu_s": [usage.ru_utime + usage.ru_stime], "peak_mb": peak_mb}


def race(contestants: list[Contestant], rounds: int, *, warm_up: bool = False) -> dict[str, Result]:
    """``rounds`` turns of each; with ``warm_up`` one turn more, first, that does not count."""
    results = {contestant.name: Result() for contestant in contestants}
    for turn in range(-1 if warm_up else 0, rounds):
        for contestant in contestants:
            measured = measure(contestant)
            print(f"  {contestant.name}: {statistics.median(measured['wall_s']):.4g} s", file=sys.stderr)
            if turn >= 0:
                results[contestant.name].add(measured)
    return results


def compared(results: dict[str, Result]) -> dict[str, dict[str, Any]]:
    """For each check that at least two contestants name: who found what."""
    found: dict[str, dict[str, Any]] = {}
    for name, result in results.items():
        for turn, checks in enumerate(result.checks):
            for key, value in checks.items():
                found.setdefault(key, {})[f"{name} ({turn + 1})"] = value
    several = {key: len({name.rpartition(" (")[0] for name in by_turn}) > 1 for key, by_turn in found.items()}
    return {key: found[key] for key in sorted(found) if several[key]}


def conclude(bench: str, corpus: dict[str, Any], results: dict[str, Result], goals: list[Goal], out: Path) -> None:
    """Writes and prints the figures; ends with exit code 1 where results differ."""
    checks = compared(results)
    wrong = [f"{key}: {by_turn}" for key, by_turn in checks.items() if len(set(by_turn.values())) > 1]
    figures = {
        "bench": bench,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "load": os.getloadavg()[1],
        "corpus": {key: value for key, value in corpus.items() if key not in ("folder", "generator")},
        "rows": [result.row(name) for name, result in results.items()],
        "goals": [goal.row() for goal in goals],
        "checked_equal": list(checks),
        "wrong": wrong,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(markdown(figures))
    if wrong:
        sys.exit("results differ:\n" + "\n".join(wrong))


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    system = f"{platform.system()} {platform.machine()}"
    return f"{os.cpu_count()} cores, {memory:.0f} GB, {system}, Python {platform.python_version()}"


def markdown(figures: dict[str, Any]) -> str:
    """The tables of one bench."""
    size = ", ".join(f"{value:,} {key.replace('_', ' ')}" for key, value in figures["corpus"].items())
    lines = [
        f"### {figures['bench']}",
        "",
        f"{figures['date']}; {figures['machine']}; load {figures['load']:.1f}. {size or 'No corpus'}.",
        "",
        "| | median | fastest - slowest | CPU | first call | peak memory |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in figures["rows"]:
        first = seconds(row["first_s"]) if row["first_s"] is not None else ""
        spread = f"{seconds(row['fastest_s'])} - {seconds(row['slowest_s'])}"
        cells = [row["name"], seconds(row["wall_s"]), spread, seconds(row["cpu_s"]), first, f"{row['peak_mb']:.0f} MB"]
        lines.append(f"| {' | '.join(cells)} |")
    if figures["goals"]:
        lines += ["", "| figure | value | target | holds |", "|---|---:|---:|---|"]
    for goal in figures["goals"]:
        holds = {None: "", True: "yes", False: "**no**"}[goal["holds"]]
        lines.append(f"| {goal['what']} | {goal['value']:.3g} | {goal['target'] or ''} | {holds} |")
    if figures["wrong"]:
        lines += ["", "**Results differ: these figures are void.**"]
    elif figures["checked_equal"]:
        lines += ["", f"Equal in every run: {', '.join(figures['checked_equal'])}."]
    return "\n".join(lines) + "\n"


def seconds(value: float) -> str:
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"
