"""Which frames are taken, how they look, what becomes of broken files: by videos whose frames carry their number."""

from __future__ import annotations

import gc
import io
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import PIL.Image
import pytest
import videos
from hypothesis import given, settings
from hypothesis import strategies as st

from mabpl import video
from mabpl.errors import InputError, MissingExtra, UsageError
from mabpl.video.frames import scaled_size

NTSC = Fraction(30000, 1001)
JITTER = random.Random(7)
UNEVEN = [k / 25 + JITTER.uniform(-0.015, 0.015) * (k > 0) + (2.5 if k > 90 else 0) for k in range(120)]
"""About 25 frames a second with jitter, and a pause of 2.5 s in which one frame stays on screen."""


def numbers(path: Path, start_s: float, end_s: float, fps: float = 6, **options: Any) -> list[int]:
    return [videos.read(frame.image) for frame in video.iter_frames(path, start_s, end_s, fps, 320, **options)]


def expected(stamps: Sequence[float | Fraction], start_s: float, end_s: float, fps: int = 6) -> list[int]:
    """The last frame that is stamped at most a microsecond after each start + k / fps before the end."""
    taken = []
    k = 0
    while (time := Fraction(str(start_s)) + Fraction(k, fps)) < Fraction(str(end_s)):
        taken.append(max(i for i, stamp in enumerate(stamps) if stamp <= time + Fraction(1, 10**6)))
        k += 1
    return taken


# --- windows and times ---


@pytest.mark.parametrize(
    ("duration", "cut"),
    [
        (70.5, [(0.0, 45.0), (38.0, 70.5)]),
        (45.0, [(0.0, 45.0)]),
        (45.001, [(0.0, 45.0), (38.0, 45.001)]),
        (83.0, [(0.0, 45.0), (38.0, 83.0)]),
        (83.5, [(0.0, 45.0), (38.0, 83.0), (76.0, 83.5)]),
        (7, [(0.0, 7.0)]),
    ],
)
def test_windows_stop_with_the_first_that_reaches_the_end(duration: float, cut: list[tuple[float, float]]) -> None:
    assert video.windows(duration) == cut


@settings(deadline=None)
@given(st.integers(1, 500_000), st.integers(500, 60_000), st.integers(1, 10))
def test_windows_cover_the_clip(milliseconds: int, length_ms: int, share: int) -> None:
    duration, length, stride = milliseconds / 1e3, length_ms / 1e3, length_ms * share // 10 / 1e3
    cut = video.windows(duration, length, stride)
    assert cut[0][0] == 0 and cut[-1][1] == duration
    assert all(start < end for start, end in cut)
    assert all(later[0] <= end < duration for (_, end), later in pairwise(cut))
    assert [start for start, _ in cut] == pytest.approx([k * stride for k in range(len(cut))], abs=1e-6)


@pytest.mark.parametrize("wrong", [(0,), (-1,), (float("nan"),), (float("inf"),), (9, 0), (9, 45, 0), (9, 30, 31)])
def test_windows_that_cannot_be_are_refused(wrong: tuple[float, ...]) -> None:
    with pytest.raises(UsageError):
        video.windows(*wrong)


@settings(deadline=None)
@given(st.integers(0, 3000), st.integers(1, 3000), st.sampled_from([1, 5, 6, 10, 30]))
def test_times_are_counted(start: int, length: int, fps: int) -> None:
    start_s, end_s = start / 10, (start + length) / 10
    times = video.frame_times(start_s, end_s, fps)
    assert len(times) == -(-length * fps // 10)
    assert times == pytest.approx([start_s + k / fps for k in range(len(times))], abs=1e-9)
    assert times[-1] < end_s


def test_a_window_has_270_times() -> None:
    assert len(video.frame_times(38, 83)) == 270
    assert video.frame_times(51.5, 51.667) == [51.5, 51.5 + 1 / 6]
    for wrong in [(1, 1), (2, 1), (-1, 1), (0, float("nan"))]:
        with pytest.raises(UsageError):
            video.frame_times(*wrong)


# --- which frames ---

KINDS: dict[str, dict[str, Any]] = {
    "30 a second": {"rate": 30},
    "29.97 a second": {"rate": NTSC},
    "60 a second": {"rate": 60},
    "10 a second": {"rate": 10},
    "5 a second": {"rate": 5},
    "uneven": {"times": UNEVEN},
    "starts at 2 s": {"times": [2 + k / 30 for k in range(120)]},
    "starts at the delay of its B-frames": {"container": {"use_editlist": "0"}},
    "one keyframe": {"keyframes": 999},
    "open groups of pictures": {"options": {"x264-params": "open-gop=1:bframes=4:b-adapt=0"}},
    "no B-frames": {"options": {"bf": "0"}},
    "fragments": {"container": {"movflags": "frag_keyframe+empty_moov"}},
    "full range": {"pix_fmt": "yuvj420p"},
    "odd size": {"size": (161, 97), "pix_fmt": "yuv444p"},
    "turned by 90": {"turned": 90},
    "turned by 180": {"turned": 180},
    "turned by 270": {"turned": 270},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_frame_on_screen_is_taken(kind: str, tmp_path: Path) -> None:
    made = KINDS[kind]
    path = videos.make(tmp_path / "clip.mp4", 120, **made)
    rate = Fraction(made.get("rate", 30))
    stamps = made.get("times", [k / rate for k in range(120)])
    stamps = [stamp - stamps[0] for stamp in stamps]
    end_s = round(float(stamps[-1]), 3)
    for start_s in (0, 0.05, 1, 1.9, round(end_s - 0.6, 3)):
        assert numbers(path, start_s, end_s) == expected(stamps, start_s, end_s)
    assert numbers(path, 0.7, 1.8, fps=25) == expected(stamps, 0.7, 1.8, 25)


def test_a_slack_of_a_microsecond_and_no_more(tmp_path: Path) -> None:
    late = videos.make(tmp_path / "late.mp4", 12, times=[k / 6 + 3 / 90_000 * (k > 0) for k in range(12)])
    assert numbers(late, 0, 2) == [0, *range(11)]
    on_time = videos.make(tmp_path / "on_time.mp4", 12, 6)
    assert numbers(on_time, 0, 2) == list(range(12))


def test_a_seek_changes_no_pixel_and_decodes_no_frame_before_the_keyframe(tmp_path: Path) -> None:
    path = videos.make(tmp_path / "clip.mp4", 240)
    whole = {round(frame.time_s, 6): frame.image for frame in video.iter_frames(path, 0, 8)}
    for start_s in (1.0, 3.5, 7.5):
        part = list(video.iter_frames(path, start_s, 8))
        assert all(np.array_equal(frame.image, whole[round(frame.time_s, 6)]) for frame in part)
        assert len(part) == round((8 - start_s) * 6)
    spoil(path, [35, 200])
    assert met(path, 0, 8) == met(path, 1, 8) == pytest.approx([35 / 30, 200 / 30], abs=0.2)
    assert met(path, 5, 8) == pytest.approx([200 / 30], abs=0.2)


def test_frames_without_stamps_are_counted(tmp_path: Path) -> None:
    path = videos.make(tmp_path / "clip.h264", 120)
    assert numbers(path, 0, 4) == numbers(path, 0, 2) + numbers(path, 2, 4)
    stamps = [Fraction(k, 25) for k in range(120)]  # such a stream states no rate: 25 is what readers take
    assert numbers(path, 0, 4) == expected(stamps, 0, 4)


def test_the_display_matrix_is_that_of_a_phone_held_upright(tmp_path: Path) -> None:
    path = videos.make(tmp_path / "clip.mp4", 2, turned=90)
    one = 65536
    matrix = np.array([0, one, 0, -one, 0, 0], ">i4").tobytes()
    assert matrix in path.read_bytes()
    info = video.probe(path)
    assert (info.width, info.height, info.rotation) == (96, 160, 90)


# --- how they look ---


@pytest.mark.parametrize(
    ("size", "scaled"),
    [
        ((1920, 1080), (720, 404)),
        ((1080, 1920), (404, 720)),
        ((1440, 1080), (720, 540)),
        ((848, 480), (720, 408)),
        ((320, 240), (720, 540)),
        ((161, 97), (720, 434)),
        ((4000, 3), (720, 2)),
        ((720, 720), (720, 720)),
    ],
)
def test_sizes_are_even(size: tuple[int, int], scaled: tuple[int, int]) -> None:
    assert scaled_size(*size, 720) == scaled


COLOURS = {
    "white": (255, 255, 255),
    "black": (0, 0, 0),
    "red": (220, 30, 30),
    "green": (20, 200, 90),
    "grey": (8, 8, 8),
}
BT709, BT601 = (0.2126, 0.0722), (0.299, 0.114)


def flat(path: Path, rgb: tuple[int, int, int], weights: tuple[float, float], space: int, full: bool, fmt: str) -> Path:
    """One second of one colour, encoded by the definition of its colour space; marked so."""
    red, green, blue = (channel / 255 for channel in rgb)
    luma = weights[0] * red + (1 - sum(weights)) * green + weights[1] * blue
    chroma = ((blue - luma) / 2 / (1 - weights[1]), (red - luma) / 2 / (1 - weights[0]))
    planes = [255 * luma if full else 16 + 219 * luma, *(128 + (255 if full else 224) * value for value in chroma)]
    height, width = 72, 128
    data = np.concatenate(
        [np.full(height * width // share, round(v)) for v, share in zip(planes, (1, 4, 4), strict=True)]
    )
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=6, options={"crf": "5"})
        stream.width, stream.height, stream.pix_fmt = width, height, fmt
        stream.codec_context.colorspace, stream.codec_context.color_range = space, 2 if full else 1
        for _ in range(6):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(data.astype(np.uint8).reshape(-1, width), format=fmt)))
        file.mux(stream.encode())
    return path


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize(
    ("weights", "space", "full", "fmt"),
    [
        (BT709, 1, False, "yuv420p"),
        (BT709, 1, True, "yuv420p"),
        (BT709, 1, True, "yuvj420p"),
        (BT601, 6, False, "yuv420p"),
        (BT601, 6, True, "yuvj420p"),
        (BT601, 2, False, "yuv420p"),
    ],
)
def test_colours_are_kept(colour: str, weights: Any, space: int, full: bool, fmt: str, tmp_path: Path) -> None:
    path = flat(tmp_path / "flat.mp4", COLOURS[colour], weights, space, full, fmt)
    image = next(video.iter_frames(path, 0, 1)).image
    assert np.abs(image.astype(int) - COLOURS[colour]).max() <= 3
    encoded = tmp_path / "window.mp4"
    encoded.write_bytes(video.window_mp4(path, 0, 1))
    again = next(video.iter_frames(encoded, 0, 1)).image
    assert np.abs(again.astype(int) - image).max() <= 4


def test_jpegs_have_the_quality_that_is_asked_for(tmp_path: Path) -> None:
    path = videos.make(tmp_path / "clip.mp4", 60)
    frames = list(video.iter_frames(path, 0, 1.5))
    jpegs = video.decode_frames(path, 0, 1.5)
    assert [time for time, _ in jpegs] == [frame.time_s for frame in frames] == video.frame_times(0, 1.5)
    for (_, data), frame in zip(jpegs, frames, strict=True):
        picture = PIL.Image.open(io.BytesIO(data))
        reference = io.BytesIO()
        PIL.Image.fromarray(frame.image).save(reference, "JPEG", quality=85)
        assert data == reference.getvalue()
        assert picture.size == (720, 432) and videos.read(np.asarray(picture)) == videos.read(frame.image)
    assert len(video.jpeg(frames[0].image, 30)) < len(jpegs[0][1])


# --- what models are sent ---


def test_a_window_as_mp4_holds_its_frames_in_real_time(tmp_path: Path) -> None:
    path = videos.make(tmp_path / "clip.mp4", 150, NTSC)
    data = video.window_mp4(path, 1, 4.4)
    assert data == video.window_mp4(path, 1, 4.4)
    assert re.search(rb"rc=crf mbtree=1 crf=18\.0", data)
    assert len(video.window_mp4(path, 1, 4.4, crf=40)) < len(data)
    with av.open(io.BytesIO(data)) as file:
        (stream,) = file.streams
        length_s, rate = float(stream.duration * stream.time_base), stream.average_rate
        shown = list(file.decode(video=0))
    taken = numbers(path, 1, 4.4)
    assert stream.codec_context.name == "h264" and {frame.format.name for frame in shown} == {"yuv420p"}
    assert [videos.read(frame.to_ndarray(format="rgb24")) for frame in shown] == taken
    assert [frame.time for frame in shown] == pytest.approx([k / 6 for k in range(len(taken))])
    assert length_s == pytest.approx(len(taken) / 6)
    assert rate == 6 and (shown[0].width, shown[0].height) == (720, 432)
    assert (shown[0].colorspace, shown[0].color_range) == (6, 1)
    with pytest.raises(UsageError):
        video.encode_mp4([])


def test_grids_hold_four_frames_and_the_last_what_is_left(tmp_path: Path) -> None:
    path = videos.make(tmp_path / "clip.mp4", 100)
    frames = list(video.iter_frames(path, 0, 2.9, long_side=320))
    grids = video.frame_grids(iter(frames))
    assert [len(times) for times, _ in grids] == [4, 4, 4, 4, 2]
    assert [time for times, _ in grids for time in times] == [frame.time_s for frame in frames]
    height, width = frames[0].image.shape[:2]
    shown = []
    for times, data in grids:
        picture = np.asarray(PIL.Image.open(io.BytesIO(data)))
        assert picture.shape == (2 * height if len(times) > 2 else height, 2 * width, 3)
        for place in range(len(times)):
            top, left = place // 2 * height, place % 2 * width
            shown.append(videos.read(picture[top : top + height, left : left + width]))
    assert shown == [videos.read(frame.image) for frame in frames]
    three = video.frame_grids(frames[:3], columns=2, rows=2)[0][1]
    assert np.asarray(PIL.Image.open(io.BytesIO(three)))[height + 8 :, width + 8 :].max() < 8
    assert len(video.frame_grids(frames, columns=3, rows=3)) == 2
    with pytest.raises(UsageError):
        video.frame_grids(frames, columns=0)


@pytest.mark.parametrize("size", [(404, 720), (720, 404), (96, 160)])
def test_a_printed_time_is_in_its_corner_and_nowhere_else(size: tuple[int, int]) -> None:
    image = np.full((*size, 3), 120, np.uint8)
    printed = video.print_time(image, "83.333 s")
    assert (image == 120).all() and printed.shape == image.shape and printed.dtype == np.uint8
    changed = np.argwhere((printed != 120).any(axis=2))
    bottom, right = changed.max(axis=0)
    assert bottom < max(size[0] / 8, 24) and right < size[1] * 0.6
    corner = printed[: bottom + 1, : right + 1]
    assert corner.max() > 240 and corner[0, 0].max() == corner[bottom, right].max() == 0
    assert not np.array_equal(printed, video.print_time(image, "83.500 s"))


# --- broken files ---


def spoil(path: Path, frames: Sequence[int]) -> None:
    """Overwrites the packets at these places of the index."""
    with av.open(str(path)) as file:
        entries = list(file.streams.video[0].index_entries)
    data = bytearray(path.read_bytes())
    for number in frames:
        data[entries[number].pos : entries[number].pos + 4] = b"\xff" * 4
    path.write_bytes(data)


def met(path: Path, start_s: float, end_s: float) -> list[float]:
    """When corrupt packets were met on the way through a window."""
    found: list[float | None] = []
    for _ in video.iter_frames(path, start_s, end_s, on_corrupt=found.append):
        pass
    return sorted(time for time in found if time is not None)


def test_corrupt_packets_are_counted_and_the_frame_before_stays(tmp_path: Path) -> None:
    path = videos.make(tmp_path / "clip.mp4", 90, options={"bf": "0"})
    assert video.probe(path, decode=True).corrupt_packets == 0
    assert video.probe(path).corrupt_packets is None
    spoil(path, [20, 50])
    assert video.probe(path, decode=True).corrupt_packets == 2
    assert met(path, 0, 3) == pytest.approx([20 / 30, 50 / 30])
    shown = numbers(path, 0, 3, fps=30)
    assert shown[:21] == [*range(20), 19]
    assert shown[30:51] == [*range(30, 50), 49]  # whole again from the next keyframe
    assert shown[60:] == [*range(60, 90)]


def test_a_file_that_is_cut_off_is_named_with_the_second(tmp_path: Path) -> None:
    path = videos.make(tmp_path / "clip.mp4", 300, container={"movflags": "faststart"})
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    for call in (video.probe, lambda clip: list(video.iter_frames(clip, 0, 1))):
        with pytest.raises(InputError) as raised:
            call(path)
        found = re.fullmatch(rf"{re.escape(str(path))}: the video is cut off at (\d+\.\d+) s: .*", raised.value.message)
        assert found is not None and 4 < float(found[1]) < 8
    without_index = videos.make(tmp_path / "late.mp4", 300)
    without_index.write_bytes(without_index.read_bytes()[:5000])
    with pytest.raises(InputError, match=r"late\.mp4: is no video, or is cut off"):
        next(video.iter_frames(without_index, 0, 1))
    stream = videos.make(tmp_path / "stream.mkv", 300)
    stream.write_bytes(stream.read_bytes()[: stream.stat().st_size * 2 // 3])
    with pytest.raises(InputError, match=r"stream\.mkv: the video ends at [4-8]\.\d+ s, but a frame at \d+"):
        list(video.iter_frames(stream, 0, 10))


def test_a_video_may_end_a_little_before_the_labels_and_not_more(tmp_path: Path) -> None:
    path = videos.make(tmp_path / "clip.mp4", 55)  # 1.8333 s: labels say 1.833 or 1.834
    assert numbers(path, 1.5, 1.834) == [45, 50, 54]
    assert numbers(path, 1.5, 2.0) == [45, 50, 54]
    assert numbers(path, 1.6, 2.0) == [48, 53, 54]  # the last at 1.933 s
    for window in ((1.5, 2.2), (5, 6)):
        with pytest.raises(InputError, match=r"clip\.mp4: the video ends at 1\.833 s"):
            numbers(path, *window)


@pytest.mark.parametrize("content", [b"", b"no video" * 500, None])
def test_what_is_no_video_is_told(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"clip\.mp4: (is no video|there is no such file)"):
        next(video.iter_frames(path, 0, 1))


def test_a_sound_file_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("aac", rate=8000, layout="mono")
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        sound.sample_rate = 8000
        file.mux(stream.encode(sound))
        file.mux(stream.encode())
    with pytest.raises(InputError, match="holds no video stream"):
        video.probe(path)


# --- what it takes ---


def test_few_frames_are_held(tmp_path: Path) -> None:
    path = videos.make(tmp_path / "clip.mp4", 90)
    gc.collect()
    gc.disable()
    try:
        held = [
            sum(isinstance(thing, av.VideoFrame) for thing in gc.get_objects())
            for _ in video.iter_frames(path, 0, 3, 30)
        ]
    finally:
        gc.enable()
    assert len(held) == 90 and max(held) < 8


def test_windows_need_neither_numpy_nor_pyav() -> None:
    code = "import sys; from mabpl.video import windows, frame_times; windows(70.5); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"av", "numpy", "PIL"}.isdisjoint(done.stdout.split())


@pytest.mark.parametrize("module", ["av", "PIL"])
def test_a_missing_library_is_told(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = videos.make(tmp_path / "clip.mp4", 6)
    monkeypatch.setitem(sys.modules, module, None)
    for name in [name for name in sys.modules if name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtra, match="is not installed") as raised:
        video.decode_frames(path, 0, 0.1)
    assert "mabpl[video]" in str(raised.value)
