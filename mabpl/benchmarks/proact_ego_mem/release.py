"""The released files as tables, with every fault that was met as a table too.

Source: ProactEgoMem, annotation format proact-studio-v3. An open segment (no end) ends with its clip, and no segment
ends later; one whose end is not after its start then is kept in the table, marked as dropped, and not scored.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import polars as pl
from msgspec import UNSET

from mabpl.benchmarks.proact_ego_mem.checking import check_file, clamped_end
from mabpl.benchmarks.proact_ego_mem.parsing import parse
from mabpl.benchmarks.proact_ego_mem.rows import Released
from mabpl.benchmarks.proact_ego_mem.rules import release_problem
from mabpl.benchmarks.proact_ego_mem.tasks import resolve_task, track_of
from mabpl.errors import UsageError, unknown_name
from mabpl.reading.documents import read_document
from mabpl.reading.json_values import at_key, encodable
from mabpl.reading.names import expand_files
from mabpl.reading.problems import Problem, merge_problems, problems_table, require_valid
from mabpl.tables.proact_ego_mem import PROACT_CLIPS, PROACT_SEGMENTS, QA_ITEMS

LISTER = "mabpl proact validate"

CELL = ("track", "task", "split")
"""What a released file is one of."""


class ReleasedFile(NamedTuple):
    """A file as it was named, its SHA-256 (hex), and what it says of itself."""

    file: str
    sha256: str
    track: str
    task: str
    split: str
    schema_version: str
    kind: str
    rev: int
    ground_truth_released: bool


@dataclass(frozen=True)
class Release:
    """Released files: `proact_clips`, `proact_segments`, `qa_items` and `problems` as in the schemas of those names.

    Sorted by key, whatever the order of the files. ``all_clips`` and ``all_questions`` (track, task, split, clip_uid,
    and qa_id) hold those of every file that was read, whichever were selected. ``notes``: what a user should be told.
    """

    files: tuple[ReleasedFile, ...]
    clips: pl.DataFrame
    segments: pl.DataFrame
    qa_items: pl.DataFrame
    problems: pl.DataFrame
    all_clips: pl.DataFrame
    all_questions: pl.DataFrame
    notes: tuple[str, ...] = ()

    def require_valid(self) -> None:
        """Raises :class:`~mabpl.errors.InvalidTimelines` where a file breaks a rule."""
        require_valid(self.problems, LISTER)

    def require_released(self, splits: Collection[str], what: str) -> None:
        """Raises :class:`UsageError` where the annotations of one of ``splits`` are withheld: ``what`` is refused."""
        withheld = [one for one in self.files if one.split in splits and not one.ground_truth_released]
        if withheld:
            first = withheld[0]
            raise UsageError(
                f"{what} cannot be scored on the {first.split} split: its annotations are withheld "
                f"({first.file}: ground_truth_released is false)",
                "score the dev split (--split dev); `mabpl proact validate` still checks a submission for this one",
            )

    def select(
        self,
        *,
        tracks: Collection[str] | None = None,
        tasks: Collection[str] | None = None,
        splits: Collection[str] | None = None,
    ) -> Release:
        """Only these tracks, tasks (short names too) and splits; raises :class:`UsageError` for unknown names."""
        wanted = {
            "track": None if tracks is None else set(tracks),
            "task": None if tasks is None else {resolve_task(task) for task in tasks},
            "split": None if splits is None else set(splits),
        }
        keep = pl.lit(True)
        for name, chosen in wanted.items():
            for value in sorted(chosen or ()):
                known = sorted({str(getattr(one, name)) for one in self.files})
                if value not in known:
                    raise unknown_name(name, value, known)
            if chosen is not None:
                keep = keep & pl.col(name).is_in(sorted(chosen))
        files = tuple(one for one in self.files if all(c is None or getattr(one, n) in c for n, c in wanted.items()))
        if not files:
            raise UsageError("no released file is of this track, task and split", self._told_cells())
        return replace(
            self,
            files=files,
            clips=self.clips.filter(keep),
            segments=self.segments.filter(keep),
            qa_items=self.qa_items.filter(keep),
        )

    def provenance(self) -> list[dict[str, Any]]:
        """What identifies the files in a result: no path, but name, SHA-256, and what they say of themselves."""
        rows = [{**one._asdict(), "file": os.path.basename(one.file)} for one in self.files]  # noqa: PTH119
        return sorted(rows, key=lambda row: (*(row[name] for name in CELL), row["sha256"]))

    def _told_cells(self) -> str:
        return "there are: " + "; ".join(sorted({f"{one.track}, {one.task}, {one.split}" for one in self.files}))


def read_release(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, track: str | None = None
) -> Release:
    """Released files (JSON, plain or gzip), folders of them or globs; ``-`` is standard input.

    ``track``: of all the files; by default the name of each file's folder less `_dev` or `_test`. JSON of another shape
    is passed over in a folder (and named in ``notes``). Never raises for a fault of the content: see ``problems``.
    Raises :class:`InputError` for what cannot be read at all.
    """
    arguments = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    named = {os.fspath(path) for path in arguments}
    problems: list[Problem] = []
    notes: list[str] = []
    read: list[tuple[ReleasedFile, Released]] = []
    for path in expand_files(arguments, (".json", ".json.gz"), lambda _: True, "released file"):
        one = _read_file(path, track, path in named, problems, notes)
        if one is not None:
            read.append(one)
    problems += _across(read)
    read.sort(key=lambda entry: (*(getattr(entry[0], name) for name in CELL), entry[0].file))
    clips, segments, questions = _clips(read), _segments(read), _questions(read)
    return Release(
        files=tuple(file for file, _ in read),
        clips=clips,
        segments=segments,
        qa_items=questions,
        problems=merge_problems(problems_table(problems)),
        all_clips=clips.select(*CELL, "clip_uid"),
        all_questions=questions.select(*CELL, "clip_uid", "qa_id"),
        notes=tuple(notes),
    )


def _read_file(
    path: str, track: str | None, named: bool, problems: list[Problem], notes: list[str]
) -> tuple[ReleasedFile, Released] | None:
    document = read_document(path)
    file = encodable(path)
    parsed = parse(document.data)
    if parsed.foreign and not named:
        notes.append(f"{file} is passed over: it is JSON of another shape")
        return None
    if document.marked:
        problems.append(release_problem("byte-order-mark", file, None, "starts with a byte order mark"))
    problems += [
        release_problem(fault.rule, file, None, fault.message, clip_id=clip, field=fault.field, hint=fault.hint)
        for clip, fault in parsed.faults
    ]
    doc = parsed.doc
    if doc is None:
        return None
    problems += [
        release_problem(found.rule, file, None, found.message, clip_id=found.clip_uid, field=found.field)
        for found in check_file(doc, parsed.damaged, parsed.orphans)
    ]
    folder_track, folder_split = track_of(path)
    if folder_split not in (None, doc.split):
        message = f"is {doc.split!r}, but the file lies in a folder of the {folder_split} split"
        problems.append(release_problem("split-of-folder", file, None, message, field="split"))
    head = (doc.task, doc.split, doc.schema_version, doc.kind, doc.rev, doc.ground_truth_released)
    return ReleasedFile(file, document.sha256, track or encodable(folder_track), *head), doc


def _across(read: list[tuple[ReleasedFile, Released]]) -> list[Problem]:
    """What is twice over the files: questions, clips of one track and task; clips in two splits, or two windows."""
    found = []
    clips: dict[tuple[str, str, str], ReleasedFile] = {}
    splits: dict[str, ReleasedFile] = {}
    questions: dict[str, tuple[str, str]] = {}
    windows: dict[str, tuple[str, tuple[str, float, float, float]]] = {}
    for file, doc in sorted(read, key=lambda entry: entry[0].file):
        for clip_uid, clip in doc.clips.items():
            other = clips.setdefault((file.track, file.task, clip_uid), file)
            if other is file:
                first = splits.setdefault(clip_uid, file)
                other = first if first.split != file.split else file
            window = (clip.video_uid, clip.abs_start_sec, clip.abs_end_sec, clip.duration_sec)
            if windows.setdefault(clip_uid, (file.file, window))[1] != window:
                message = f"has another video, window or duration than in {windows[clip_uid][0]}"
                found.append(_twice("clip-differs", file.file, clip_uid, at_key("clips", clip_uid), message))
            if other is not file:
                message = f"is in {other.file} too ({other.track}, {other.task}, {other.split})"
                found.append(_twice("clip-in-two-files", file.file, clip_uid, at_key("clips", clip_uid), message))
                continue
            for qa_id in clip.qa_items:
                where = questions.setdefault(qa_id, (file.file, clip_uid))
                if where != (file.file, clip_uid):
                    path = at_key(f"{at_key('clips', clip_uid)}.qa_items", qa_id)
                    message = f"is in {where[0]}, clip {where[1]} too"
                    found.append(_twice("qa-in-two-files", file.file, clip_uid, path, message))
    return found


def _twice(rule: str, file: str, clip_uid: str, field: str, message: str) -> Problem:
    return release_problem(rule, file, None, message, clip_id=clip_uid, field=field)


def _clips(read: list[tuple[ReleasedFile, Released]]) -> pl.DataFrame:
    rows = []
    for file, doc in read:
        lasting = _lasting(doc)
        for key, clip in doc.clips.items():
            known = doc.ground_truth_released and clip.sample_ids is not UNSET
            listed = list(dict.fromkeys(clip.sample_ids or ())) if known else []
            rows.append(
                (
                    file.track, doc.task, doc.split, key, clip.video_uid,
                    clip.abs_start_sec, clip.abs_end_sec, clip.duration_sec,
                    not listed if known else None,
                    len(listed) if known else None,
                    sum(sample_id in lasting for sample_id in listed) if known else None,
                    len(clip.qa_items), file.file,
                )
            )  # fmt: skip
    return pl.DataFrame(rows, schema=PROACT_CLIPS.schema, orient="row").sort(PROACT_CLIPS.key)


def _lasting(doc: Released) -> set[str]:
    """The samples that last once they are clamped."""
    return {
        key
        for video in doc.videos.values()
        for key, sample in video.samples.items()
        if (clip := doc.clips.get(sample.clip.clip_uid)) is not None
        and clamped_end(sample.clip.local_end_sec, clip.duration_sec) > sample.clip.local_start_sec
    }


def _segments(read: list[tuple[ReleasedFile, Released]]) -> pl.DataFrame:
    rows = []
    for file, doc in read:
        for video in doc.videos.values():
            for key, sample in video.samples.items():
                clip = doc.clips.get(sample.clip.clip_uid)
                if clip is None:
                    continue
                start_s, end_s = sample.clip.local_start_sec, sample.clip.local_end_sec
                end = clamped_end(end_s, clip.duration_sec)
                rows.append(
                    (
                        file.track, doc.task, doc.split, sample.clip.clip_uid, key, sample.object, sample.note,
                        start_s, end, end_s is None, end <= start_s,
                    )
                )  # fmt: skip
    return pl.DataFrame(rows, schema=PROACT_SEGMENTS.schema, orient="row").sort(PROACT_SEGMENTS.key)


def _questions(read: list[tuple[ReleasedFile, Released]]) -> pl.DataFrame:
    rows = [
        (
            file.track, doc.task, doc.split, clip_uid, key, qa.question,
            [choice.letter for choice in qa.answer_choices], [choice.text for choice in qa.answer_choices],
            None if qa.correct_letter is UNSET else qa.correct_letter,
        )
        for file, doc in read
        for clip_uid, clip in doc.clips.items()
        for key, qa in clip.qa_items.items()
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=QA_ITEMS.schema, orient="row").sort(QA_ITEMS.key)
