"""`mabpl manifest`: what is written of videos, and every way in which they may differ from what is said of them."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import videos

from mabpl import open_benchmark
from mabpl.cli.main import run
from mabpl.video.manifest import stated

SET = "session_disjoint_3"
FOLDER = Path("data") / SET
RATES = {"a": Fraction(30), "b": Fraction(30000, 1001), "c": Fraction(10)}
FRAMES = {"a": 60, "b": 45, "c": 20}
Said = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of three clips, with labels and videos."""
    root = tmp_path_factory.mktemp("dataset")
    (root / FOLDER / "videos").mkdir(parents=True)
    rows = []
    for clip, rate in RATES.items():
        videos.make(root / FOLDER / "videos" / f"{clip}.mp4", FRAMES[clip], rate, container={"movflags": "faststart"})
        length = round(float(FRAMES[clip] / rate), 3)
        segment = {"start_s": 0.0, "end_s": length, "label": "lift the box", "is_idle": False, "hands": "both"}
        labels = {"num_frames": FRAMES[clip], "source_fps": round(float(rate), 2), "duration_s": length}
        rows.append({"clip_id": clip, **labels, "segments": [segment]})
    write_rows(root / FOLDER / "labels.jsonl", rows)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    (tmp_path / FOLDER / "videos").mkdir(parents=True)
    for path in made.rglob("*.*"):
        (tmp_path / path.relative_to(made)).write_bytes(path.read_bytes())
    return tmp_path


@pytest.fixture
def check(root: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """The exit code and the differences, as (clip, field, source), of `mabpl manifest check --json`."""

    def call(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run(["manifest", "check", "--root", str(root), "--json", *arguments])
        said = json.loads(capsys.readouterr().out)
        assert said["valid"] == (code == 0)
        return code, [(row["clip_id"], row["field"], row["source"]) for row in said["differences"]]

    return call


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def manifest_of(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / FOLDER / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]


def make(root: Path, *arguments: str) -> int:
    return run(["manifest", "make", "--root", str(root), *arguments])


def test_a_manifest_that_is_made_is_read_and_agrees(root: Path, check: Said) -> None:
    assert make(root, "--set", "session") == 0
    rows = manifest_of(root)
    assert [row["clip_id"] for row in rows] == ["a", "b", "c"]
    digest = hashlib.md5((root / FOLDER / "videos" / "b.mp4").read_bytes()).hexdigest()
    measures = {"width": 160, "height": 96, "fps": 29.97003, "num_frames": 45, "duration_s": 1.502}
    assert rows[1] == {"clip_id": "b", **measures, "md5": digest}
    assert rows[0]["fps"] == 30 and isinstance(rows[0]["fps"], int)
    assert open_benchmark(root).manifest(SET)["num_frames"].to_list() == [60, 45, 20]
    assert check() == (0, [])
    assert check("--decode") == (0, [])
    before = (root / FOLDER / "manifest.jsonl").read_bytes()
    assert make(root) == 2
    assert make(root, "--replace") == 0
    assert (root / FOLDER / "manifest.jsonl").read_bytes() == before


def test_every_difference_is_listed(root: Path, check: Said, capsys: pytest.CaptureFixture[str]) -> None:
    make(root)
    rows = manifest_of(root)
    rows[0] |= {"width": 161, "num_frames": 61, "md5": "0" * 32}
    rows[1] |= {"fps": 30, "duration_s": 1.53}
    write_rows(root / FOLDER / "manifest.jsonl", rows)
    by_manifest = [
        ("a", "width", "manifest"),
        ("a", "num_frames", "manifest"),
        ("a", "md5", "manifest"),
        ("b", "fps", "manifest"),
        ("b", "duration_s", "manifest"),
    ]
    assert check() == (1, by_manifest)
    assert check("--clips", "c") == (0, [])
    assert check("--limit", "1") == (1, by_manifest[:3])
    labels = root / FOLDER / "labels.jsonl"
    labels.write_text(
        labels.read_text(encoding="utf-8").replace('"num_frames": 20', '"num_frames": 21'), encoding="utf-8"
    )
    assert check() == (1, [*by_manifest, ("c", "num_frames", "labels")])
    run(["manifest", "check", "--root", str(root)])
    said = capsys.readouterr().out
    assert f"{SET}, clip a, num_frames: manifest says 61, found 60" in said
    assert "6 differences" in said


def test_without_a_manifest_the_labels_are_held_against(root: Path, check: Said) -> None:
    assert check() == (0, [])
    labels = root / FOLDER / "labels.jsonl"
    labels.write_text(labels.read_text(encoding="utf-8").replace("29.97", "29.9"), encoding="utf-8")
    assert check() == (1, [("b", "fps", "labels")])


def test_missing_foreign_cut_off_and_corrupt_videos_are_listed(root: Path, check: Said) -> None:
    make(root)
    folder = root / FOLDER / "videos"
    (folder / "a.mp4").rename(folder / "stray.mp4")
    whole = (folder / "b.mp4").read_bytes()
    (folder / "b.mp4").write_bytes(whole[: len(whole) * 3 // 4])
    code, found = check()
    assert code == 1
    assert found == [
        ("a", "video", "video"),
        ("b", "video", "video"),
        ("stray", "clip_id", "manifest"),
        ("stray", "clip_id", "labels"),
    ]
    assert make(root, "--replace") == 1
    assert {row["clip_id"] for row in manifest_of(root)} == {"a", "b", "c"}

    (folder / "b.mp4").write_bytes(whole)
    data = bytearray((folder / "c.mp4").read_bytes())
    data[-300:] = bytes(300)
    (folder / "c.mp4").write_bytes(data)
    assert check("--clips", "c") == (1, [("c", "md5", "manifest")])
    assert check("--clips", "c", "--decode") == (1, [("c", "corrupt_packets", "video"), ("c", "md5", "manifest")])


def test_a_clip_is_there_once_in_a_manifest(root: Path, check: Said) -> None:
    make(root)
    rows = manifest_of(root)
    write_rows(root / FOLDER / "manifest.jsonl", [rows[0], rows[0], rows[2]])
    assert check() == (1, [("a", "clip_id", "manifest"), ("b", "clip_id", "manifest")])


@pytest.mark.parametrize(
    "row",
    [
        {"resolution": "160x96", "fps": "30/1", "frames": 60, "duration": 2.0, "md5sum": "{md5}"},
        {"resolution": [160, 96], "frame_rate": 30.0, "frame_count": 60, "duration_sec": 2, "MD5": "{MD5}"},
        {"resolution": {"width": 160, "height": 96}, "source_fps": 30, "nb_frames": "60", "md5": "{md5}"},
        {"width": 160, "height": 96, "num_frames": 60, "duration_s": None, "video_md5": "{md5}"},
    ],
)
def test_plausible_keys_are_understood(row: dict[str, Any], root: Path, check: Said) -> None:
    digest = hashlib.md5((root / FOLDER / "videos" / "a.mp4").read_bytes()).hexdigest()
    row = {key: {"{md5}": digest, "{MD5}": digest.upper()}.get(str(value), value) for key, value in row.items()}
    path = root / FOLDER / "manifest.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps({"clip_id": "a", **row}).encode()))
    assert check("--clips", "a") == (0, [])
    wrong = {key: value for key, value in row.items() if value is not None}
    for key in wrong:
        path.write_bytes(gzip.compress(json.dumps({"clip_id": "a", **row, key: "7x7"}).encode()))
        code, found = check("--clips", "a")
        assert (code, len(found)) == (1, 1), key


def test_a_manifest_that_says_little_is_told_of(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"Frames": 60, "frame_rate": 30, "resolution": "160x96", "sum": "x", "md5": None}
    write_rows(root / FOLDER / "manifest.jsonl", [{"clip_id": clip, **row} for clip in "abc"])
    assert stated(row) == {"resolution": "160x96", "fps": 30, "num_frames": 60}
    run(["manifest", "check", "--root", str(root), "--clips", "a"])
    said = capsys.readouterr()
    assert "the videos are what they should be" in said.out
    assert "says nothing of duration_s, md5" in said.err and "Frames, clip_id" in said.err
