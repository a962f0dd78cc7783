"""Makes the bundled sample of ProactEgoMem: ``python tests/make_proact_sample.py``.

Two invented tracks with every task, a dev and a test split, and three submissions of different quality. The same bytes
come out on every machine: the only source of chance is ``random.Random(text).random()``.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mabpl.data import proact_sample_folder

T = TypeVar("T")

TASKS = {"information_capture": "IC", "state_tracking": "ST", "location_tracking": "LT"}

# track → task → (object, what a good assistant says, what else a model may call it)
THINGS = {
    "home": {
        "information_capture": [
            ("notice on the lift door", "The notice on the lift door says: out of order until Friday.", "lift sign"),
            ("parcel slip", "The parcel slip names the shop on the corner as the pick-up point.", "delivery slip"),
            ("bus timetable", "According to the bus timetable the last bus leaves at 22:40.", "timetable"),
            ("recipe card", "The recipe card asks for two spoons of baking soda.", "recipe"),
            ("meter reading", "The meter reading is 48 213.", "meter"),
            ("wifi label", "The wifi label under the router shows the network's name.", "router label"),
        ],
        "state_tracking": [
            ("kettle", "The kettle is still heating and nobody is near it.", "water boiler"),
            ("oven door", "The oven door has been left open.", "oven"),
            ("garden tap", "The garden tap is running.", "tap"),
            ("iron", "The iron is on and lies flat on the shirt.", "flat iron"),
            ("fridge door", "The fridge door is not quite closed.", "fridge"),
            ("candle", "The candle on the shelf is burning.", "tea light"),
        ],
        "location_tracking": [
            ("house keys", "You put the house keys on the shoe rack.", "keys"),
            ("reading glasses", "Your reading glasses lie on the window sill.", "glasses"),
            ("tape measure", "The tape measure went into the blue toolbox.", "measuring tape"),
            ("phone charger", "The phone charger is behind the sofa.", "charger"),
            ("scissors", "The scissors are back in the second drawer.", "shears"),
            ("blue umbrella", "The blue umbrella stands beside the coat rack.", "umbrella"),
        ],
    },
    "workshop": {
        "information_capture": [
            ("torque table", "The torque table gives 12 newton metres for the M6 bolt.", "table on the wall"),
            ("lot number", "The lot number on the glue tin is 7-441.", "batch number"),
            ("warning label", "The warning label asks for gloves before the lid is opened.", "safety label"),
            ("scale display", "The scale display shows 212.4 grams.", "scale"),
            ("work order", "The work order asks for eight brackets, not six.", "order sheet"),
            ("calibration sticker", "The calibration sticker ran out last month.", "sticker"),
        ],
        "state_tracking": [
            ("soldering iron", "The soldering iron is hot and out of its stand.", "iron"),
            ("band saw", "The band saw is still turning.", "saw"),
            ("solvent bottle", "The solvent bottle stands open.", "bottle"),
            ("air valve", "The air valve has not been closed.", "valve"),
            ("clamp", "The clamp on the left board is loose.", "vice"),
            ("dust extractor", "The dust extractor is switched off.", "extractor"),
        ],
        "location_tracking": [
            ("hex key", "The hex key lies under the drawing.", "allen key"),
            ("caliper", "You left the caliper on the lathe.", "vernier"),
            ("spare blade", "The spare blade is in the red tray.", "blade"),
            ("safety goggles", "The safety goggles hang on the drill press.", "goggles"),
            ("pencil", "The pencil is on top of the cabinet.", "marker"),
            ("glue gun", "The glue gun is back on its hook.", "hot glue"),
        ],
    },
}  # fmt: skip

QUESTIONS = [
    ("Where was the {thing} when I last saw it?", ["in a drawer", "on the bench", "on the floor", "on a shelf"]),
    ("What colour was the thing next to the {thing}?", ["red", "green", "yellow", "grey"]),
    ("What did I do just before I came to the {thing}?",
     ["washed my hands", "opened a window", "wrote something down", "answered the phone"]),
    ("How often did I touch the {thing}?", ["not once", "once", "twice", "three times"]),
    ("With which hand did I reach for the {thing}?", ["the left one", "the right one", "both", "neither"]),
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a submission errs: chances for each segment, clip or question; ``late_s``: the most that it speaks late."""

    hit: float
    duplicate: float
    wrong: float
    alarm: float
    late_s: float
    other_name: float
    right: float
    unanswered: float = 0.0
    illegal: float = 0.0


STYLES = {
    "attentive": Style(hit=0.9, duplicate=0.05, wrong=0.05, alarm=0.1, late_s=4.0, other_name=0.2, right=0.8),
    "chatty": Style(
        hit=0.8, duplicate=0.6, wrong=0.5, alarm=0.9, late_s=12.0, other_name=0.4, right=0.55, illegal=0.08
    ),
    "quiet": Style(
        hit=0.25, duplicate=0.0, wrong=0.05, alarm=0.0, late_s=25.0, other_name=0.5, right=0.35, unanswered=0.15
    ),
}


class Chance:
    """Draws that depend on a text and nothing else."""

    def __init__(self, text: str) -> None:
        self._random = random.Random(text)

    def happens(self, chance: float) -> bool:
        return self._random.random() < chance

    def between(self, low: float, high: float, digits: int = 3) -> float:
        return round(low + (high - low) * self._random.random(), digits)

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self._random.random() * len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        left = list(items)
        return [left.pop(int(self._random.random() * len(left))) for _ in items]

    def id(self, kind: str) -> str:
        return f"{kind}-{int(self._random.random() * 16**10):010x}"


def sample(
    task: str, thing: str, note: str, clip: dict[str, Any], start_s: float, end_s: float | None
) -> dict[str, Any]:
    offset_s = clip["abs_start_sec"]
    return {
        "sample_id": Chance(f"{clip['clip_uid']} {thing} {start_s}").id("s"),
        "task": task,
        "object": thing,
        "note": note,
        "times": {
            "start_sec": round(start_s + offset_s, 6),
            "end_sec": None if end_s is None else round(end_s + offset_s, 6),
        },
        "clip": {"clip_uid": clip["clip_uid"], "local_start_sec": start_s, "local_end_sec": end_s},
    }


def question(thing: str, text: str, choices: list[str], chance: Chance) -> dict[str, Any]:
    shown = chance.shuffled(choices)
    letter = chance.pick("ABCD")
    return {
        "qa_id": chance.id("q"),
        "question": text.format(thing=thing),
        "answer_choices": [{"letter": one, "text": choice} for one, choice in zip("ABCD", shown, strict=True)],
        "answer": shown["ABCD".index(letter)],
        "correct_letter": letter,
        "notes": "",
    }


def clip_of(track: str, task: str, split: str, number: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A clip with its questions, and its samples: the last clip of a dev file is a declared negative."""
    chance = Chance(f"{track} {task} {split} {number}")
    start_s, duration_s = chance.between(5, 900, 6), float(chance.pick([60, 90, 120, 180]))
    things = chance.shuffled(THINGS[track][task])
    clip: dict[str, Any] = {
        "clip_uid": chance.id("c"),
        "video_uid": f"{track}-{1 + (number + len(task)) % 4:02d}",
        "clip_path": None,
        "abs_start_sec": start_s,
        "abs_end_sec": round(start_s + duration_s, 6),
        "duration_sec": duration_s,
        "sample_ids": [],
        "qa_items": {},
    }
    samples = []
    if (split, number) != ("dev", 3):
        for place, (thing, _, _) in enumerate(things[: 2 + int(chance.happens(0.6))]):
            begin_s = chance.between(4 + place * duration_s / 3, 1 + (place + 0.6) * duration_s / 3, 6)
            is_open = task != "information_capture" and chance.happens(0.45)
            end_s = None if is_open else round(begin_s + chance.between(3, duration_s / 5, 6), 6)
            note = f"unattended: {chance.pick(['yes', 'no'])}" if task == "state_tracking" else ""
            samples.append(sample(task, thing, note, clip, begin_s, end_s))
    if (track, task, split, number) == ("home", "state_tracking", "dev", 1):
        # All of its samples begin where it ends: a clip that is emptied, and no declared negative.
        samples = [sample(task, things[0][0], "unattended: yes", clip, duration_s, None)]
    if (track, task, split, number) == ("workshop", "location_tracking", "dev", 1):
        samples.append(sample(task, things[5][0], "", clip, duration_s - 4.5, duration_s + 2.5))
    if (task, number) != ("information_capture", 2):
        for text, choices in chance.shuffled(QUESTIONS)[: 2 + int(chance.happens(0.5))]:
            asked = question(things[0][0], text, choices, chance)
            clip["qa_items"][asked["qa_id"]] = asked
    clip["sample_ids"] = [one["sample_id"] for one in samples]
    return clip, samples


def released(track: str, task: str, split: str) -> dict[str, Any]:
    """One released file; of the test split, what is withheld is left out."""
    videos: dict[str, Any] = {}
    clips = {}
    for number in range(4 if split == "dev" else 2):
        clip, samples = clip_of(track, task, split, number)
        video = videos.setdefault(
            clip["video_uid"], {"video_uid": clip["video_uid"], "video_path": None, "samples": {}}
        )
        if split == "dev":
            video["samples"] |= {one["sample_id"]: one for one in samples}
        else:
            del clip["sample_ids"]
            for asked in clip["qa_items"].values():
                del asked["answer"], asked["correct_letter"], asked["notes"]
        clips[clip["clip_uid"]] = clip
    head: dict[str, Any] = {
        "schema_version": "proact-studio-v3",
        "task": task,
        "kind": "canonical",
        "rev": 0,
        "split": split,
        "ground_truth_released": split == "dev",
    }
    if split == "dev":
        head["canary"] = "mabpl sample: invented for mabpl, not of ProactEgoMem"
    return {**head, "videos": videos, "clips": clips}


def said(name: str, track: str, task: str, split: str) -> list[dict[str, Any]]:
    """The rows of a submission about the clips and questions of one file."""
    style = STYLES[name]
    rows: list[dict[str, Any]] = []
    texts = {thing: (text, other) for thing, text, other in THINGS[track][task]}
    for number in range(4 if split == "dev" else 2):
        clip, samples = clip_of(track, task, split, number)
        chance = Chance(f"{name} {clip['clip_uid']}")
        last_s = clip["duration_sec"]
        mentions = []

        def say(time_s: float, thing: str, chance: Chance = chance, mentions: list[Any] = mentions) -> None:
            text, other = texts[thing]
            if chance.happens(style.other_name):
                text = f"Mind the {other}."
            mentions.append({"time_s": round(min(time_s, last_s), 2), "text": text})  # noqa: B023

        for one in samples:
            begin_s = one["clip"]["local_start_sec"]
            if chance.happens(style.hit):
                say(begin_s + chance.between(-0.5, style.late_s), one["object"])
                if chance.happens(style.duplicate):
                    say(begin_s + chance.between(1, 6), one["object"])
            if chance.happens(style.wrong):
                say(begin_s + chance.between(0, 5), chance.pick(list(texts)))
        if not samples and chance.happens(style.alarm):
            say(chance.between(0, last_s), chance.pick(list(texts)))
        mentions.sort(key=lambda mention: (mention["time_s"], mention["text"]))
        rows.append({"clip_uid": clip["clip_uid"], "mentions": mentions})
        for asked in clip["qa_items"].values():
            letter = asked["correct_letter"] if chance.happens(style.right) else chance.pick("ABCD")
            letter = "E" if chance.happens(style.illegal) else letter
            if not chance.happens(style.unanswered):
                rows.append({"qa_id": asked["qa_id"], "letter": letter})
    return rows


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def make(folder: Path) -> None:
    """Write ``json/<track>_<split>/<task>.json`` and ``submissions/<split>/<name>.jsonl`` into ``folder``."""
    for split in ("dev", "test"):
        for track in THINGS:
            for task in TASKS:
                text = json.dumps(released(track, task, split), indent=1, ensure_ascii=False)
                write(folder / "json" / f"{track}_{split}" / f"{task}.json", f"{text}\n")
        for name in STYLES if split == "dev" else ["attentive"]:
            rows = [row for track in THINGS for task in TASKS for row in said(name, track, task, split)]
            write(folder / "submissions" / split / f"{name}.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else proact_sample_folder())
