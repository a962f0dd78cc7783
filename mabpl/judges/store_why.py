"""Why a question finds no verdict: which stored question is nearest, and which part of it differs."""

from __future__ import annotations

import difflib
import json
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mabpl.judges.store_reading import canonical, setting_of
from mabpl.judges.types import Question

if TYPE_CHECKING:
    from mabpl.judges.store import Store

PARTS = ("kind", "label", "primary", "also", "instruction", "prompt", "model", "route", "setting", "seed")
"""What a question is made of. ``prompt``: hash of the prompt's text and layout; ``setting``: the rest of what is sent
(temperature, limits, thinking, ...)."""

_CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class Why:
    """``state``: known (it has a verdict), failed (answered without one), claimed, asked (no answer yet) or absent.

    ``nearest``: the key of the stored question that differs in the fewest parts, null in an empty store and itself
    where it is stored. ``differs``: part -> (as stored, as asked); of ``setting`` only the fields that differ. Absent
    and no difference: another version of this program named the question.
    """

    state: str
    nearest: str | None
    differs: dict[str, tuple[Any, Any]]


def why(store: Store, question: Question) -> Why:
    """See :meth:`Store.why`."""
    if question.key in store.known([question.key]):
        return Why("known", question.key, {})
    asked = _asked(question)
    with store.commits.reading() as db:
        if db.execute("SELECT 1 FROM questions WHERE key = ?", (question.key,)).fetchone():
            return Why(_state(db, question.key), question.key, {})
        rows = db.execute(_NEAREST, (*asked.values(), _CANDIDATES)).fetchall()
    if not rows:
        return Why("absent", None, {})
    compared = [(key, _differences(dict(zip(PARTS, stored, strict=True)), asked)) for key, _, *stored in rows]
    key, differs = min(compared, key=lambda one: (len(one[1]), -_likeness(one[1])))
    return Why("absent", key, {part: _shown(part, *values) for part, values in differs.items()})


_NEAREST = """
    SELECT q.key, (r.kind IS NOT ?) + (r.predicted_label IS NOT ?) + (r.primary_label IS NOT ?) + (r.also IS NOT ?)
        + (r.instruction IS NOT ?) + (r.prompt_hash IS NOT ?) + (q.judge IS NOT ?) + (q.route IS NOT ?)
        + (t.text IS NOT ?) + (q.seed IS NOT ?) AS distance,
        r.kind, r.predicted_label, r.primary_label, r.also, r.instruction, r.prompt_hash, q.judge, q.route, t.text,
        q.seed
    FROM questions q JOIN requests r USING (request) LEFT JOIN texts t ON t.hash = q.setting
    ORDER BY distance, q.key LIMIT ?
"""


def _asked(question: Question) -> dict[str, Any]:
    """The parts of ``question`` as the store keeps them."""
    r = question.request
    labels = (r.kind, r.predicted_label, r.primary, canonical(r.also), r.instruction, r.prompt_hash)
    rest = (question.judge, question.route, setting_of(question), question.seed)
    return dict(zip(PARTS, (*labels, *rest), strict=True))


def _state(db: sqlite3.Connection, key: str) -> str:
    if db.execute("SELECT 1 FROM claims WHERE key = ? AND state != 'failed'", (key,)).fetchone():
        return "claimed"
    return "failed" if db.execute("SELECT 1 FROM answers WHERE key = ?", (key,)).fetchone() else "asked"


def _differences(stored: dict[str, Any], asked: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {part: (stored[part], asked[part]) for part in PARTS if stored[part] != asked[part]}


def _likeness(differs: dict[str, tuple[Any, Any]]) -> float:
    """How alike the texts are that differ."""
    return sum(difflib.SequenceMatcher(None, str(old), str(new)).ratio() for old, new in differs.values())


def _shown(part: str, stored: Any, asked: Any) -> tuple[Any, Any]:
    if part not in ("also", "setting") or stored is None:
        return stored, asked
    old, new = json.loads(stored), json.loads(asked)
    if part == "also":
        return tuple(old), tuple(new)
    names = [name for name in sorted(old.keys() | new.keys()) if old.get(name, ...) != new.get(name, ...)]
    return {n: old[n] for n in names if n in old}, {n: new[n] for n in names if n in new}
