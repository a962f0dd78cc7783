"""The names of tasks and tracks."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from mabpl.benchmarks.proact_ego_mem.rows import Task
from mabpl.errors import unknown_name
from mabpl.reading.names import STDIN

TASKS: tuple[str, ...] = get_args(Task)
SHORT_TASKS = dict(zip(("IC", "ST", "LT"), TASKS, strict=True))
"""The paper's short names."""

SPLITS = ("dev", "test")


def resolve_task(name: str) -> str:
    """The task that ``name`` (a task or its short name, in any case) means; :class:`UsageError` for an unknown one."""
    found = SHORT_TASKS.get(name.upper(), name)
    if found not in TASKS:
        raise unknown_name("task", name, [*TASKS, *SHORT_TASKS])
    return found


def short_task(task: str) -> str:
    return next(short for short, name in SHORT_TASKS.items() if name == task)


def track_of(path: str) -> tuple[str, str | None]:
    """The track and split that the name of the file's folder tells: its name less `_dev` or `_test`.

    The split is None where the folder's name has neither ending. Standard input is of the track stdin.
    """
    folder = STDIN if path == STDIN else Path(path).absolute().parent.name
    if folder == STDIN:
        return "stdin", None
    split = next((split for split in SPLITS if folder.endswith(f"_{split}") and folder != f"_{split}"), None)
    return folder.removesuffix(f"_{split}"), split
