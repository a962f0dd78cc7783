"""From videos and an endpoint to a prediction file: what is asked, what is kept, what is written."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import videos
from model_server import ModelServer, Seen, Timeline

from mabpl.annotate import media
from mabpl.annotate.answers import parser
from mabpl.annotate.forecast import forecast
from mabpl.annotate.outputs import seed_file
from mabpl.cli.main import run
from mabpl.judges import client, retry
from mabpl.judges.endpoint import Price
from mabpl.judges.store import Store

KEY = "sk-never-written-7"
A, B = 432, 540
"""Heights of the frames as they are sent, which tell the two clips apart."""

HUMAN: dict[str, Timeline] = {
    "a": [(5.0 * k, 5.0 * k + 5, f"take cup {k} with the left hand") for k in range(10)],
    "b": [(5.0 * k, 5.0 * k + 5, f"fold cloth {k} with both hands") for k in range(4)],
}
MODEL: dict[int, Timeline] = {
    # one boundary of clip a is a second late; two actions of clip b are one
    A: [(s + (s == 20), e + (e == 20), label) for s, e, label in HUMAN["a"]],
    B: [HUMAN["b"][0], (5.0, 15.0, "fold the cloth with both hands"), (15.0, 20.0, "idle")],
}
WINDOWS = [(A, 0.0), (A, 38.0), (B, 0.0)]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_API_KEY", KEY)
    monkeypatch.setenv("MABPL_DEBUG", "1")
    monkeypatch.setattr(retry, "FIRST_DELAY_S", 0.002)
    monkeypatch.setattr(client, "_ELSEWHERE_S", 0.02)


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dataset")
    folder = root / "data" / "made_2"
    (folder / "videos").mkdir(parents=True)
    lines = []
    for clip_id, size in (("a", (160, 96)), ("b", (160, 120))):
        end = HUMAN[clip_id][-1][1]
        segments = [
            {"start_s": s, "end_s": e, "label": label, "is_idle": False, "hands": None, "flagged": False}
            for s, e, label in HUMAN[clip_id]
        ]
        row = {"clip_id": clip_id, "num_frames": int(end * 30), "source_fps": 30, "duration_s": end}
        lines.append(json.dumps({**row, "segments": segments}))
        videos.make(folder / "videos" / f"{clip_id}.mp4", int(end * 30), size=size, options={"preset": "ultrafast"})
    (folder / "labels.jsonl").write_text("\n".join(lines) + "\n")
    return root


def mabpl(dataset: Path, server: ModelServer, out: Path, *more: str) -> int:
    where = ["--root", str(dataset), "--cache", str(out.parent / "cache"), "--out", str(out), "--processes", "1"]
    return run(["run", *where, "--base-url", server.url, "--model", "m", *more])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def windows(server: ModelServer) -> list[tuple[int, float]]:
    return sorted((seen.height, seen.start_s) for seen in server.seen)


def timelines(path: Path) -> dict[str, list[tuple[float, float, str, bool]]]:
    return {
        row["clip_id"]: [(s["start_s"], s["end_s"], s["label"], s["is_idle"]) for s in row["segments"]]
        for row in lines(path)
    }


EXPECTED = {
    clip_id: [(start, end, label, label == "idle") for start, end, label in MODEL[height]]
    for clip_id, height in (("a", A), ("b", B))
}


# The whole way


def test_from_videos_to_scores(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Clip a: X = Y = 10; the late boundary (1 s = 30 frames) spoils two segments: B = 8, and K = 10 (IoU 5/6, 4/5).

    Clip b: Y = 4, X = 2 (one is idle); of them one matches in both ends, and the double one is, inclusively, half of
    its first human segment: B = 1, K = 2. So Boundary F1 = (80 + 100 * 2/6) / 2, Temporal F1 = (100 + 100 * 4/6) / 2.
    """

    def act(seen: Seen) -> str:
        ways = {WINDOWS[0]: ["429", "prose", "503", "fenced"], WINDOWS[1]: ["relative"], WINDOWS[2]: ["good"]}
        return ways[seen.height, seen.start_s][seen.attempt]

    out = tmp_path / "out" / "mine.made_2.jsonl"
    with ModelServer(timelines=MODEL, act=act, cost=0.5).running() as server:
        assert mabpl(dataset, server, out, "--reasoning-effort", "low", "--extra-body", '{"seed": 5}') == 0
        assert "2 clips finished, 0 not" in capsys.readouterr().out
        assert windows(server) == [WINDOWS[0]] * 4 + WINDOWS[1:]
        assert server.keys == {f"Bearer {KEY}"}
        body = server.seen[-1].body
        assert {name: body[name] for name in ("model", "max_tokens", "seed")} == {
            "model": "m",
            "max_tokens": 32000,
            "seed": 5,
        }
        assert body["chat_template_kwargs"]["reasoning_effort"] == "low"
        assert not {"temperature", "top_p", "stream"} & body.keys()
        before = {path: path.read_bytes() for path in out.parent.iterdir() if path.is_file()}
        assert mabpl(dataset, server, out, "--reasoning-effort", "low", "--extra-body", '{"seed": 5}') == 0
        assert len(server.seen) == 6
        assert {path: path.read_bytes() for path in before} == before
    assert timelines(out) == EXPECTED
    cache = ["--cache", str(out.parent / "cache")]
    assert run(["verdicts", "verify", *cache]) == 0 and run(["verdicts", "list", "--by", "kind,status", *cache]) == 0
    assert re.search(r"window +ok +3", capsys.readouterr().out)
    scores = tmp_path / "scores.json"
    assert run(["score", "--no-judge", "--root", str(dataset), "-p", str(out), "--out", str(scores), "--quiet"]) == 0
    summary = json.loads(scores.read_text())["summary"]
    assert summary["boundary_f1"] == pytest.approx((80 + 100 * 2 / 6) / 2)
    assert summary["temporal_f1"] == pytest.approx((100 + 100 * 4 / 6) / 2)

    for verb in ("score", "joint"):
        assert run([verb, "--judge", "embedded", "--root", str(dataset), "-p", str(out), "--quiet"]) == 0
    bundle = tmp_path / "bundle"
    assert run(["submission", "make", str(bundle), "--root", str(dataset), "-p", str(out)]) == 3  # the embedded judge
    assert run(["submission", "check", str(bundle), "--root", str(dataset)]) == 3
    assert (bundle / "mine.made_2.jsonl.run.json").is_file()

    used = lines(Path(f"{out}.usage.jsonl"))
    assert Counter(row["status"] for row in used) == {"error": 2, "no_json": 1, "ok": 3}
    assert {row["frames"] for row in used} == {270, 72, 120}
    assert all(row["media_bytes"] > 1000 and row["crf"] == 18 and row["seconds"] > 0 for row in used)
    (answered, *_) = [row for row in used if row["status"] == "ok"]
    assert [answered[name] for name in ("tokens_in", "tokens_out", "tokens_reasoning", "cost")] == [9000, 400, 300, 0.5]
    facts = json.loads(Path(f"{out}.run.json").read_text())
    assert facts["run"]["route"] == "self-hosted" and facts["run"]["input"]["layout"] == "mp4"
    assert facts["usage"]["cost"] == 2.0 and facts["clips"] == {"of_set": 2, "finished": 2, "failed": {}}
    assert (
        facts["run"]["prompt"]["file"] == "segmentation_prompt_mp4.txt"
        and facts["date"]["first"] <= facts["date"]["last"]
    )
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in path.read_bytes() or server.url.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize(("layout", "images"), [("frames", 120), ("grids", 30)])
def test_images(dataset: Path, tmp_path: Path, layout: str, images: int) -> None:
    out = tmp_path / "mine.jsonl"
    with ModelServer(timelines=MODEL).running() as server:
        assert mabpl(dataset, server, out, "--input", layout, "--clips", "b") == 0
        (seen,) = server.seen
    assert seen.frames == 120
    assert sum(part["type"] == "image_url" for part in seen.body["messages"][0]["content"]) == images
    assert timelines(out) == {"b": EXPECTED["b"]}


def test_each_seed_is_a_run_and_windows_are_made_once(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "mine.made_2.jsonl"
    submit = media.ProcessPoolExecutor.submit
    done: Counter[str] = Counter()

    def counted(pool: Any, function: Any, *arguments: Any) -> Any:
        done[function.__name__] += 1
        return submit(pool, function, *arguments)

    monkeypatch.setattr(media.ProcessPoolExecutor, "submit", counted)
    with ModelServer(timelines=MODEL).running() as server:
        assert mabpl(dataset, server, out, "--seeds", "1,11,21", "--concurrency", "1") == 0
        assert Counter(seen.seed for seen in server.seen) == {1: 3, 11: 3, 21: 3}
    assert done == {"probe": 2, "render": 3}
    for seed in (1, 11, 21):
        each = tmp_path / f"mine_seed{seed}.made_2.jsonl"
        assert timelines(each) == EXPECTED
        assert json.loads(Path(f"{each}.run.json").read_text())["run"]["generation_seed"] == seed
    assert not out.exists()


# Faults


def test_a_failed_window_fails_its_clip_until_the_next_run(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.jsonl"
    with ModelServer(timelines=MODEL, act=lambda seen: "prose" if seen.start_s else "good").running() as server:
        assert mabpl(dataset, server, out) == 3
        assert "a failed, and is tried again by the next run: window 38-50 s: no_json x4" in capsys.readouterr().err
        assert windows(server) == [WINDOWS[0], *[WINDOWS[1]] * 4, WINDOWS[2]]
        assert timelines(out) == {"b": EXPECTED["b"]}
        assert json.loads(Path(f"{out}.run.json").read_text())["clips"]["failed"].keys() == {"a"}
        assert run(["score", "--no-judge", "--root", str(dataset), "-p", str(out), "--clips", "b", "--quiet"]) == 0
        server.act = lambda seen: "good"
        assert mabpl(dataset, server, out) == 0
        assert len(server.seen) == 7
    assert timelines(out) == EXPECTED


def test_stored_answers_are_read_again_leniently(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.jsonl"
    with ModelServer(timelines=MODEL, act=lambda seen: "comma").running() as server:
        assert mabpl(dataset, server, out, "--clips", "b") == 3
        assert not out.exists() and len(server.seen) == 4
        assert mabpl(dataset, server, out, "--clips", "b", "--parse-mode", "lenient") == 0
        assert len(server.seen) == 4
        assert "1 repairs in 1 clips" in capsys.readouterr().err
        assert timelines(out) == {"b": EXPECTED["b"]}
        assert mabpl(dataset, server, out, "--clips", "b") == 2
        assert "read leniently" in capsys.readouterr().err


def test_bad_videos_are_named_before_anything_is_paid(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clips = tmp_path / "videos"
    clips.mkdir()
    whole = (dataset / "data" / "made_2" / "videos" / "a.mp4").read_bytes()
    short = videos.make(tmp_path / "short.mp4", 46 * 6, 6).read_bytes()  # its first window is whole
    (clips / "b.mp4").symlink_to(dataset / "data" / "made_2" / "videos" / "b.mp4")
    with ModelServer(timelines=MODEL).running() as server:
        faults = {"cut off": whole[: len(whole) // 2], "no such file": None, "no video": b"x" * 9000, "lasts 46": short}
        for why, data in faults.items():
            out = tmp_path / why.replace(" ", "") / "mine.jsonl"
            (clips / "a.mp4").unlink(missing_ok=True)
            if data is not None:
                (clips / "a.mp4").write_bytes(data)
            assert mabpl(dataset, server, out, "--videos", str(clips), "--cache", str(tmp_path / "cache")) == 3
            said = capsys.readouterr().err
            assert "bad video, skipped" in said and "a.mp4" in said and why in said
            assert timelines(out) == {"b": EXPECTED["b"]}
        assert windows(server) == [WINDOWS[2]]


def test_an_endpoint_that_rejects_leaves_what_is_finished(dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.jsonl"
    with ModelServer(timelines=MODEL, act=lambda seen: "good" if seen.height == B else "401").running() as server:
        assert mabpl(dataset, server, out, "--clips", "b") == 0
        assert mabpl(dataset, server, out, "--seeds", "1,2,3,4,5") == 4
    assert timelines(out) == {"b": EXPECTED["b"]}


def test_a_file_of_another_run_is_left_alone(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine.jsonl"
    with ModelServer(timelines=MODEL).running() as server:
        assert mabpl(dataset, server, out, "--clips", "b") == 0
        before = out.read_bytes()
        assert mabpl(dataset, server, out, "--temperature", "0.6") == 2
        assert '"temperature": 0.6' in capsys.readouterr().err
        Path(f"{out}.run.json").unlink()
        assert mabpl(dataset, server, out) == 2
        assert out.read_bytes() == before and len(server.seen) == 1


def test_the_largest_uri(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was answered without a limit is not asked again with one; what is too large is encoded anew."""
    out = tmp_path / "mine.jsonl"
    with ModelServer(timelines=MODEL).running() as server:
        assert mabpl(dataset, server, out, "--clips", "b") == 0
        (plain,) = lines(Path(f"{out}.usage.jsonl"))
        limit = plain["media_bytes"] * 4 / 3 / 1e6 / 1.5
        other = tmp_path / "other" / "mine.jsonl"
        assert mabpl(dataset, server, other, "--clips", "b", "--max-uri-mb", str(limit)) == 0
        (small,) = lines(Path(f"{other}.usage.jsonl"))
        assert (
            small["crf"] > 18
            and len(server.seen[-1].body["messages"][0]["content"][1]["video_url"]["url"]) <= limit * 1e6
        )
        assert "1 windows were encoded at a higher CRF than 18" in capsys.readouterr().err
        assert mabpl(dataset, server, tmp_path / "third.jsonl", "--clips", "b", "--max-uri-mb", str(limit)) == 0
        assert mabpl(dataset, server, tmp_path / "fourth.jsonl", "--clips", "b", "--max-uri-mb", "0.001") == 0
        assert len(server.seen) == 2
        fresh = tmp_path / "fresh" / "mine.jsonl"
        assert mabpl(dataset, server, fresh, "--clips", "b", "--max-uri-mb", "0.001") == 3
        assert "even at CRF 51" in capsys.readouterr().err and len(server.seen) == 2


# Killed


def start(dataset: Path, url: str, out: Path) -> subprocess.Popen[bytes]:
    where = ["--root", str(dataset), "--cache", str(out.parent / "cache"), "--out", str(out), "--processes", "1"]
    command = [sys.executable, "-m", "mabpl", "run", *where, "--base-url", url, "--model", "m"]
    return subprocess.Popen(
        [*command, "--seeds", "1,2,3,4", "--concurrency", "2", "--quiet"], stdout=subprocess.DEVNULL
    )


def test_killed_at_any_point_nothing_answered_is_asked_again(dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.jsonl"
    draw = random.Random(4)
    with ModelServer(timelines=MODEL, delay=0.15).running() as server:
        answered: set[Any] = set()
        for _ in range(3):
            count = len(server.seen)
            process = start(dataset, server.url, out)
            while len(server.seen) < count + 3 and process.poll() is None:
                time.sleep(0.01)
            time.sleep(draw.random() * 0.3)
            children = children_of(process.pid)
            process.send_signal(signal.SIGKILL)
            process.wait()
            for path in tmp_path.glob("mine_seed?.jsonl"):
                assert timelines(path).items() <= EXPECTED.items()
            assert answered.isdisjoint(seen.window for seen in server.seen[count:])
            answered = stored(tmp_path / "cache")
            assert not still_there(children)
        count = len(server.seen)
        assert start(dataset, server.url, out).wait() == 0
        assert answered.isdisjoint(seen.window for seen in server.seen[count:])
    assert len(stored(tmp_path / "cache")) == 12
    for seed in (1, 2, 3, 4):
        assert timelines(tmp_path / f"mine_seed{seed}.jsonl") == EXPECTED


def stored(folder: Path) -> set[Any]:
    """The windows that have a usable answer on disk."""
    with Store.open(folder, parser=parser("strict")) as store, store.commits.reading() as db:
        rows = db.execute(
            """SELECT r.predicted_label, r.also, q.seed FROM questions q JOIN requests r USING (request)
            WHERE EXISTS (SELECT 1 FROM answers a WHERE a.key = q.key AND outcome = 'answered')"""
        ).fetchall()
    ends = {'["0.0","45.0"]': (A, 0.0), '["38.0","50.0"]': (A, 38.0), '["0.0","20.0"]': (B, 0.0)}
    return {(*ends[also], seed) for _, also, seed in rows}


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def still_there(pids: list[int]) -> list[int]:
    """Those of ``pids`` that go on for five seconds."""
    end = time.monotonic() + 5
    while pids and time.monotonic() < end:
        time.sleep(0.05)
        pids = [pid for pid in pids if runs(pid)]
    return pids


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# Batches


def test_a_batch_is_a_run(dataset: Path, tmp_path: Path) -> None:
    live, out = tmp_path / "live" / "mine.jsonl", tmp_path / "batch" / "mine.jsonl"
    ask = tmp_path / "ask.jsonl"
    with ModelServer(timelines=MODEL).running() as server:
        assert mabpl(dataset, server, live) == 0
        assert mabpl(dataset, server, out, "--export", str(ask)) == 0
        assert len(server.seen) == 3
        asked = lines(ask)
        by_window = sorted(json.dumps(seen.body, sort_keys=True) for seen in server.seen)
        assert sorted(json.dumps(line["body"], sort_keys=True) for line in asked) == by_window
        replies = []
        for line in asked:
            seen = server._look(line["body"])
            content = server._said(seen, "prose" if seen.start_s else "good")
            body = {
                "choices": [{"finish_reason": "stop", "message": {"content": content}}],
                "usage": {"prompt_tokens": 7},
            }
            replies.append({"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}})
        (tmp_path / "1.jsonl").write_text("\n".join(map(json.dumps, replies)))
        assert mabpl(dataset, server, out, "--import", str(tmp_path / "1.jsonl")) == 3
        assert timelines(out) == {"b": EXPECTED["b"]}
        assert mabpl(dataset, server, out, "--export", str(ask)) == 0
        assert [line["custom_id"] for line in lines(ask)] == [
            line["custom_id"] for line in asked if server._look(line["body"]).start_s
        ]
        assert mabpl(dataset, server, out) == 0
        assert len(server.seen) == 4
    assert out.read_bytes() == live.read_bytes()


# Forecast and names


def test_a_trial_tells_what_the_whole_set_costs(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ModelServer(timelines=MODEL, cost=0.5).running() as server:
        assert mabpl(dataset, server, tmp_path / "mine.jsonl", "--limit", "1") == 0
    said = capsys.readouterr().out
    # clip a shows 45 + 12 s in two windows for 1.00; clip b adds 20 s
    assert "The whole set (2 clips, 3 windows), by these 2" in said
    assert f"cost {1.0 * 77 / 57:.2f}" in said and f"{18_000 * 77 / 57:,.0f} tokens in" in said


def test_forecast_counts_retries_and_prices_tokens() -> None:
    row = {"clip_id": "a", "start_s": 0.0, "end_s": 45.0, "question": "q", "seconds_to_make": 9.0}
    failed = {**row, "tokens_in": 100, "tokens_out": 10, "tokens_reasoning": None, "cost": None, "seconds": 30.0}
    rows = [failed, {**failed, "tokens_out": 30}]
    found = forecast(rows, [45.0] * 10, runs=2, concurrency=4, processes=1, price=Price(10.0, 100.0))
    assert (found.windows, found.tried, found.tokens_in, found.tokens_out, found.tokens_reasoning) == (
        20,
        1,
        4000,
        800,
        None,
    )
    assert found.cost == pytest.approx(4000 * 10e-6 + 800 * 100e-6)
    assert found.minutes == pytest.approx(60 * 20 / 4 / 60)
    slow = forecast(rows, [45.0] * 10, runs=2, concurrency=100, processes=1)
    assert slow.minutes == pytest.approx(9 * 10 / 60) and slow.cost is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mine.jsonl", "mine_seed7.jsonl"),
        ("mine.operator_disjoint_59.jsonl", "mine_seed7.operator_disjoint_59.jsonl"),
        ("mine.59.jsonl", "mine_seed7.59.jsonl"),
        ("mine.v2.jsonl", "mine.v2_seed7.jsonl"),
        ("mine", "mine_seed7"),
    ],
)
def test_names_of_seeds(name: str, expected: str) -> None:
    assert seed_file(Path("out") / name, 7, "operator_disjoint_59") == Path("out") / expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "1,x"], "no list of seeds"),
        (["--seeds", "1,1"], "not possible"),
        (["--seeds", "1", "--extra-body", '{"seed": 2}'], "cannot set seed"),
        (["--extra-body", "[1]"], "no JSON object"),
        (["--reasoning-dialect", "none", "--reasoning-effort", "low"], "dialect none"),
        (["--base-url", "https://openrouter.ai/api/v1"], "set MODEL_API_KEY"),
        (["--videos", "nowhere"], "there is no such folder"),
    ],
)
def test_wrong_use(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.delenv("MODEL_API_KEY")
    assert mabpl(dataset, ModelServer(url="http://127.0.0.1:9/v1"), tmp_path / "mine.jsonl", *arguments) == 2
    assert said in capsys.readouterr().err


def test_help_and_dry_run(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = ModelServer(url="http://127.0.0.1:9/v1")
    assert mabpl(dataset, server, tmp_path / "mine.jsonl", "--dry-run", "--seeds", "1,2") == 0
    assert "6 of them to ask" in capsys.readouterr().out
    assert os.listdir(tmp_path) == ["cache"]  # noqa: PTH208
