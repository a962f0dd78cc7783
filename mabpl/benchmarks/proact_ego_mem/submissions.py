"""Submissions: what models said about clips and how they answered questions, checked against the released files.

A submission is JSON lines: `{"clip_uid", "mentions": [{"time_s", "text"}]}` for every clip, `{"clip_uid", "error"}` for
one that failed, `{"qa_id", "letter"}` for the questions; in one file or in two.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import polars as pl
from msgspec import UNSET

from mabpl.benchmarks.proact_ego_mem.checking import TOLERANCE_S
from mabpl.benchmarks.proact_ego_mem.release import CELL, LISTER, Release
from mabpl.benchmarks.proact_ego_mem.rows import AnyRow
from mabpl.benchmarks.proact_ego_mem.rules import submission_problem
from mabpl.benchmarks.proact_ego_mem.tasks import SHORT_TASKS
from mabpl.reading.json_values import Fault, Reader, encodable, shown
from mabpl.reading.lines import BYTE_ORDER_MARK, LONGEST_LINE, Line, Lines
from mabpl.reading.names import expand_files, name_runs
from mabpl.reading.problems import Problem, merge_problems, problems_table, require_valid
from mabpl.tables.proact_ego_mem import MENTIONS, QA_ANSWERS

Part = Literal["mentions", "answers"]
Cell = tuple[str, str, str]

_SUGGESTIONS = 20
_RUNS = {"run": pl.String, "file": pl.String, "sha256": pl.String}
_PRESENT = {"run": pl.String, **dict.fromkeys(CELL, pl.String), "clip_uid": pl.String}
_READER = Reader(AnyRow)


@dataclass(frozen=True)
class Submissions:
    """`mentions`, `qa_answers` and `problems` as in the schemas of those names.

    ``runs`` (run, file, sha256): one a file. ``present`` (run, track, task, split, clip_uid): the clips of each run;
    one that was silent is only there. ``splits``: those that the runs speak of. Sorted by key, whatever the order of
    files and lines.
    """

    runs: pl.DataFrame
    mentions: pl.DataFrame
    qa_answers: pl.DataFrame
    present: pl.DataFrame
    problems: pl.DataFrame
    splits: frozenset[str]

    def require_valid(self) -> None:
        """Raises :class:`~mabpl.errors.InvalidTimelines` where a submission breaks a rule."""
        require_valid(self.problems, LISTER)

    def select(self, release: Release) -> Submissions:
        """Only what is about the clips and questions that ``release`` holds."""
        clips = release.clips.select(*CELL, "clip_uid")
        return replace(
            self,
            mentions=self.mentions.join(clips.drop("split"), on=["track", "task", "clip_uid"], how="semi"),
            qa_answers=self.qa_answers.join(release.qa_items, on="qa_id", how="semi"),
            present=self.present.join(clips, on=[*CELL, "clip_uid"], how="semi"),
        )


class _Known:
    """What the released files hold, by id."""

    def __init__(self, release: Release) -> None:
        self.cells: dict[str, list[Cell]] = {}
        for track, task, split, clip_uid in release.all_clips.iter_rows():
            self.cells.setdefault(clip_uid, []).append((track, task, split))
        self.durations: dict[tuple[Cell, str], float] = {
            ((track, task, split), clip_uid): duration_s
            for track, task, split, clip_uid, duration_s in release.clips.select(
                *CELL, "clip_uid", "duration_s"
            ).iter_rows()
        }
        self.questions: dict[str, tuple[Cell, str]] = {
            qa_id: ((track, task, split), clip_uid)
            for track, task, split, clip_uid, qa_id in release.all_questions.iter_rows()
        }
        self.letters: dict[str, tuple[str, ...]] = {
            qa_id: tuple(letters) for qa_id, letters in release.qa_items.select("qa_id", "letters").iter_rows()
        }


class _Clip(NamedTuple):
    line: int
    cell: Cell
    mentions: list[tuple[float, str]]


class _File:
    """One submission as it is read: clips and answers by id, and what is wrong."""

    def __init__(self, file: str, known: _Known, parts: Collection[Part] | None) -> None:
        self.file = file
        self.known = known
        self.parts = parts
        self.sha256 = ""
        self.problems: list[Problem] = []
        self.clips: dict[tuple[Cell, str], _Clip] = {}
        self.answers: dict[str, tuple[int, str | None]] = {}
        self.repeated: set[str | tuple[Cell, str]] = set()
        self.faulty: set[tuple[Cell, str]] = set()
        self.rows_of: set[Part] = set()

    def tell(self, rule: str, line: int | None, message: str, **where: Any) -> None:
        self.problems.append(submission_problem(rule, self.file, line, message, **where))

    def read(self, path: str) -> None:
        lines = Lines(path)
        empty = True
        for line in lines:
            data = line.data
            if data.startswith(BYTE_ORDER_MARK):
                self.tell("byte-order-mark", line.number, "starts with a byte order mark")
                data = data.removeprefix(BYTE_ORDER_MARK)
            if line.cut:
                self.tell("line-too-long", line.number, f"is longer than {LONGEST_LINE // 2**20} MiB")
            elif not data.strip():
                self.tell("blank-line", line.number, "is blank")
            else:
                empty = False
                self._line(line, data)
        if empty and self.parts is None:
            self.tell("no-lines", None, "holds no line")
        self.sha256 = lines.sha256
        self.answers = {qa_id: answer for qa_id, answer in self.answers.items() if qa_id not in self.repeated}
        self.clips = {key: clip for key, clip in self.clips.items() if key not in self.repeated | self.faulty}

    def _line(self, line: Line, data: bytes) -> None:
        read = _READER.read(data)
        raw = read.raw if read.value is None else None
        given = read.value if raw is None else None
        keys = {name for name in ("clip_uid", "qa_id") if _given(given, raw, name)}
        if len(keys) != 1 and not (read.faults and raw is None) and (given or isinstance(raw, dict)):
            self.tell("row-kind", line.number, f"has {' and '.join(sorted(keys)) or 'neither clip_uid nor qa_id'}")
            return
        part: Part = "answers" if keys == {"qa_id"} else "mentions"
        if keys:
            self.rows_of.add(part)
            if self.parts is not None and part not in self.parts:
                return
        if read.value is None:
            self._faults(line, read.faults, raw)
        elif part == "answers":
            self._answer(line.number, read.value)
        else:
            self._clip(line.number, read.value)

    def _faults(self, line: Line, faults: list[Fault], raw: Any) -> None:
        """The faults of a row's JSON; its clip is there, though not to be used."""
        row = raw if isinstance(raw, dict) else {}
        clip_uid = row.get("clip_uid")
        clip = encodable(clip_uid) if isinstance(clip_uid, str) else None
        for fault in faults:
            cut_off = fault.rule == "invalid-json" and not line.ended
            hint = "the file ends inside this line: it was cut off; write it again" if cut_off else fault.hint
            self.tell(fault.rule, line.number, fault.message, clip_id=clip, field=fault.field, hint=hint)
        if clip in self.known.cells:
            self.faulty |= {(cell, clip) for cell in self.known.cells[clip]}

    def _answer(self, line: int, row: AnyRow) -> None:
        qa_id = str(row.qa_id)
        known = self.known.questions.get(qa_id)
        if known is None:
            hint = _near(qa_id, self.known.questions, self.problems)
            self.tell("unknown-qa", line, f"{qa_id!r} is no question of the released files", field="qa_id", hint=hint)
            return
        _, clip = known
        if qa_id in self.answers:
            message = f"{qa_id!r} is on line {self.answers[qa_id][0]} too"
            self.tell("duplicate-qa", line, message, clip_id=clip, field="qa_id")
            self.repeated.add(qa_id)
            return
        letters = self.known.letters.get(qa_id)
        letter = None if row.letter is None or row.letter is UNSET else row.letter
        if letters is not None and letter not in letters:
            said = "is missing" if row.letter is UNSET else f"is {shown(letter)}"
            rule = "missing-answer" if letter is None else "illegal-letter"
            self.tell(rule, line, f"{said}, expected one of {', '.join(letters)}", clip_id=clip, field="letter")
        if not isinstance(letter, str | None):
            letter = json.dumps(letter)
        self.answers[qa_id] = line, letter

    def _clip(self, line: int, row: AnyRow) -> None:
        clip_uid = str(row.clip_uid)
        cell = self._cell(line, clip_uid, row)
        if cell is None:
            return
        key = cell, clip_uid
        if key in self.clips:
            message = f"is on line {self.clips[key].line} too"
            self.tell("duplicate-clip", line, message, clip_id=clip_uid, field="clip_uid")
            self.repeated.add(key)
            return
        mentions = [] if row.mentions is UNSET else row.mentions
        self.clips[key] = _Clip(line, cell, [(mention.time_s, mention.text) for mention in mentions])
        before = len(self.problems)
        if row.error is not UNSET and row.error is not None:
            self.tell("failed-clip", line, f"failed: {str(row.error)[:200]}", clip_id=clip_uid, field="error")
        elif row.mentions is UNSET:
            self.tell("missing-field", line, "is missing", clip_id=clip_uid, field="mentions")
        duration_s = self.known.durations.get(key)
        for index, mention in enumerate(mentions):
            at = f"mentions[{index}]"
            if not mention.text.strip():
                self.tell("empty-text", line, "is blank", clip_id=clip_uid, field=f"{at}.text")
            if duration_s is not None and not 0 <= mention.time_s <= duration_s + TOLERANCE_S:
                message = f"is {mention.time_s}, outside the clip of {duration_s} s"
                self.tell("outside-clip", line, message, clip_id=clip_uid, field=f"{at}.time_s")
        if len(self.problems) > before:
            self.faulty.add(key)

    def _cell(self, line: int, clip_uid: str, row: AnyRow) -> Cell | None:
        """The released file that the row's clip is of; tells where it is none, or one of several."""
        every = self.known.cells.get(clip_uid, [])
        if not every:
            hint = _near(clip_uid, self.known.cells, self.problems)
            message = "is no clip of the released files"
            self.tell("unknown-clip", line, message, clip_id=clip_uid, field="clip_uid", hint=hint)
            return None
        task = UNSET if row.task is UNSET else SHORT_TASKS.get(row.task.upper(), row.task)
        fits = [cell for cell in every if row.track in (UNSET, cell[0]) and task in (UNSET, cell[1])]
        if len(fits) == 1:
            return fits[0]
        rule = "ambiguous-clip" if fits else "unknown-clip"
        message = f"is a clip of {'; '.join(f'{track}, {task}' for track, task, _ in sorted(every))}"
        self.tell(rule, line, message, clip_id=clip_uid, field="task")
        return None

    def splits(self) -> set[str]:
        return {cell[2] for cell, _ in {*self.clips, *self.faulty}} | {
            self.known.questions[qa_id][0][2] for qa_id in self.answers
        }

    def absent(self, release: Release) -> None:
        """Tells what the file lacks of the splits that it speaks of, among the files of ``release``."""
        parts = self.rows_of if self.parts is None else set(self.parts)
        if "mentions" in parts and "mentions" not in self.rows_of:
            self.tell("no-mentions", None, "says nothing of any clip")
            parts -= {"mentions"}
        if "answers" in parts and "answers" not in self.rows_of:
            self.tell("no-answers", None, "answers no question")
            parts -= {"answers"}
        splits = self.splits()
        there = self.clips.keys() | self.faulty | self.repeated
        if "mentions" in parts:
            for cell, clip_uid in self.known.durations:
                if cell[2] in splits and (cell, clip_uid) not in there:
                    told = f"is missing ({cell[0]}, {cell[1]}, {cell[2]})"
                    self.tell("missing-clip", None, told, clip_id=clip_uid)
        if "answers" in parts:
            for qa_id in self.known.letters:
                cell, clip_uid = self.known.questions[qa_id]
                if cell[2] in splits and qa_id not in self.answers and qa_id not in self.repeated:
                    self.tell("missing-answer", None, f"question {qa_id} has no answer", clip_id=clip_uid)


def read_submissions(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    release: Release,
    *,
    parts: Collection[Part] | None = None,
) -> Submissions:
    """Submissions (JSON lines, plain or gzip), folders of them or globs; ``-`` is standard input.

    Checked against ``release``: every clip of the splits that a file speaks of must be there (of the files that were
    selected), an unanswered question is a warning. What is about other released files that were read is left alone.
    ``parts``: only these lines are read, and must be there; by default whatever a file holds. A clip with a fault is
    left out as a whole. Never raises for a fault of the content: see ``problems``.
    """
    arguments = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    known = _Known(release)
    files = []
    for path in expand_files(arguments, (".jsonl", ".jsonl.gz"), _may_be_submission, "submission"):
        one = _File(encodable(path), known, parts)
        one.read(path)
        one.absent(release)
        files.append(one)
    names = [name.run for name in name_runs([(one.file, "") for one in files], ())]
    named = sorted(zip(names, files, strict=True), key=lambda entry: entry[0])
    mentions = [
        (run, *cell[:2], clip_uid, position, time_s, text)
        for run, one in named
        for (cell, clip_uid), clip in sorted(one.clips.items())
        for position, (time_s, text) in enumerate(clip.mentions)
    ]
    answers = [(run, qa_id, letter) for run, one in named for qa_id, (_, letter) in sorted(one.answers.items())]
    present = [(run, *cell, clip_uid) for run, one in named for cell, clip_uid in sorted(one.clips)]
    found = Submissions(
        runs=pl.DataFrame([(run, one.file, one.sha256) for run, one in named], schema=_RUNS, orient="row"),
        mentions=pl.DataFrame(mentions, schema=MENTIONS.schema, orient="row").sort(MENTIONS.key),
        qa_answers=pl.DataFrame(answers, schema=QA_ANSWERS.schema, orient="row"),
        present=pl.DataFrame(present, schema=_PRESENT, orient="row"),
        problems=merge_problems(problems_table(problem for one in files for problem in one.problems)),
        splits=frozenset(split for one in files for split in one.splits()),
    )
    return found.select(release)


def _may_be_submission(name: str) -> bool:
    return not name.endswith((".usage.jsonl", ".usage.jsonl.gz"))


def _given(row: AnyRow | None, raw: Any, name: str) -> bool:
    if row is not None:
        return getattr(row, name) is not UNSET
    return isinstance(raw, dict) and name in raw


def _near(name: str, known: Iterable[str], told: list[Problem]) -> str:
    """A hint at the nearest known name, for the first unknown ones of a file."""
    if sum(problem.rule.startswith("unknown") for problem in told) >= _SUGGESTIONS:
        return ""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else ""
