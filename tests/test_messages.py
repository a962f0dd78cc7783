"""What a model is sent: prompts, layouts, how much it is to think; and the check of what it sees."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import videos
from model_server import ModelServer, data_of, frames_of
from PIL import Image

from mabpl import video
from mabpl.annotate import clock
from mabpl.annotate.dialects import merged, model_of
from mabpl.annotate.messages import PROMPTS, Layout, content, messages, part_of, render, window_part
from mabpl.cli.main import run
from mabpl.errors import InputError
from mabpl.judges.prompts import load_prompts

OURS = Path(__file__).resolve().parent.parent / "prompts"
START, END = 2.0, 3.25
"""Eight frames at 6 a second: the last grid is whole; to 3.0 it would hold two."""


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return videos.make(tmp_path_factory.mktemp("clip") / "clip.mp4", 120)


def sent(clip: Path, layout: Layout, end_s: float = END, **options: Any) -> list[dict[str, Any]]:
    """The parts after the prompt."""
    part = window_part(layout, "f" * 32, START, end_s, **options)
    body = {"model": "m", "messages": messages("<cs> <ce>", part), "seed": 1}
    assert part_of(body) == part
    whole = json.loads(content(body, render(clip, part).parts))
    assert {**whole, "messages": 0} == {"model": "m", "messages": 0, "seed": 1}
    (message,) = whole["messages"]
    assert message["content"][0] == {"type": "text", "text": f"2.0 {end_s}"}
    return message["content"][1:]


def numbers(parts: list[dict[str, Any]]) -> list[int]:
    body = {"messages": [{"content": [None, *parts]}]}
    return [videos.read(frame) for frame in frames_of(body)]


FRAMES = [60, 65, 70, 75, 80, 85, 90, 95]


def test_one_mp4(clip: Path) -> None:
    (part,) = sent(clip, "mp4", extra={"fps": 6, "video_url": {"detail": "high"}})
    assert part["video_url"]["url"].startswith("data:video/mp4;base64,")
    assert part | {"video_url": 0} == {"type": "video_url", "video_url": 0, "fps": 6}
    assert part["video_url"]["detail"] == "high"
    assert numbers([part]) == FRAMES


def test_frames_and_grids_follow_their_times(clip: Path) -> None:
    parts = sent(clip, "frames")
    assert [part["text"] for part in parts[::2]][:3] == ["<2.0 seconds>", "<2.167 seconds>", "<2.333 seconds>"]
    assert {part["image_url"]["detail"] for part in parts[1::2]} == {"high"}
    assert numbers(parts) == FRAMES
    grids = sent(clip, "grids", 3.0)
    assert [part.get("text") for part in grids] == [
        "<2.0 seconds> <2.167 seconds> <2.333 seconds> <2.5 seconds>", None, "<2.667 seconds> <2.833 seconds>", None,
    ]  # fmt: skip
    assert numbers(grids) == FRAMES[:6]


def test_times_are_printed(clip: Path) -> None:
    parts = sent(clip, "printed", 2.5)
    assert [part["type"] for part in parts] == ["image_url"] * 3
    plain = list(video.iter_frames(clip, START, 2.5))
    for (at, image), part, text in zip(plain, parts, ("2.0 s", "2.167 s", "2.333 s"), strict=True):
        expected = video.jpeg(video.print_time(image, text))
        assert data_of(part["image_url"]["url"]) == expected, at
        assert Image.open(io.BytesIO(expected)).size == (720, 432)


def test_our_layout_is_the_one_that_the_file_shows(clip: Path) -> None:
    text = (OURS / "message_layout_frames_as_images.txt").read_text()
    examples = [json.loads(found) for found in re.findall(r"^\{.*?^\]\}\]\}$", text, re.MULTILINE | re.DOTALL)]
    assert len(examples) == 2
    for example, layout in zip(examples, ("frames", "grids"), strict=True):
        part = window_part(layout, "f" * 32, 38.0, 70.5)
        path = videos_of_seconds(clip.parent / "long.mp4")
        body = json.loads(content({"messages": messages("p", part)}, render(path, part).parts))
        shown = re.sub(r";base64,[^\"]*", ";base64,<JPEG>", json.dumps(body["messages"][0]["content"]))
        theirs = example["messages"][0]["content"]
        assert json.loads(shown)[1 : len(theirs)] == theirs[1:]


def videos_of_seconds(path: Path) -> Path:
    return path if path.exists() else videos.make(path, 6 * 71, 6, size=(96, 64))


def test_the_prompts_differ_in_the_sentence_on_time_alone() -> None:
    texts = [(OURS / name).read_text().splitlines() for name in sorted(set(PROMPTS.values()))]
    assert len(texts) == 3
    for other in texts[1:]:
        differing = [a for a, b in zip(texts[0], other, strict=True) if a != b]
        assert len(differing) == 1 and differing[0].startswith("The part runs from <cs> s to <ce> s of the full clip. ")
    for text in texts:
        said = "\n".join(text)
        for word in ("<cs>", "<ce>", "at most 10 s", "imperative", "hand", "idle", '"segments"', "full clip"):
            assert word in said


def test_a_folders_prompts_win_to_the_letter(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    text = "From <cs> to <ce>, at <fps> fps.\r\n  <CS> {x} "
    (tmp_path / "prompts" / PROMPTS["printed"]).write_bytes(text.encode())
    found = load_prompts(tmp_path, PROMPTS.values())
    assert found.files[PROMPTS["printed"]].source == "dataset" and found.files[PROMPTS["mp4"]].source == "ours"
    part = window_part("printed", "f" * 32, 38, 70.5)
    (message,) = messages(found[PROMPTS["printed"]], part)
    assert message["content"][0]["text"] == "From 38.0 to 70.5, at 6 fps.\r\n  <CS> {x} "


def test_a_broken_video_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.mp4").write_bytes(b"no video")
    with pytest.raises(InputError, match=r"x\.mp4"):
        render(tmp_path / "x.mp4", window_part("frames", "f" * 32, 0.0, 1.0))


# How much it thinks

THINKING = {"enable_thinking": True, "thinking": True, "reasoning_effort": "low"}


@pytest.mark.parametrize(
    ("url", "template"),
    [
        ("https://openrouter.ai/api/v1", {"max_tokens": 32000, "reasoning": {"effort": "low"}}),
        ("https://x.y/v1", {"max_tokens": 32000, "reasoning_effort": "low"}),
        (
            "http://127.0.0.1:30000/v1",
            {"max_tokens": 32000, "chat_template_kwargs": THINKING},
        ),
    ],
)  # fmt: skip
def test_dialects_by_host(url: str, template: dict[str, Any]) -> None:
    assert model_of(url, "m", effort="low").template == template
    assert model_of(url, "m").template == {"max_tokens": 32000}


def test_dialects_by_name_and_what_else_is_sent() -> None:
    found = model_of(
        "https://x.y/v1", "m", effort="high", dialect="openai", seeds=(1, 11),
        sampling={"max_tokens": 8000, "temperature": 0.6, "top_p": None}, extra_body='{"provider": {"order": ["a"]}}',
    )  # fmt: skip
    assert found.template == {
        "max_completion_tokens": 8000, "temperature": 0.6, "reasoning_effort": "high", "provider": {"order": ["a"]},
    }  # fmt: skip
    assert (found.route, found.seeds) == ("x.y", (1, 11))
    off = model_of("http://judge/v1", "m", effort="none").template["chat_template_kwargs"]
    assert off["enable_thinking"] is False and off["thinking"] is False
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}, "d": {}}) == {"a": {"b": 1, "c": 4}, "d": {}}


# The clock


def seeing(every: int = 1, shift: float = 0.0, wrong: int = 0) -> Any:
    """A model that sees one frame of ``every`` and writes down what is on it."""
    shown = {number: clock.draw(number)[60:390, 110:710].astype(int) for number in clock.numbers()}

    def reply(body: dict[str, Any]) -> str:
        rows = []
        for place, frame in enumerate(frames_of(body)):
            if place % every == 0:
                seen = frame[60:390, 110:710].astype(int)
                number = min(shown, key=lambda n: float(np.abs(shown[n] - seen).mean()))
                rows.append({"number": number, "time_s": round(38 + place / 6 - shift, 2)})
        rows += [{"number": k, "time_s": 38.0} for k in range(wrong)]
        return "Here you are:\n" + json.dumps({"frames": rows})

    return reply


@pytest.mark.parametrize("layout", ["mp4", "frames", "grids", "printed"])
def test_an_endpoint_that_sees_everything(layout: Layout) -> None:
    with ModelServer(reply=seeing()).running() as server:
        found = clock.check(model_of(server.url, "m"), endpoint(server), layout)
    assert (found.state, found.frames_seen, found.frames_sent, found.wrong, found.times) == (
        "fine",
        30,
        30,
        0,
        "absolute",
    )
    assert found.error_s == pytest.approx(0, abs=0.01) and found.fps_seen == 6


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (seeing(), 0, "fine: 30 of 30 frames seen, 6.0 a second"),
        (
            seeing(every=3),
            3,
            "doubtful: 10 of 30 frames seen, 2.0 a second of 6\n  fewer frames may be taken of a video",
        ),
        (seeing(shift=38.0), 3, "times are relative, off by -38.00 s (median)"),
        (seeing(wrong=3), 3, "3 numbers were written down that no frame shows"),
        (lambda body: "I cannot see videos.", 4, "failed: no usable answer (no_json)"),
    ],
)
def test_check(reply: Any, code: int, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with ModelServer(reply=reply).running() as server:
        assert run(["run", "--check", "--base-url", server.url, "--model", "m"]) == code
    assert said in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def endpoint(server: ModelServer) -> Any:
    from mabpl.judges.endpoint import Endpoint

    return Endpoint(server.url)
