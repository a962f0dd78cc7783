"""Whether a whole run of a model is bounded by decoding its clips: against a stub that answers at once.

    python tests/benches/run_model.py

`ours` decodes, encodes, asks, keeps on disk, parses, stitches and writes; `render` makes the same windows in as many
processes, and sends them nowhere. A run may take 1.15 times as long, and what it needs to start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import harness
from harness import KILOBYTE, Contestant, Goal

HERE = Path(__file__).resolve().parent
SIZE, SECONDS = (1280, 720), 83
"""Clips of two windows, 0 to 45 s and 38 to 83 s."""


def make(folder: Path, clips: int) -> None:
    """A dataset folder of generated clips."""
    sys.path.insert(0, str(HERE.parent))
    import videos

    home = folder / "data" / "bench_1"
    (home / "videos").mkdir(parents=True)
    rows = []
    for number in range(clips):
        path = home / "videos" / f"{number:03d}.mp4"
        if number:  # the same pictures, another file: equal files are asked about once
            box = b"\x00\x00\x00\x0cfree" + number.to_bytes(4)
            path.write_bytes((home / "videos" / "000.mp4").read_bytes() + box)
        else:
            videos.make(path, SECONDS * 30, size=SIZE, options={"preset": "ultrafast"})
        segment = {"start_s": 0.0, "end_s": float(SECONDS), "label": "take the cup", "is_idle": False}
        rows.append({"clip_id": path.stem, "duration_s": float(SECONDS), "segments": [segment]})
    (home / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


async def stub() -> None:
    """Answers every POST with one segment for each of both windows; prints its port."""
    segments = [{"start_s": t, "end_s": t + 5.0, "label": "take the cup", "is_idle": False} for t in range(0, 83, 5)]
    message = {"content": json.dumps({"segments": segments})}
    reply = json.dumps({"choices": [{"finish_reason": "stop", "message": message}]}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n\r\n".encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                fields = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(fields.partition(b"content-length:")[2].partition(b"\r\n")[0]))
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            writer.write(head + reply)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def ours(folder: Path, layout: str, processes: int) -> int:
    from mabpl.cli.main import run

    with subprocess.Popen([sys.executable, __file__, "--stub"], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        with tempfile.TemporaryDirectory() as out:
            arguments = ["--root", str(folder), "--cache", f"{out}/cache", "--out", f"{out}/mine.jsonl", "--json"]
            arguments += ["--base-url", url, "--model", "stub", "--input", layout, "--processes", str(processes)]
            code = run(["run", *arguments, "--quiet"])
            windows = len(Path(f"{out}/mine.jsonl.usage.jsonl").read_bytes().splitlines())
        server.terminate()
    assert code == 0 or windows
    return windows


def render_all(folder: Path, layout: str, processes: int) -> int:
    from mabpl.annotate.messages import render, window_part
    from mabpl.video import windows

    parts = [window_part(layout, path.stem, *window) for path in _videos(folder) for window in windows(SECONDS)]
    paths = [path for path in _videos(folder) for _ in windows(SECONDS)]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        return sum(made.media_bytes > 0 for made in pool.map(render, paths, parts))


def _videos(folder: Path) -> list[Path]:
    return sorted((folder / "data" / "bench_1" / "videos").iterdir())


CONTESTANTS = {"ours": ours, "render": render_all}


def contestant(name: str, folder: Path, layout: str, processes: int) -> None:
    wall, cpu = time.perf_counter(), _cpu()
    windows = CONTESTANTS[name](folder, layout, processes)
    wall, cpu = time.perf_counter() - wall, _cpu() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE / 1e6
    print()
    print(json.dumps({"wall_s": [wall], "cpu_s": [cpu], "peak_mb": peak_mb, "checks": {"windows": windows}}))


def _cpu() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant")
    parser.add_argument("--layout", default="mp4", choices=["mp4", "frames", "grids", "printed"])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "run_model.json", help="where the figures go")
    parser.add_argument("--stub", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stub:
        asyncio.run(stub())
    elif given.contestant:
        contestant(given.contestant, given.folder, given.layout, given.processes)
    else:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), given.clips)
            same = ("--folder", folder, "--layout", given.layout, "--processes", str(given.processes))
            command = (sys.executable, __file__, *same, "--contestant")
            racers = [Contestant(name, (*command, name), reports=True) for name in CONTESTANTS]
            results = harness.race(racers, given.rounds)
        ratio = results["ours"].wall / results["render"].wall
        goals = [
            Goal("the whole run, by making its windows alone", ratio, at_most=1.15),
            Goal("seconds of video a second", given.clips * 90 / results["ours"].wall),
        ]
        harness.conclude("run_model", {"clips": given.clips, "seconds_each": SECONDS}, results, goals, given.out)


if __name__ == "__main__":
    main()
