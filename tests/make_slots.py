"""Derives the embedded judge's tables of nouns from a WordNet 3.0 dictionary: ``python tests/make_slots.py FOLDER``.

FOLDER holds ``data.noun``, ``index.noun`` and ``noun.exc`` (Debian: package ``wordnet-base``). Kept are things that
hands handle: artifacts, food, materials, parts of plants, limbs; of each word its first two such senses, of each thing
its first hypernym. The embedded judge's other tables are written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mabpl import data

FILES = {"03": "tops", "06": "artifact", "08": "body", "13": "food", "17": "object", "20": "plant", "27": "substance"}
"""WordNet's lexicographer files that are read."""

ROOTS = {
    "artifact", "food", "foodstuff", "beverage", "produce", "external_body_part", "plant_part", "flower", "material",
    "liquid", "powder", "soil", "piece", "rock", "soup", "water", "seedling",
}  # fmt: skip
"""Everything below one of these, by the first word of the synset ..."""

PRUNED = {
    "drug", "medicine", "craft", "weaponry", "weapon", "building", "building_complex", "road", "facility", "area",
    "defensive_structure", "musical_instrument", "military_vehicle", "locomotive", "establishment", "housing",
    "creation", "bridge", "tower", "chemical", "compound", "macromolecule", "wine", "alcohol", "excavation", "arms",
    "antiquity", "public_transport", "ship", "track", "poison", "rocket", "aircraft", "radioactive_material",
    "horse-drawn_vehicle", "mixed_drink", "room", "fortification", "monument", "dwelling", "factory", "diet", "orchid",
    "tissue", "saltwater_fish", "mineral", "explosive_device", "sports_equipment", "game_equipment", "memory_device",
    "computer_circuit", "canal", "calculator", "propeller", "wild_flower", "prosthesis", "passage",
}  # fmt: skip
"""... but nothing below one of these."""

SENSES = 2
WORD = re.compile(r"[a-z]+(?:_[a-z]+)?")


def synsets(folder: Path) -> Iterator[tuple[str, list[str], str]]:
    """(offset, words, offset of the first hypernym or '') of each synset of the files that are read."""
    for line in (folder / "data.noun").read_text(encoding="utf-8").splitlines():
        fields = line.partition(" | ")[0].split()
        if line.startswith(" ") or fields[1] not in FILES:
            continue
        count = int(fields[3], 16)
        pointers = fields[5 + 2 * count :]
        above = (pointers[i + 1] for i in range(0, len(pointers) - 3, 4) if pointers[i] == "@")
        yield fields[0], fields[4 : 4 + 2 * count : 2], next(above, "")


def ranked(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each word and the offsets of its synsets, most frequent first."""
    for line in (folder / "index.noun").read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            fields = line.split()
            yield fields[0], fields[-int(fields[2]) :]


def nouns(folder: Path) -> list[str]:
    """Lines ``line number (from 0) of the thing above, or -<TAB>words``; what is above stands before what is below."""
    words_of, children = {}, {}
    for offset, words, above in synsets(folder):
        words_of[offset] = words
        children.setdefault(above, []).append(offset)

    def within(offset: str) -> Iterator[str]:
        yield offset
        for child in children.get(offset, []):
            if words_of[child][0] not in ROOTS | PRUNED:
                yield from within(child)

    roots = [offset for offset, words in words_of.items() if words[0] in ROOTS]
    kept = {offset for root in roots for offset in within(root)}
    senses = {word: [o for o in offsets if o in kept][:SENSES] for word, offsets in ranked(folder)}
    lines: list[str] = []

    def grow(offset: str, above: str) -> None:
        words = [word for word in words_of[offset] if WORD.fullmatch(word) and offset in senses[word]]
        number = len(lines)
        lines.append(f"{above}\t{' '.join(words)}")
        for child in children.get(offset, []):
            if child in kept and child not in roots:
                grow(child, str(number))
        if not words and len(lines) == number + 1:
            lines.pop()

    for root in roots:
        grow(root, "-")
    return lines


def plurals(folder: Path, words: set[str]) -> list[str]:
    """Lines ``plural<TAB>singular`` of the irregular plurals of ``words``."""
    pairs = (line.split()[:2] for line in (folder / "noun.exc").read_text(encoding="utf-8").splitlines())
    return [f"{plural}\t{one}" for plural, one in pairs if one in words and plural not in words]


def make(source: Path, target: Path) -> None:
    """Write ``nouns.tsv`` and ``plurals.tsv`` into ``target``."""
    lines = nouns(source)
    words = {word for line in lines for word in line.partition("\t")[2].split()}
    for name, rows in (("nouns", lines), ("plurals", plurals(source, words))):
        (target / f"{name}.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(data.__file__).with_name("slots"))
