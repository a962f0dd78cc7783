"""What the embedded judge knows of words: verbs in classes, things in a tree, small words by their use.

The tables lie in ``mabpl/data/slots`` (its README.md describes them): those of nouns are derived from WordNet 3.0, the
others are written by hand. They are read once, when the first label is parsed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import product
from pathlib import Path

from mabpl import data

SAME_CLASS = 0.97
OPPOSITE = -1.0
"""How alike two verbs of one class are, and two that undo each other."""

MORE_GENERAL = (1.0, 0.9, 0.85, 0.8, 0.7)
"""How alike a thing and a more general word for it are, by the steps between them in the tree."""
SIBLINGS = 0.3
BROAD = 600
LOOSE = 60
"""A node with more nodes below it than ``BROAD`` says nothing of a thing; up to ``LOOSE`` it makes siblings of them."""


def rows(name: str) -> Iterator[tuple[str, ...]]:
    path = Path(data.__file__).with_name("slots") / f"{name}.tsv"
    return (tuple(line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines())


def _pairs(name: str) -> Iterator[tuple[str, str]]:
    return ((first, second) for first, second in rows(name))


# --- small words ---


@cache
def words(use: str) -> frozenset[str]:
    """The words of one use: ``article``, ``colour``, ``place``, ..."""
    return frozenset(_words_by_use()[use].split())


@cache
def renamed(use: str) -> dict[str, str]:
    """The pairs ``old=new`` of one use, underscores for spaces in the old: ``phrase``, ``irregular``."""
    pairs = (pair.split("=") for pair in _words_by_use()[use].split())
    return {old.replace("_", " "): new for old, new in pairs}


@cache
def _words_by_use() -> dict[str, str]:
    return dict(_pairs("words"))


# --- verbs ---


@cache
def verb_classes() -> dict[str, frozenset[str]]:
    """``pick_up`` to its classes."""
    found = defaultdict[str, set[str]](set)
    for name, verbs in rows("verbs"):
        for verb in verbs.split():
            found[verb].add(name)
    return {verb: frozenset(names) for verb, names in found.items()}


@cache
def verb_forms() -> dict[str, str]:
    """Every form of a single-word verb to the verb: ``placing`` and ``placed`` to ``place``."""
    heads = {verb.partition("_")[0]: None for verb in verb_classes()}
    regular = {form: verb for verb in heads for form in _inflected(verb)}
    return regular | renamed("irregular") | {verb: verb for verb in heads}


def _inflected(verb: str) -> Iterator[str]:
    yield verb + ("es" if verb.endswith(("s", "x", "z", "ch", "sh")) else "s")
    stem = verb.removesuffix("e") if not verb.endswith("ee") else verb
    yield from (stem + "ing", stem + "ed")
    if verb.endswith("y") and verb[-2:-1] not in "aeou":
        yield from (verb[:-1] + "ies", verb[:-1] + "ied")
    if verb[-1] not in "aeiouwxy" and verb[-2:-1] in "aeiou":
        yield from (verb + verb[-1] + "ing", verb + verb[-1] + "ed")


@cache
def _relations() -> dict[tuple[str, str], float]:
    found = {}
    for one, other, value in rows("relations"):
        found[one, other] = found[other, one] = OPPOSITE if value == "opposite" else float(value)
    return found


@lru_cache(maxsize=1 << 16)
def verbs_alike(one: str, other: str) -> float:
    """0-1, or ``OPPOSITE``. Verbs that no table knows are alike only when equal."""
    if one == other:
        return 1.0
    known = verb_classes()
    mine, others = known.get(one, frozenset()), known.get(other, frozenset())
    if mine & others:
        return SAME_CLASS
    values = [_relations().get(pair, 0.0) for pair in product(mine, others)]
    best = max(values, default=0.0)
    return best if best > 0 or OPPOSITE not in values else OPPOSITE


# --- things ---


@cache
def _tree() -> tuple[dict[str, list[int]], list[int], list[int]]:
    """Nouns to their nodes; each node's parent (-1 at a root); how many nodes each has below it."""
    nodes, parents = defaultdict[str, list[int]](list), list[int]()
    for number, (above, nouns) in enumerate(rows("nouns")):
        parents.append(-1 if above == "-" else int(above))
        for noun in nouns.split():
            nodes[noun].append(number)
    below = [0] * len(parents)
    for number in range(len(parents) - 1, -1, -1):
        if parents[number] >= 0:
            below[parents[number]] += below[number] + 1
    return dict(nodes), parents, below


@cache
def _groups() -> dict[str, dict[int, float]]:
    found = defaultdict[str, dict[int, float]](dict)
    for number, (value, nouns) in enumerate(rows("alike")):
        for noun in nouns.split():
            found[noun][number] = float(value)
    return dict(found)


@cache
def _plurals() -> dict[str, str]:
    return dict(_pairs("plurals"))


def is_noun(word: str) -> bool:
    return word in _tree()[0] or word in _groups()


@lru_cache(maxsize=1 << 16)
def singular(noun: str) -> str:
    """``knives`` to ``knife``; of a word that is unknown, the form that a regular plural would have."""
    if noun in _plurals():
        return _plurals()[noun]
    if not noun.endswith("s") or noun.endswith(("ss", "us", "is")) or len(noun) < 4:
        return noun
    endings = (("ies", "y"), ("s", ""), ("es", ""))
    ones = [noun.removesuffix(end) + new for end, new in endings if noun.endswith(end)]
    return next((one for one in ones if is_noun(one)), noun if is_noun(noun) else ones[0])


@lru_cache(maxsize=1 << 16)
def _above(noun: str) -> dict[int, int]:
    """The nodes of ``noun`` and those above them to the steps up."""
    nodes, parents, _ = _tree()
    steps: dict[int, int] = {}
    for node in nodes.get(noun, []):
        step = 0
        while node >= 0:
            steps[node] = min(step, steps.get(node, step))
            node, step = parents[node], step + 1
    return steps


@lru_cache(maxsize=1 << 18)
def nouns_alike(one: str, other: str) -> float:
    """0-1: the same thing, a more general word for it, a thing easily taken for it, a thing of the same kind."""
    if one == other:
        return 1.0
    mine, others = _above(one), _above(other)
    below = _tree()[2]
    best = 0.0
    for node in mine.keys() & others.keys():
        near, far = sorted((mine[node], others[node]))
        if near == 0 and below[node] <= BROAD:
            best = max(best, MORE_GENERAL[min(far, len(MORE_GENERAL) - 1)])
        elif below[node] <= LOOSE:
            best = max(best, SIBLINGS)
    groups, other_groups = _groups().get(one, {}), _groups().get(other, {})
    return max([best, *(groups[group] for group in groups.keys() & other_groups.keys())])
