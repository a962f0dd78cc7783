"""How many frames a second are decoded and scaled: a 1080p clip at 6 frames a second, one thread.

    python tests/benches/video.py

Held against bare PyAV (decode every frame, scale every fifth by swscale) and against OpenCV (grab every frame, retrieve
and scale every fifth). Ours may take 1.1 times bare PyAV's time (of the processor: each has one thread). All must take
the same frames: each carries its number. Ours and bare PyAV must give the same pixels. The last window, which begins
at a keyframe in the middle, is shown too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import harness
from harness import KILOBYTE, Contestant, Goal

HERE = Path(__file__).resolve().parent
RATE, FPS, WIDTH, HEIGHT = 30, 6, 720, 404
STRIDE = RATE // FPS
LAST, LAST_S = "ours, last window", 5.0


def make(path: Path, seconds: int) -> None:
    """A clip of a moving camera: texture that shifts, under the blocks that carry the frame's number."""
    import av
    import numpy as np

    sys.path.insert(0, str(HERE.parent))
    import videos

    noise = np.random.default_rng(1).integers(-30, 31, (320, 580), np.int16)
    ground = np.kron(noise, np.ones((4, 4), np.int16))
    with av.open(str(path), "w", format="mp4") as file:
        stream = file.add_stream("libx264", rate=RATE, options={"preset": "veryfast", "g": "60"})
        stream.width, stream.height, stream.pix_fmt = 1920, 1080, "yuv420p"
        stream.codec_context.thread_count = 1
        for number in range(seconds * RATE):
            top, left = int(100 + 90 * np.sin(number / 20)), int(200 + 180 * np.cos(number / 31))
            texture = ground[top : top + 1080, left : left + 1920, None]
            picture = np.clip(videos.draw(number, 1920, 1080) + texture, 0, 255).astype(np.uint8)
            frame = av.VideoFrame.from_ndarray(picture)
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            file.mux(stream.encode(frame))
        file.mux(stream.encode())


def ours(path: str, seconds: int) -> Iterator[Any]:
    from mabpl.video import iter_frames

    return (frame.image for frame in iter_frames(path, 0, seconds, FPS, WIDTH))


def last_window(path: str, seconds: int) -> Iterator[Any]:
    from mabpl.video import iter_frames

    return (frame.image for frame in iter_frames(path, seconds - LAST_S, seconds, FPS, WIDTH))


def bare_pyav(path: str, seconds: int) -> Iterator[Any]:
    import av
    from av.video.reformatter import Interpolation as How
    from av.video.reformatter import VideoReformatter

    how = How.BICUBIC | How.ACCURATE_RND | How.FULL_CHR_H_INT
    scaler = VideoReformatter()
    with av.open(path) as file:
        file.streams.video[0].codec_context.thread_count = 1
        for number, frame in enumerate(file.decode(video=0)):
            if number % STRIDE == 0:
                yield scaler.reformat(frame, WIDTH, HEIGHT, "rgb24", interpolation=how, threads=1).to_ndarray()


def opencv(path: str, seconds: int) -> Iterator[Any]:
    import cv2

    cv2.setNumThreads(1)
    capture = cv2.VideoCapture(path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    number = 0
    while capture.grab():
        if number % STRIDE == 0:
            yield cv2.resize(capture.retrieve()[1], (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
        number += 1


CONTESTANTS: dict[str, Callable[[str, int], Iterator[Any]]] = {
    "ours": ours,
    LAST: last_window,
    "bare PyAV": bare_pyav,
    "OpenCV": opencv,
}


def contestant(name: str, path: str, seconds: int) -> None:
    next(CONTESTANTS[name](path, seconds))  # imports
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in CONTESTANTS[name](path, seconds):
        pass
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE / 1e6
    found = checks(name, path, seconds)
    print(json.dumps({"wall_s": [wall], "cpu_s": [cpu], "peak_mb": peak_mb, "checks": found}))


def checks(name: str, path: str, seconds: int) -> dict[str, Any]:
    sys.path.insert(0, str(HERE.parent))
    import videos

    if name == LAST:
        first = round((seconds - LAST_S) * RATE)
        assert [videos.read(image) for image in last_window(path, seconds)] == [*range(first, seconds * RATE, STRIDE)]
        return {}
    pixels, numbers = hashlib.sha256(), []
    for image in CONTESTANTS[name](path, seconds):
        pixels.update(image)
        numbers.append(videos.read(image))
    found: dict[str, Any] = {"frames": hashlib.sha256(repr(numbers).encode()).hexdigest()}
    return found if name == "OpenCV" else {**found, "pixels": pixels.hexdigest()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=45, help="length of the clip")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "video.json", help="where the figures go")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--contestant", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    command = (sys.executable, __file__, "--seconds", str(given.seconds))
    if given.make:
        make(given.make, given.seconds)
    elif given.contestant:
        contestant(*given.contestant, given.seconds)
    else:
        with tempfile.TemporaryDirectory() as folder:
            clip = Path(folder) / "clip.mp4"
            harness.measure(Contestant("the clip", (*command, "--make", str(clip))))
            racers = [Contestant(n, (*command, "--contestant", n, str(clip)), reports=True) for n in CONTESTANTS]
            results = harness.race(racers, given.rounds)
            megabytes = round(clip.stat().st_size / 1e6)
        goals(given.seconds, megabytes, results, given.out)


def goals(seconds: int, megabytes: int, results: dict[str, harness.Result], out: Path) -> None:
    cpu = {name: result.row(name)["cpu_s"] for name, result in results.items()}
    found = [Goal("ours / bare PyAV", cpu["ours"] / cpu["bare PyAV"], at_most=1.1)]
    whole = [name for name in CONTESTANTS if name != LAST]
    found += [Goal(f"{name}, frames of the file a second", seconds * RATE / cpu[name]) for name in whole]
    found.append(Goal("last window / the whole clip", cpu[LAST] / cpu["ours"]))
    corpus = {"seconds_of_1080p": seconds, "frames_a_second": RATE, "megabytes": megabytes}
    harness.conclude("video", corpus, results, found, out)


if __name__ == "__main__":
    main()
