"""Makes the predictions of the bundled sample benchmark from its human timelines: ``python tests/make_sample.py``.

Four invented configurations blur, merge, split and mislabel the human segments, each in its own measure. The same
bytes come out on every machine: the only source of chance is ``random.Random(text).random()``.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from mabpl.data import sample_folder

T = TypeVar("T")
SEEDS = (1, 11, 21)


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a configuration errs. Names that end in _s are seconds; the others are chances, for each segment."""

    model: str
    setting: str
    grid_s: float
    jitter_s: float
    merge: float = 0.0
    split: float = 0.0
    longest_s: float = 10.0
    wrong_object: float
    wrong_verb: float
    wrong_hand: float
    paraphrase: float
    skip: float = 0.0
    overlaps_in: str = ""


STYLES = {
    "careful-large": Style(
        model="Larch-2", setting="high", grid_s=0.1, jitter_s=1.6, merge=0.05, split=0.04,
        wrong_object=0.04, wrong_verb=0.03, wrong_hand=0.06, paraphrase=0.5,
    ),
    "quick-large": Style(
        model="Larch-2", setting="low", grid_s=0.5, jitter_s=2.4, merge=0.2, split=0.05,
        wrong_object=0.1, wrong_verb=0.06, wrong_hand=0.12, paraphrase=0.5,
    ),
    "small-coarse": Style(
        model="Sorrel-S", setting="default", grid_s=0.5, jitter_s=3.4, merge=0.35, longest_s=12.0,
        wrong_object=0.35, wrong_verb=0.25, wrong_hand=0.3, paraphrase=0.3, skip=0.06, overlaps_in="kitchen-prep-01",
    ),
    "small-fine": Style(
        model="Alder-Mini", setting="default", grid_s=0.1, jitter_s=2.0, split=0.45,
        wrong_object=0.15, wrong_verb=0.1, wrong_hand=0.2, paraphrase=0.4,
    ),
}  # fmt: skip

SAME_VERB = {
    "pick up": ("grasp", "take"),
    "put down": ("set down", "lay down"),
    "place": ("put", "set"),
    "press": ("push",),
    "push": ("press",),
    "hold": ("grip",),
    "insert": ("put",),
    "chop": ("cut",),
    "scrape": ("push",),
    "drop": ("throw",),
    "spread": ("lay out",),
    "lift": ("raise",),
}

SAME_NOUN = {
    "plank": ("wooden board", "board"),
    "workbench": ("bench",),
    "handsaw": ("saw",),
    "inner tube": ("tube",),
    "counter": ("worktop",),
    "cutting board": ("chopping board",),
    "circuit board": ("board",),
    "clay pot": ("flower pot",),
    "soil": ("earth",),
    "carton": ("cardboard box",),
    "basket": ("laundry basket",),
    "wheel wrench": ("wrench",),
    "paint bucket": ("bucket of paint",),
    "steady": ("still", "in place"),
}

WRONG_NOUN = {
    "plank": "table leg",
    "handsaw": "hammer",
    "ruler": "chisel",
    "square": "clamp",
    "pencil": "knife",
    "offcut": "glue bottle",
    "wheel": "pedal",
    "tyre lever": "spanner",
    "inner tube": "chain",
    "valve": "brake cable",
    "tyre": "saddle",
    "carrot": "cucumber",
    "carrot slices": "potato peels",
    "knife": "spoon",
    "peeler": "grater",
    "lid": "sieve",
    "cutting board": "plate",
    "circuit board": "display",
    "screw": "spring",
    "screwdriver": "soldering iron",
    "ribbon cable": "antenna",
    "battery": "speaker",
    "cover": "keypad",
    "clay pot": "plastic bucket",
    "soil": "gravel",
    "seedling": "bulb",
    "needle": "pin",
    "thread": "ribbon",
    "button": "zip",
    "shirt": "skirt",
    "towel": "pillowcase",
    "carton": "drawer",
    "cans": "bottles",
    "can": "bottle",
    "jar": "packet",
    "box knife": "pen",
    "jack": "toolbox",
    "wheel wrench": "hammer",
    "nut": "hubcap",
    "nuts": "hubcaps",
    "spare wheel": "mudguard",
    "tape": "film",
    "paint": "water",
    "roller": "brush",
    "ladder": "door",
}

# what is said instead, and how its preposition changes with it
WRONG_VERB: dict[str, tuple[str, dict[str, str]]] = {
    "pick up": ("put down", {"from": "on"}),
    "put down": ("pick up", {"on": "from"}),
    "place": ("lift", {"on": "from", "in": "from"}),
    "lift": ("lower", {"off": "onto", "out of": "into"}),
    "lower": ("lift", {"into": "out of", "onto": "off"}),
    "drop": ("pick up", {"into": "from"}),
    "open": ("close", {}),
    "insert": ("remove", {"into": "from"}),
    "push": ("pull", {"into": "out of", "under": "from under"}),
    "pull": ("push", {"out of": "into", "off": "onto"}),
    "plug": ("unplug", {"into": "from"}),
    "tighten": ("loosen", {}),
    "loosen": ("tighten", {}),
    "unscrew": ("tighten", {}),
    "screw": ("unscrew", {"onto": "from"}),
    "fold": ("unfold", {"in half": ""}),
    "spread": ("fold", {}),
    "stick": ("peel", {"on": "off"}),
    "peel": ("wash", {}),
    "saw": ("sand", {"through": ""}),
    "chop": ("rinse", {"into slices": ""}),
    "stitch": ("iron", {}),
    "pour": ("stir", {"into": "in"}),
    "scoop": ("tip", {"into": "out of"}),
    "roll": ("scrape", {"onto": "off"}),
    "twist": ("untwist", {"together": ""}),
    "wrap": ("unwrap", {"around": "from"}),
    "shake": ("fold", {"loose": ""}),
    "slide": ("lift", {}),
    "draw": ("erase", {}),
    "dig": ("fill", {}),
    "wipe": ("shake", {}),
    "dip": ("lift", {"into": "out of"}),
}


def any_of(table: Iterable[str], before: str = "") -> re.Pattern[str]:
    """Matches a key of ``table``, the longest one possible."""
    return re.compile(rf"{before}(?:{'|'.join(sorted(table, key=len, reverse=True))})\b")


CLAUSE_START, WITHIN_CLAUSE = r"(?:^|(?<=; ))", r"(?<=[a-z] )"
SAME = {**SAME_VERB, **SAME_NOUN}
ANY_SAME = re.compile(f"{any_of(SAME_VERB, CLAUSE_START).pattern}|{any_of(SAME_NOUN, WITHIN_CLAUSE).pattern}")
ANY_WRONG_NOUN = any_of(WRONG_NOUN, WITHIN_CLAUSE)
ANY_WRONG_VERB = any_of(WRONG_VERB)
WRONG_HAND = {"left hand": "right hand", "right hand": "left hand", "both hands": "the right hand"}


class Chance:
    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def happens(self, chance: float) -> bool:
        return self._random() < chance

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self._random() * len(choices))]

    def spread(self, width: float) -> float:
        """Between -width and width, small values more often."""
        return width * (self._random() - self._random())


@dataclass(frozen=True)
class Span:
    start_s: float
    end_s: float
    label: str
    is_idle: bool

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


def on_grid(time_s: float, style: Style) -> float:
    return round(round(time_s / style.grid_s) * style.grid_s, 1)


def blurred(spans: list[Span], style: Style, chance: Chance) -> list[Span]:
    """Inner boundaries moved and put on the grid; segments that vanish by this are left out."""
    last_s = spans[-1].end_s
    moved = (on_grid(span.start_s + chance.spread(style.jitter_s), style) for span in spans[1:])
    edges = [0.0, *sorted(min(max(time_s, 0.0), last_s) for time_s in moved), last_s]
    bounds = zip(spans, edges[:-1], edges[1:], strict=True)
    return [replace(span, start_s=start, end_s=end) for span, start, end in bounds if start < end]


def merged(spans: list[Span], style: Style, chance: Chance) -> list[Span]:
    """Some neighbours as one segment, named after both or after the longer one."""
    result = spans[:1]
    for span in spans[1:]:
        last = result[-1]
        possible = not last.is_idle and not span.is_idle and span.end_s - last.start_s <= style.longest_s
        if possible and chance.happens(style.merge):
            both = f"{last.label}; {span.label}"
            label = both if chance.happens(0.5) else max(last, span, key=lambda s: s.length_s).label
            result[-1] = Span(last.start_s, span.end_s, label, False)
        else:
            result.append(span)
    return result


def split(spans: list[Span], style: Style, chance: Chance) -> list[Span]:
    """Some segments, and those that are too long, cut in two: clause by clause where there are two."""
    result = []
    for span in spans:
        wanted = not span.is_idle and span.length_s >= 2.5 and chance.happens(style.split)
        if wanted or span.length_s > style.longest_s:
            cut = on_grid(span.start_s + span.length_s * (0.5 + chance.spread(0.25)), style)
            first, _, second = span.label.partition("; ")
            result.append(replace(span, end_s=cut, label=first))
            result.append(replace(span, start_s=cut, label=second or first))
        else:
            result.append(span)
    return result


def sloppy(spans: list[Span], clip_id: str, style: Style, chance: Chance) -> list[Span]:
    """Some segments left out or taken for idle; in the clip ``overlaps_in`` the second one starts too early."""
    result = []
    for number, span in enumerate(spans):
        if number == 1 and clip_id == style.overlaps_in:
            span = replace(span, start_s=span.start_s - style.grid_s)
        elif 0 < number < len(spans) - 1 and chance.happens(style.skip):
            if chance.happens(0.5):
                continue
            span = replace(span, label="idle", is_idle=True)
        result.append(span)
    return result


def with_wrong_object(label: str, chance: Chance) -> str:
    found = ANY_WRONG_NOUN.findall(label)
    if not found:
        return label
    noun = chance.pick(found)
    return ANY_WRONG_NOUN.sub(lambda match: WRONG_NOUN[noun] if match[0] == noun else match[0], label)


def with_wrong_verb(label: str, chance: Chance) -> str:
    clauses = label.split("; ")
    verbs = [(n, match[0]) for n, clause in enumerate(clauses) if (match := ANY_WRONG_VERB.match(clause))]
    if not verbs:
        return label
    n, verb = chance.pick(verbs)
    other, prepositions = WRONG_VERB[verb]
    rest = clauses[n].removeprefix(verb)
    if prepositions:
        rest = any_of(prepositions, "(?<= )").sub(lambda match: prepositions[match[0]], rest, count=1)
    clauses[n] = " ".join((other + rest).split())
    return "; ".join(clauses)


def with_wrong_hand(label: str) -> str:
    return any_of(WRONG_HAND).sub(lambda match: WRONG_HAND[match[0]], label)


def paraphrased(label: str, chance: Chance) -> str:
    chosen = {word: chance.pick(SAME[word]) for word in dict.fromkeys(ANY_SAME.findall(label))}
    return ANY_SAME.sub(lambda match: chosen[match[0]], label)


def misread(label: str, style: Style, chance: Chance) -> str:
    if chance.happens(style.wrong_object):
        label = with_wrong_object(label, chance)
    if chance.happens(style.wrong_verb):
        label = with_wrong_verb(label, chance)
    if chance.happens(style.wrong_hand):
        label = with_wrong_hand(label)
    if chance.happens(style.paraphrase):
        label = paraphrased(label, chance)
    return label


def predicted(clip: dict[str, Any], style: Style, chance: Chance) -> dict[str, Any]:
    spans = [Span(s["start_s"], s["end_s"], s["label"], s["is_idle"]) for s in clip["segments"]]
    spans = split(merged(blurred(spans, style, chance), style, chance), style, chance)
    segments = [
        {
            "start_s": span.start_s,
            "end_s": span.end_s,
            "label": span.label if span.is_idle else misread(span.label, style, chance),
            "is_idle": span.is_idle,
        }
        for span in sloppy(spans, clip["clip_id"], style, chance)
    ]
    return {"clip_id": clip["clip_id"], "segments": segments}


def write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def make(folder: Path) -> None:
    """Write ``models.csv`` and ``predictions/<set>/<configuration>_seed<k>.jsonl`` into ``folder``."""
    models = [f"{name},{style.model},{style.setting}" for name, style in STYLES.items()]
    write(folder / "models.csv", ["configuration,model,setting", *models])
    for labels in sorted(sample_folder().glob("data/*/labels.jsonl")):
        clips = [json.loads(line) for line in labels.read_text(encoding="utf-8").splitlines()]
        for name, style in STYLES.items():
            for seed in SEEDS:
                rows = [predicted(clip, style, Chance(f"{name} {seed} {clip['clip_id']}")) for clip in clips]
                path = folder / "predictions" / labels.parent.name / f"{name}_seed{seed}.jsonl"
                write(path, [json.dumps(row, separators=(",", ":")) for row in rows])


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else sample_folder())
