"""The files of one run: the prediction file, `<out>.usage.jsonl` and `<out>.run.json`.

They are made of the store of answers and of what they held before, and each is replaced whole: a process that is killed
leaves a valid prediction file, and nothing that the next one would not write too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mabpl
from mabpl.annotate import usage
from mabpl.annotate.messages import CRF
from mabpl.benchmarks.micro_annotation.rows import Segment
from mabpl.errors import UsageError, unreadable
from mabpl.tables import files

Facts = dict[str, Any]

_LOOSE = ("max_uri_mb", "parse_mode")
"""What may change between two runs that write one file: answers stay good."""


@dataclass
class Output:
    """``facts``: what a report must state of the run, and what two runs must share to write one file.

    ``rows``: each finished clip's line; ``used``: its usage rows, and those of clips that are not finished yet.
    ``failed``: why the others are not, of those that were asked for.
    """

    path: Path
    facts: Facts
    rows: dict[str, bytes] = field(default_factory=dict)
    used: dict[str, list[usage.Row]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, facts: Facts, clip_ids: Iterable[str]) -> Output:
        """With what the files hold already; raises :class:`UsageError` where they are another run's.

        ``clip_ids``: those of the set.
        """
        output = cls(path, facts)
        if not path.exists():
            return output
        if not output.facts_path.exists():
            raise UsageError(f"{path} is there, and no run of this command made it", "give another --out")
        before = _load(output.facts_path)
        _require_same(path, before["run"], facts)
        known = set(clip_ids)
        for line in path.read_bytes().splitlines():
            clip_id = _decoded(path, line)["clip_id"]
            if clip_id not in known:
                raise UsageError(f"{path} holds clip {clip_id!r}, which is not of this set", "give another --out")
            output.rows[clip_id] = line
        if output.usage_path.exists():
            for line in output.usage_path.read_bytes().splitlines():
                row = _decoded(output.usage_path, line)
                output.used.setdefault(row["clip_id"], []).append(row)
        output.repairs = {clip: count for clip, count in before["repairs"].items() if clip in output.rows}
        return output

    @property
    def usage_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.usage.jsonl")

    @property
    def facts_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.run.json")

    def finish(self, clip_id: str, segments: Iterable[Segment], repairs: int) -> None:
        timeline = [{"start_s": s.start_s, "end_s": s.end_s, "label": s.label, "is_idle": s.is_idle} for s in segments]
        self.rows[clip_id] = json.dumps({"clip_id": clip_id, "segments": timeline}, ensure_ascii=False).encode()
        self.failed.pop(clip_id, None)
        if repairs:
            self.repairs[clip_id] = repairs

    def made(self) -> dict[str, Mapping[str, Any]]:
        """What earlier processes noted of the requests that they sent, by question."""
        rows = (row for of_clip in self.used.values() for row in of_clip)
        return {row["question"]: row for row in rows if row["media_bytes"] is not None}

    def rows_used(self) -> list[usage.Row]:
        return [row for _, rows in sorted(self.used.items()) for row in rows]

    def write(self, of_set: int) -> None:
        """Replaces the three files; ``of_set``: clips of the set. No prediction file while no clip is finished."""
        used = self.rows_used()
        times = sorted(row["time"] for row in used)
        document = {
            "mabpl": mabpl.__version__,
            "date": {"first": times[0], "last": times[-1]} if times else None,
            "run": self.facts,
            "clips": {"of_set": of_set, "finished": len(self.rows), "failed": dict(sorted(self.failed.items()))},
            "usage": usage.totals(used),
            "reencoded_windows": usage.reencoded(used, CRF),
            "repairs": dict(sorted(self.repairs.items())),
        }
        # the facts first: a prediction file without them would be nobody's
        files.write_json(self.facts_path, document)
        files.write_bytes(self.usage_path, b"".join(json.dumps(row).encode() + b"\n" for row in used))
        if self.rows:
            files.write_bytes(self.path, b"".join(self.rows[clip] + b"\n" for clip in sorted(self.rows)))


def seed_file(out: Path, seed: int, set_name: str) -> Path:
    """The prediction file of a seed: ``_seed<k>`` goes before the set's name or alias and the ending."""
    stem, ending = (out.name[: -len(out.suffix)], out.suffix) if out.suffix else (out.name, "")
    words = {set_name, set_name.split("_")[0], set_name.split("_")[-1]}
    head, dot, tail = stem.rpartition(".")
    if head and tail in words:
        return out.with_name(f"{head}_seed{seed}{dot}{tail}{ending}")
    return out.with_name(f"{stem}_seed{seed}{ending}")


def _load(path: Path) -> Facts:
    try:
        document = json.loads(path.read_bytes())
        return {"run": dict(document["run"]), "repairs": dict(document["repairs"])}
    except (OSError, ValueError, TypeError, KeyError):
        raise unreadable(path, "is not what a run wrote beside its prediction file", "give another --out") from None


def _decoded(path: Path, line: bytes) -> dict[str, Any]:
    try:
        row: dict[str, Any] = json.loads(line)
        row["clip_id"]
    except (ValueError, TypeError, KeyError):
        raise unreadable(path, "was changed since it was written", "give another --out; answers are kept") from None
    return row


def _require_same(path: Path, before: Facts, now: Facts) -> None:
    def shown(facts: Facts, name: str) -> str:
        return json.dumps(facts.get(name), ensure_ascii=False)

    differs = [
        f"{name} was {shown(before, name)}, is {shown(now, name)}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name) and name not in _LOOSE
    ]
    if (before.get("parse_mode"), now["parse_mode"]) == ("lenient", "strict"):
        differs.append("its answers were read leniently")
    if differs:
        raise UsageError(f"{path} is another run's: {'; '.join(differs)}", "give another --out")
