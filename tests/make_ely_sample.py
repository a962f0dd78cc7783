"""Makes the bundled sample of ely-eye's benchmark set: ``python tests/make_ely_sample.py``.

Documents, pictures, screens, clips, code and conversations of an invented greenhouse club; queries about them with gold
regions; the atoms of two ways to cut them; and what two invented systems returned. The same bytes come out on every
machine: the only source of chance is ``random.Random(text).random()``, and nothing is packed.
"""

from __future__ import annotations

import hashlib
import json
import random
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mabpl.benchmarks.ely_eye.overlap import overlaps
from mabpl.data import ely_sample_folder
from mabpl.tables.ely_eye import ATOMS, GOLD

Row = dict[str, Any]

REVISION = "2026-04-01"
NAME = "mabpl/greenhouse-club"
LICENSE = "Apache-2.0"
NOW = "2026-04-01T09:00:00+00:00"

# --- the corpus ---


@dataclass(frozen=True)
class Source:
    """``files``: name below corpus/files → bytes. ``fine`` and ``coarse``: regions of its atoms, two ways to cut it."""

    source_id: str
    modality: str
    holder: str
    observed_at: str
    files: dict[str, bytes]
    extent: Row
    fine: list[Row]
    coarse: list[Row]
    symbols: list[Row] = field(default_factory=list)


MANUAL = [
    ["Greenhouse manual", "The valve stands under the north bench.", "Turn it a quarter to the left to open it."],
    ["Watering", "Tomatoes take 4 litres a day.", "Basil takes half a litre every other day."],
    ["Winter", "Close the roof flaps below 6 degrees.", "Empty the rain barrel before the first frost."],
]
MANUAL_2 = [
    ["Greenhouse manual, second edition", "The valve stands by the door.", "Turn it half to the left to open it."],
    ["Watering", "Tomatoes take 5 litres a day.", "Basil takes half a litre every other day."],
    ["Winter", "Close the roof flaps below 8 degrees.", "Empty the rain barrel before the first frost."],
]
BUDGET = [
    ["Budget of the club", "Seeds: 120 euros.", "Soil: 85.50 euros."],
    ["Income", "Members pay 15 euros a quarter.", "The plant sale brought 310 euros."],
]
NOTICE = [["Notice", "Wear goggles at the grinder.", "The fuse box is behind the red door."]]


def pdf_file(pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF with a line of text a block."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, blocks in enumerate(pages):
        text = "".join(f"1 0 0 1 40 {760 - 40 * b} Tm ({block}) Tj " for b, block in enumerate(blocks))
        stream = f"BT /F1 12 Tf {text}ET"
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {5 + 2 * i} 0 R >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    out = b"%PDF-1.4\n"
    offsets = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    end += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + end.encode()


COLOURS = {"white": 0, "green": 1, "red": 2, "black": 3}
_PALETTE = bytes((255, 255, 255, 60, 150, 70, 200, 50, 40, 20, 20, 20))

Box = tuple[int, int, int, int]


def png_file(width: int, height: int, boxes: Iterable[tuple[str, Box]]) -> bytes:
    """A PNG of four colours: a white ground and coloured boxes; stored, not packed."""
    pixels = [[0] * width for _ in range(height)]
    for colour, (x0, y0, x1, y1) in boxes:
        for y in range(y0, y1):
            pixels[y][x0:x1] = [COLOURS[colour]] * (x1 - x0)
    rows = b""
    for line in pixels:
        padded = line + [0] * (-len(line) % 4)
        rows += b"\0" + bytes(a << 6 | b << 4 | c << 2 | d for a, b, c, d in zip(*[iter(padded)] * 4, strict=True))
    stored = b"\x78\x01\x01" + struct.pack("<HH", len(rows), len(rows) ^ 0xFFFF) + rows
    stored += struct.pack(">I", zlib.adler32(rows))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 2, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(*part) for part in ((b"IHDR", head), (b"PLTE", _PALETTE), (b"IDAT", stored), (b"IEND", b""))
    )


TRAY = [("green", (4 + 14 * i, 6, 14 + 14 * i, 16)) for i in range(4)] + [("red", (4, 24, 14, 34))]
BENCH = [("black", (2, 30, 70, 34)), ("red", (10, 18, 22, 30)), ("green", (30, 10, 44, 30))]
DOOR = [("red", (20, 4, 52, 40)), ("black", (46, 20, 49, 24))]

PANEL = {
    "water": ("green", (8, 8, 48, 28)),
    "stop": ("red", (72, 8, 112, 28)),
    "level": ("black", (8, 40, 112, 46)),
    "close": ("black", (104, 60, 114, 70)),
}
LEDGER_SCREEN = {
    "add": ("green", (6, 6, 36, 18)),
    "balance": ("black", (6, 30, 60, 42)),
    "export": ("red", (80, 60, 114, 74)),
}
SCREEN = (120, 80)

LAMP = [(0, 12, "dark"), (12, 20, "bright"), (20, 40, "dark")]
CART = [(0, 8, "left"), (8, 15, "middle"), (15, 30, "right")]
_PLACES = {"left": 1, "middle": 6, "right": 11}


def y4m_file(parts: Sequence[tuple[int, int, str]]) -> bytes:
    """An uncompressed grey clip of 16 x 12 pixels, a frame a second."""
    out = b"YUV4MPEG2 W16 H12 F1:1 Ip A1:1 Cmono\n"
    for start, end, what in parts:
        ground = 220 if what == "bright" else 30
        frame = [[ground] * 16 for _ in range(12)]
        if what in _PLACES:
            for line in frame[4:8]:
                line[_PLACES[what] : _PLACES[what] + 4] = [200] * 4
        out += (b"FRAME\n" + bytes(value for line in frame for value in line)) * (end - start)
    return out


WATERING = '''\
"""How much the plants of the greenhouse drink."""

LITRES = {"tomato": 4.0, "basil": 0.25, "chard": 1.5}


def litres_needed(plants: dict[str, int]) -> float:
    """Litres a day for so many plants of each kind."""
    return sum(LITRES[kind] * count for kind, count in plants.items())


def next_watering(last_hour: int, dry: bool) -> int:
    """The hour of the day of the next watering."""
    return (last_hour + (8 if dry else 12)) % 24


def barrel_lasts(litres: float, plants: dict[str, int]) -> int:
    """Whole days until the barrel is empty."""
    return int(litres // litres_needed(plants))
'''
LEDGER = '''\
"""The club's money."""


class Ledger:
    """Entries in euros, in the order in which they came."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, float]] = []

    def add_entry(self, what: str, euros: float) -> None:
        if not what:
            raise ValueError("say what it is for")
        self.entries.append((what, euros))

    def balance(self) -> float:
        return round(sum(euros for _, euros in self.entries), 2)


def overdue(paid: set[str], members: set[str]) -> set[str]:
    """Who has not paid."""
    return members - paid
'''
SENSOR = '''\
"""Reads the thermometer."""

OFFSET = -0.5


def celsius(raw: int) -> float:
    """Degrees from what the sensor gives."""
    return raw / 16 + OFFSET


def is_frost(raw: int) -> bool:
    return celsius(raw) < 0
'''


def symbols_of(path: str, text: str) -> list[Row]:
    """Functions and methods with their lines; a method is called Class.method."""
    import ast

    found: list[Row] = []
    for node in ast.parse(text).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        found += [
            {"path": path, "symbol": prefix + part.name, "line_start": part.lineno, "line_end": part.end_lineno}
            for part in inner
            if isinstance(part, ast.FunctionDef)
        ]
    return found


TALKS = {
    "seedlings": ("mira", "2026-02-11T18:00:00+00:00", [
        ("mira", "The seedlings came up on Sunday."),
        ("helper", "Which ones first?"),
        ("mira", "The chard. The basil needs three more days."),
        ("helper", "Where do you keep them?"),
        ("mira", "On the south shelf, row two, until the frost is over."),
        ("helper", "Shall I remind you to turn them?"),
        ("mira", "Yes, every Wednesday at seven in the evening."),
    ]),
    "keys": ("tom", "2026-02-20T08:30:00+00:00", [
        ("tom", "I had the workshop lock changed."),
        ("helper", "Who has a key?"),
        ("tom", "Lea has one, and the spare one hangs behind the calendar."),
        ("helper", "And the code of the alarm?"),
        ("tom", "It stays 4711 until May."),
    ]),
    "sale": ("lea", "2026-03-15T17:45:00+00:00", [
        ("lea", "The plant sale is on the second of May."),
        ("helper", "How many tables do you need?"),
        ("lea", "Six, and two for the cash box and the cake."),
        ("helper", "Noted."),
        ("lea", "Tom brings the trailer at eight."),
        ("helper", "I will remind him on the day before."),
    ]),
    "trailer": ("tom", "2026-03-28T07:10:00+00:00", [("tom", "The trailer has a flat tyre; I fetch a new one.")]),
}  # fmt: skip


def pages_cut(pages: Sequence[Sequence[str]]) -> tuple[list[Row], list[Row]]:
    fine = [{"page": p, "block": b} for p, blocks in enumerate(pages, 1) for b in range(len(blocks))]
    count = len(pages)
    return fine, [{"page_start": p, "page_end": min(p + 1, count)} for p in range(1, count + 1, 2)]


def grid(width: int, height: int, step: int) -> list[Row]:
    return [
        {"bbox": [x, y, min(x + step, width), min(y + step, height)]}
        for y in range(0, height, step)
        for x in range(0, width, step)
    ]


def stretches(length: int, step: int) -> list[Row]:
    return [{"t_start": float(t), "t_end": float(min(t + step, length))} for t in range(0, length, step)]


def line_cut(path: str, text: str, step: int, symbols: Sequence[Row]) -> list[Row]:
    count = text.count("\n")
    cut = []
    for first in range(1, count + 1, step):
        last = min(first + step - 1, count)
        inside = [s["symbol"] for s in symbols if s["line_start"] <= last and s["line_end"] >= first]
        cut.append({"path": path, "line_start": first, "line_end": last} | ({"symbols": inside} if inside else {}))
    return cut


def pdf(name: str, holder: str, observed_at: str, pages: Sequence[Sequence[str]]) -> Source:
    fine, coarse = pages_cut(pages)
    files = {f"{name}.pdf": pdf_file(pages)}
    return Source(f"pdf:{name}", "pdf", holder, observed_at, files, {"pages": len(pages)}, fine, coarse)


def picture(name: str, holder: str, observed_at: str, boxes: Sequence[tuple[str, Box]]) -> Source:
    files = {f"{name}.png": png_file(72, 44, boxes)}
    return Source(f"image:{name}", "image", holder, observed_at, files, {"width": 72, "height": 44}, [{}], [{}])


def screen(name: str, holder: str, observed_at: str, widgets: dict[str, tuple[str, Box]]) -> Source:
    width, height = SCREEN
    files = {f"{name}.png": png_file(width, height, widgets.values())}
    fine = [{"bbox": list(box)} for _, box in widgets.values()] + grid(width, height, 40)
    extent = {"width": width, "height": height}
    return Source(f"ui_screenshot:{name}", "ui_screenshot", holder, observed_at, files, extent, fine, [{}])


def clip(name: str, holder: str, observed_at: str, parts: Sequence[tuple[int, int, str]]) -> Source:
    length = parts[-1][1]
    fine = stretches(length, 5) + [{"t": t + 0.5} for t in range(0, length, 10)]
    files = {f"{name}.y4m": y4m_file(parts)}
    extent = {"duration_s": float(length)}
    return Source(f"video:{name}", "video", holder, observed_at, files, extent, fine, stretches(length, 20))


def code(name: str, holder: str, observed_at: str, texts: dict[str, str]) -> Source:
    symbols = [s for path, text in texts.items() for s in symbols_of(path, text)]
    fine = [
        {"path": s["path"], "line_start": s["line_start"], "line_end": s["line_end"], "symbols": [s["symbol"]]}
        for s in symbols
    ]
    coarse = [
        cut
        for path, text in texts.items()
        for cut in line_cut(path, text, 12, [s for s in symbols if s["path"] == path])
    ]
    extent = {"lines": texts[min(texts)].count("\n")} if len(texts) == 1 else {}
    files = {f"{name}/{path}": text.encode() for path, text in texts.items()}
    return Source(f"code:{name}", "code", holder, observed_at, files, extent, fine, coarse, symbols)


def talk(name: str) -> Source:
    holder, observed_at, turns = TALKS[name]
    rows = [{"turn": i, "speaker": who, "text": text} for i, (who, text) in enumerate(turns)]
    count = len(turns)
    return Source(
        f"conversation:{name}", "conversation", holder, observed_at,
        {f"{name}.jsonl": lines_of(rows)}, {"turns": count},
        [{"turn": t} for t in range(count)],
        [{"turn_start": t, "turn_end": min(t + 2, count - 1)} for t in range(0, count, 3)],
    )  # fmt: skip


def lines_of(rows: Iterable[Row]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def sources() -> list[Source]:
    return [
        pdf("manual", "mira", "2026-01-10T10:00:00+00:00", MANUAL),
        pdf("manual-2", "mira", "2026-03-02T10:00:00+00:00", MANUAL_2),
        pdf("budget", "lea", "2026-02-01T12:00:00+00:00", BUDGET),
        pdf("notice", "tom", "2026-01-15T08:00:00+00:00", NOTICE),
        picture("tray", "mira", "2026-02-14T09:00:00+00:00", TRAY),
        picture("bench", "tom", "2026-02-02T09:00:00+00:00", BENCH),
        picture("door", "tom", "2026-03-20T09:00:00+00:00", DOOR),
        screen("panel", "mira", "2026-01-20T11:00:00+00:00", PANEL),
        screen("ledger", "lea", "2026-02-05T11:00:00+00:00", LEDGER_SCREEN),
        clip("lamp", "tom", "2026-02-25T20:00:00+00:00", LAMP),
        clip("cart", "mira", "2026-03-05T15:00:00+00:00", CART),
        code("tools", "lea", "2026-01-05T16:00:00+00:00", {"ledger.py": LEDGER, "watering.py": WATERING}),
        code("sensor", "mira", "2026-02-18T16:00:00+00:00", {"sensor.py": SENSOR}),
        *(talk(name) for name in TALKS),
    ]


# --- the queries ---


def box_of(widgets: dict[str, tuple[str, Box]], name: str) -> Row:
    return {"bbox": list(widgets[name][1])}


def symbol(path: str, name: str) -> Row:
    return {"path": path, "symbol": name}


Ask = tuple[str, str, str, Any, str, list[tuple[str, Row]], str | None]
"""Set, holder, question, answer, format, gold, as_of (None: none is given)."""

ASKS: list[Ask] = [
    ("pdf", "mira", "Where does the valve stand?", "by the door", "str", [("manual-2", {"page": 1})], NOW),
    ("pdf", "mira", "Where does the valve stand?", "under the north bench", "str",
     [("manual", {"page": 1, "block": 1})], "2026-02-01T00:00:00+00:00"),
    ("pdf", "mira", "How many litres a day do tomatoes take?", "5", "int", [("manual-2", {"page": 2})], NOW),
    ("pdf", "mira", "Which two litre figures does the second edition give?", '["5", "0.5"]', "list",
     [("manual-2", {"page": 2, "block": 1}), ("manual-2", {"page": 2, "block": 2})], NOW),
    ("pdf", "lea", "What did the soil cost?", "85.50", "float", [("budget", {"page": 1, "block": 2})], NOW),
    ("pdf", "lea", "What did the plant sale bring?", "310", "int", [("budget", {"page": 2})], NOW),
    ("pdf", "tom", "Where is the fuse box?", "behind the red door", "str", [("notice", {"page": 1})], NOW),
    ("pdf", "tom", "How many litres a day do tomatoes take?", None, "none", [], NOW),
    ("pdf", "mira", "Which manure is best for roses?", None, "none", [], NOW),
    ("image", "mira", "How many green squares are in the seed tray?", "4", "int", [("tray", {})], NOW),
    ("image", "tom", "What stands on the bench beside the green box?", "a red box", "str", [("bench", {})], NOW),
    ("image", "tom", "Which colour has the door?", "red", "str", [("door", {})], NOW),
    ("image", "tom", "Which colour has the door?", None, "none", [], "2026-03-01T00:00:00+00:00"),
    ("image", "lea", "How many green squares are in the seed tray?", None, "none", [], NOW),
    ("ui_screenshot", "mira", "Press the button that starts the water.", "the green button at the upper left", "str",
     [("panel", box_of(PANEL, "water"))], NOW),
    ("ui_screenshot", "mira", "Stop the pump.", "the red button at the upper right", "str",
     [("panel", box_of(PANEL, "stop"))], NOW),
    ("ui_screenshot", "lea", "Read the balance.", "the dark field at the left", "str",
     [("ledger", box_of(LEDGER_SCREEN, "balance"))], None),
    ("ui_screenshot", "lea", "Export the ledger.", "the red button at the lower right", "str",
     [("ledger", box_of(LEDGER_SCREEN, "export"))], NOW),
    ("ui_screenshot", "lea", "Stop the pump.", None, "none", [], NOW),
    ("video", "tom", "For how many seconds is the lamp on?", "8", "int",
     [("lamp", {"t_start": 12.0, "t_end": 20.0})], NOW),
    ("video", "tom", "Is it dark at the beginning?", "yes", "str", [("lamp", {"t_start": 0.0, "t_end": 12.0})], NOW),
    ("video", "mira", "When is the cart in the middle?", "from 8 to 15 s", "str",
     [("cart", {"t_start": 8.0, "t_end": 15.0})], NOW),
    ("video", "mira", "Where does the cart end?", "at the right", "str",
     [("cart", {"t_start": 15.0, "t_end": 30.0})], NOW),
    ("video", "lea", "For how many seconds is the lamp on?", None, "none", [], NOW),
    ("video", "mira", "What does the man with the hat carry?", None, "none", [], None),
    ("code", "lea", "How is the balance rounded?", "to two digits", "str",
     [("tools", symbol("ledger.py", "Ledger.balance"))], NOW),
    ("code", "lea", "What is raised when an entry says nothing?", "ValueError", "str",
     [("tools", {"path": "ledger.py", "line": 12})], NOW),
    ("code", "lea", "How many hours pass between two waterings when it is dry?", "8", "int",
     [("tools", symbol("watering.py", "next_watering"))], None),
    ("code", "mira", "By how much is the thermometer corrected?", "-0.5", "float",
     [("sensor", symbol("sensor.py", "celsius"))], NOW),
    ("code", "mira", "How is the balance rounded?", None, "none", [], NOW),
    ("code", "lea", "Where is the mail sent?", None, "none", [], NOW),
    ("conversation", "mira", "Where are the seedlings kept?", "on the south shelf, row two", "str",
     [("seedlings", {"turn": 4})], NOW),
    ("conversation", "mira", "When are the seedlings turned?", "on Wednesdays at seven in the evening", "str",
     [("seedlings", {"turn": 6})], NOW),
    ("conversation", "tom", "Where is the spare key?", "behind the calendar", "str", [("keys", {"turn": 2})], NOW),
    ("conversation", "lea", "How many tables does the sale need in all?", "8", "int", [("sale", {"turn": 2})], NOW),
    ("conversation", "tom", "What is wrong with the trailer?", "it has a flat tyre", "str",
     [("trailer", {"turn": 0})], NOW),
    ("conversation", "lea", "What is the code of the alarm?", None, "none", [], NOW),
    ("conversation", "lea", "When is the plant sale?", None, "none", [], "2026-03-01T00:00:00+00:00"),
]  # fmt: skip

SCENARIOS = {
    "pdf": "document-qa", "image": "visual-memory", "ui_screenshot": "gui-recall",
    "video": "visual-memory", "code": "code-search", "conversation": "chat-memory",
}  # fmt: skip
TEST_EVERY = 4
"""Of the queries of a set, every fourth is of the test split."""


def queries() -> dict[str, list[Row]]:
    """Set → its lines; one entry more is void: its revision is in no manifest."""
    found: dict[str, list[Row]] = {}
    for modality, holder, question, answer, answer_format, gold, as_of in ASKS:
        lines = found.setdefault(modality, [])
        lines.append(
            {
                "query_id": f"greenhouse-{modality}:{len(lines)}",
                "modality": modality,
                "question": question,
                "answer": answer,
                "answer_format": answer_format,
                "gold": [{"source_id": f"{modality}:{name}", "region": region} for name, region in gold],
                "scope": {
                    "holder": holder,
                    "session": "evening" if modality == "conversation" else None,
                    "scenario": SCENARIOS[modality],
                },
                "as_of": as_of,
                "unanswerable": not gold,
                "origin": {"dataset": NAME, "revision": REVISION, "item": f"row:{len(lines)}", "license": LICENSE},
                "split": "test" if len(lines) % TEST_EVERY == TEST_EVERY - 1 else "dev",
            }
        )
    void = found["image"][0] | {
        "query_id": "greenhouse-image:void",
        "question": "How many red squares are there?",
        "answer": "1",
    }
    void["origin"] = void["origin"] | {"revision": "2025-12-24", "item": "row:0"}
    found["image"].append(void)
    return found


# --- atoms and runs ---


def atoms(cut: Callable[[Source], list[Row]]) -> list[Row]:
    """The lines of an atoms file. Conversations and pictures leave out what the source tells anyway."""
    return [
        {"atom_id": f"{source.source_id}#{number}", "source_id": source.source_id, "region": region}
        | ({} if source.modality in ("conversation", "image") else
           {"modality": source.modality, "holder": source.holder, "observed_at": source.observed_at})
        for source in sources()
        for number, region in enumerate(cut(source))
    ]  # fmt: skip


def flat(region: Row) -> Row:
    """A region as columns of `ely_atoms` and `ely_gold`."""
    box = dict(zip(("x0", "y0", "x1", "y1"), region.get("bbox", ()), strict=False))
    spread = {
        f"{name}_{end}": region[name]
        for name in ("page", "turn", "line", "t")
        if name in region
        for end in ("start", "end")
    }
    return region | box | spread


@dataclass(frozen=True)
class Style:
    """Chances of a system: to find a gold atom, to stay with its holder and time, to call what is none strong."""

    find: float
    keep: float
    boast: float
    repeat: float
    cold_s: float


STYLES = {
    "careful": Style(find=0.95, keep=1.0, boast=0.04, repeat=0.0, cold_s=0.8),
    "hasty": Style(find=0.7, keep=0.92, boast=0.35, repeat=0.15, cold_s=0.3),
}


def run(name: str, held: Sequence[Row], asked: Iterable[Row]) -> Iterator[Row]:
    """What the system ``name`` returned for every query, void ones too."""
    style = STYLES[name]
    of = {source.source_id: source for source in sources()}
    symbols = [s | {"source_id": source.source_id} for source in of.values() for s in source.symbols]
    for query in asked:
        draw = random.Random(f"{name} {query['query_id']}").random
        as_of = query["as_of"] or NOW
        ranked = []
        for atom in held:
            source = of[atom["source_id"]]
            mine = source.holder == query["scope"]["holder"] and source.observed_at <= as_of
            row = dict.fromkeys(ATOMS.schema) | atom | flat(atom["region"])
            hit = any(
                overlaps(
                    dict.fromkeys(GOLD.schema) | gold | flat(gold["region"]) | {"modality": query["modality"]},
                    row,
                    symbols,
                )
                for gold in query["gold"]
            )
            closeness = draw() * (0.6 if source.modality == query["modality"] else 0.3)
            found, kept = draw() < style.find, draw() < style.keep
            if hit and found:
                closeness = 0.7 + 0.3 * draw()
            if mine or not kept:
                ranked.append((round(closeness, 4), atom["atom_id"]))
        ranked = sorted(ranked, key=lambda pair: (-pair[0], pair[1]))[:12]
        returned = [
            {"atom_id": atom_id, "score": score, "strong": score >= 0.7 or (place == 0 and draw() < style.boast)}
            for place, (score, atom_id) in enumerate(ranked)
        ]
        if returned and draw() < style.repeat:
            returned.insert(2, returned[0])
        cold = round(style.cold_s * (0.5 + draw()), 3)
        yield {
            "query_id": query["query_id"],
            "returned": returned,
            "latency": {"cold_s": cold, "warm_s": round(cold * 0.2, 3)},
        }


# --- writing ---


def make(folder: Path) -> None:
    """Writes the sample, all but its README."""
    files: dict[str, bytes] = {}
    asked = queries()
    for modality, lines in asked.items():
        files[f"sets/{modality}.jsonl"] = lines_of(lines)
        index = [s for s in sources() if s.modality == modality]
        files[f"sets/corpus/{modality}.jsonl"] = lines_of(
            {"source_id": s.source_id, "modality": s.modality, "holder": s.holder, "observed_at": s.observed_at}
            | s.extent | ({"symbols": s.symbols} if s.symbols else {})
            for s in index
        )  # fmt: skip
        content = {f"files/{modality}/{name}": data for s in index for name, data in s.files.items()}
        files |= {f"corpus/{name}": data for name, data in content.items()}
        listed = [{"path": name, "sha256": digest(data)} for name, data in sorted(content.items())]
        files["corpus/manifest.jsonl"] = files.get("corpus/manifest.jsonl", b"") + lines_of(
            [
                {
                    "url": f"mabpl:greenhouse-club/{modality}@{REVISION}",
                    "retrieved_at": "2026-04-02T10:00:00+00:00",
                    "sha256": digest("".join(item["sha256"] for item in listed).encode()),
                    "annotation_source": "written by hand by the people who made the files; no system took part",
                    "license": LICENSE,
                    "files": listed,
                }
            ]
        )
    frozen = {name: digest(data) for name, data in sorted(files.items()) if name.startswith("sets/")}
    frozen["corpus/manifest.jsonl"] = digest(files["corpus/manifest.jsonl"])
    listed = [{"path": name, "sha256": value} for name, value in frozen.items()]
    files["sets/manifest.json"] = (json.dumps({"files": listed}, indent=1) + "\n").encode()
    fine = atoms(lambda source: source.fine)
    files["atoms/fine.jsonl"] = lines_of(fine)
    files["atoms/coarse.jsonl"] = lines_of(atoms(lambda source: source.coarse))
    every = [query for lines in asked.values() for query in lines]
    files |= {f"runs/{name}.jsonl": lines_of(run(name, fine, every)) for name in STYLES}
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else ely_sample_folder())
