"""The embedded judge, ``embedded-slots``: labels compared slot by slot, without a model, a key or a network.

It is there to try things with. It asks what MicroAnnotationBench's judges ask (the same action, object and hands; for
Joint F1 the same action, main object and source or destination) of two labels read as slots (:mod:`mabpl.judges.slots`)
with tables of words (:mod:`mabpl.judges.lexicon`). Its scores are not comparable with published ones. How far it agrees
with a language model's verdicts, and what of it was never checked, stands in ``mabpl/data/slots/README.md``.

A pair of clauses gets a likeness of 0-1 from its verbs and things, lowered where both name another place, tool or hand.
The score of two labels is the F-measure of the human clauses that the prediction covers and of the predicted clauses
that PRIMARY or ALSO explain. A mention in free text names an object if a noun of it is like the object. The same labels
and the same version give the same verdict in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mabpl.judges.lexicon import OPPOSITE, nouns_alike, verbs_alike, words
from mabpl.judges.slots import Clause, Label, Thing, read_label, things_in

EMBEDDED = "embedded-slots/1"
"""The judge's name in every verdict; its number is raised whenever a verdict may change."""

EQUIVALENT = 75.0
"""Least score of two labels that describe the same action."""
ACCEPTED = 50.0
"""Least score, hands apart, of a label that is accepted for Joint F1."""
NAMED = 0.7
"""Least likeness of a noun of a mention to the object that it is taken to name."""

BOTH, THING_ONLY, VERB_ONLY, UNDONE = 0.75, 0.15, 0.10, 0.05
"""What a clause earns: for verb and thing together, for each alone, for the thing where the verb is the opposite."""

NO_THING = 0.4
GENERIC = 0.5
OTHER_COLOUR = 0.4
OTHER_KIND = 0.6
PART = 0.9
"""How alike things are: one is not named; one is an ``object``; other colours; other kinds (``inner tube``, ``test
tube``); the one is a slice or the like of the other."""

ATTRIBUTE, TOOL, PLACE, OTHER_PLACE = 0.85, 0.75, 0.85, 0.2
"""How much a thing counts that is not acted upon: what the thing acted upon contains, the tool, where it happens."""

CONFLICT = 0.5
PLACE_CONFLICT, TOOL_CONFLICT, HAND_CONFLICT, BOTH_HANDS_CONFLICT = 0.65, 0.85, 0.6, 0.8
"""Places, tools less alike than ``CONFLICT`` are others: what is left of a likeness then, and where hands differ."""

HOLDING = 0.25
"""The weight of a clause that only holds something, beside 1 of any other."""

THROUGH = frozenset({
    "open", "close", "pour", "fill", "wash", "rinse", "wipe", "scoop", "stir", "spread", "spray", "turn_on", "turn_off",
    "screw", "unscrew", "cut", "water", "season", "squeeze", "sweep",
})  # fmt: skip
"""Actions that may be named after the place where they happen: ``pour the cup`` for ``pour water from the cup``."""

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


def judge_pa(
    predicted: Sequence[str], primary: Sequence[str], also: Sequence[Sequence[str]]
) -> tuple[Floats, Booleans]:
    """For each pair of labels a score of 0-100 and whether they are equivalent: float64 (n,), bool (n,).

    ``also`` holds the labels that a prediction may describe too without penalty. Equal labels score 100; a label that
    names no action (idle, a placeholder, text that is not understood) scores 0 against any other. Labels that name
    another hand, source or destination are never equivalent.
    """
    found = [
        compare(read_label(label), read_label(human), [read_label(other) for other in others])
        for label, human, others in zip(predicted, primary, also, strict=True)
    ]
    scores = np.array([likeness.score for likeness in found], dtype=np.float64)
    agree = np.array([likeness.agrees for likeness in found], dtype=np.bool_)
    return scores, agree & (scores >= EQUIVALENT)


def judge_joint(predicted: Sequence[str], human: Sequence[str]) -> Booleans:
    """Whether each predicted label has the human one's action, main object and, if both name one, place: bool (n,)."""
    found = [
        compare(read_label(label), read_label(other), hands=False)
        for label, other in zip(predicted, human, strict=True)
    ]
    return np.array([likeness.agrees and likeness.score >= ACCEPTED for likeness in found], dtype=np.bool_)


def judge_object(mentions: Sequence[str], objects: Sequence[str]) -> Booleans:
    """Whether each mention, in free text, names its object or something very like it: bool (n,).

    Every noun of a mention counts, as this judge does not tell what a sentence is about from what it names in passing.
    """
    found = [_names(mention, thing) for mention, thing in zip(mentions, objects, strict=True)]
    return np.array(found, dtype=np.bool_)


def _names(mention: str, name: str) -> bool:
    said, wanted = read_label(mention).words, read_label(name).words
    if wanted and f" {wanted} " in f" {said} ":
        return True
    clauses = read_label(f"the {name}").clauses
    things = [thing for clause in clauses[:1] for thing in clause.things[:1]] or list(things_in(name)[-1:])
    return any(_things_alike(thing, one) >= NAMED for thing in things for one in things_in(mention))


class Likeness(NamedTuple):
    """``score`` is 0-1 of clauses, 0-100 of labels; ``agrees`` is false where a place or a hand is contradicted."""

    score: float
    agrees: bool


def compare(predicted: Label, primary: Label, also: Iterable[Label] = (), *, hands: bool = True) -> Likeness:
    """The likeness of two labels; of PRIMARY and ``predicted`` either may come first where ``also`` is empty."""
    if predicted.words == primary.words:
        return Likeness(100.0, True)
    if not predicted.clauses or not primary.clauses:
        return Likeness(0.0, True)
    table = [[_clauses_alike(mine, other, hands) for other in primary.clauses] for mine in predicted.clauses]
    others = [clause for label in also for clause in label.clauses]
    covered = [max(column) for column in zip(*table, strict=True)]
    explained = [
        max([*row, *(_clauses_alike(mine, other, hands) for other in others)])
        for mine, row in zip(predicted.clauses, table, strict=True)
    ]
    recall, precision = _weighted(primary.clauses, covered), _weighted(predicted.clauses, explained)
    if recall * precision == 0:
        return Likeness(0.0, True)
    agrees = all(likeness.agrees for likeness in (*covered, *explained))
    return Likeness(200 * recall * precision / (recall + precision), agrees)


def _weighted(clauses: tuple[Clause, ...], found: list[Likeness]) -> float:
    weights = [HOLDING if "hold" in clause.classes else 1.0 for clause in clauses]
    return sum(weight * one.score for weight, one in zip(weights, found, strict=True)) / sum(weights)


def _clauses_alike(one: Clause, other: Clause, hands: bool) -> Likeness:
    through = bool((one.classes | other.classes) & THROUGH)
    things = _objects_alike(one, other, through)
    verbs = max((verbs_alike(mine, theirs) for mine, theirs in product(one.verbs, other.verbs)), default=0.0)
    score = UNDONE * things if verbs == OPPOSITE else BOTH * verbs * things + THING_ONLY * things + VERB_ONLY * verbs
    agrees = True
    for mine, theirs in ((one.sources, other.sources), (one.goals, other.goals)):
        if _conflict(mine, theirs):
            score, agrees = score * PLACE_CONFLICT, False
    if _conflict(one.tools, other.tools):
        score *= TOOL_CONFLICT
    if hands and one.hands and other.hands and one.hands != other.hands:
        score *= BOTH_HANDS_CONFLICT if "both" in (one.hands, other.hands) else HAND_CONFLICT
        agrees = False
    return Likeness(score, agrees)


def _conflict(one: tuple[Thing, ...], other: tuple[Thing, ...]) -> bool:
    """Whether both are named and no two of them may be the same."""
    return bool(one and other) and max(_things_alike(*pair) for pair in product(one, other)) < CONFLICT


def _objects_alike(one: Clause, other: Clause, through: bool) -> float:
    """How alike what is acted upon is; at least one side's has to be the thing itself, or an attribute of it."""
    if not one.things or not other.things:
        return 1.0 if not one.things and not other.things else NO_THING
    mine, theirs = _participants(one, through), _participants(other, through)
    return max(
        weight * other_weight * _things_alike(thing, other_thing)
        for (i, (thing, weight)), (j, (other_thing, other_weight)) in product(enumerate(mine), enumerate(theirs))
        if i < len(one.things) or j < len(other.things)
    )


def _participants(clause: Clause, through: bool) -> list[tuple[Thing, float]]:
    place = PLACE if through else OTHER_PLACE
    weights = [1.0] + [ATTRIBUTE] * (len(clause.things) - 1) + [TOOL] * len(clause.tools)
    weights += [place] * (len(clause.sources) + len(clause.goals))
    return list(zip(clause.things + clause.tools + clause.sources + clause.goals, weights, strict=True))


def _things_alike(one: Thing, other: Thing) -> float:
    alike = _heads_alike(one, other)
    return alike * OTHER_COLOUR if one.colours and other.colours and not one.colours & other.colours else alike


def _heads_alike(one: Thing, other: Thing) -> float:
    head = one.head
    if head == other.head:
        kinds = list(product(one.kinds, other.kinds))
        alike = [max(nouns_alike(k, m), nouns_alike(f"{k}_{head}", f"{m}_{head}")) for k, m in kinds]
        return 1.0 if not kinds or max(alike) >= CONFLICT else OTHER_KIND
    generic, partitive = words("generic"), words("partitive")
    best = max(nouns_alike(head, other.head), GENERIC * (head in generic or other.head in generic))
    for thing, name in ((one, other.head), (other, head)):
        for kind in thing.kinds:
            best = max(best, nouns_alike(f"{kind}_{thing.head}", name))
            best = max(best, PART * nouns_alike(kind, name) * (thing.head in partitive))
    return best
