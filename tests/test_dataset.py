"""The dataset folder, set aliases, and the choice of clips for a trial."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mabpl.benchmarks.micro_annotation.dataset import Dataset, open_benchmark, select_clips
from mabpl.benchmarks.micro_annotation.naming import resolve_set
from mabpl.errors import InputError, UsageError
from mabpl.reading.names import set_aliases

SEGMENTS = [{"start_s": 0, "end_s": 1, "label": "x", "is_idle": False}]


def rows(*clip_ids: str) -> bytes:
    return "".join(json.dumps({"clip_id": c, "segments": SEGMENTS, "duration_s": 1}) + "\n" for c in clip_ids).encode()


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    files = {
        "data/operator_disjoint_59/labels.jsonl": rows("b", "a", "B", "../../x"),
        "data/operator_disjoint_59/manifest.jsonl": b'{"clip_id": "a", "resolution": [1920, 1080], "md5": "0f"}\n\n'
        b'{"clip_id": "b", "fps": 30}\n',
        "data/session_disjoint_30/labels.jsonl.gz": gzip.compress(rows("é", "z")),
        "data/notes/readme.txt": b"",
        "predictions/operator_disjoint_59/m_seed1.jsonl": rows("a"),
        "predictions/operator_disjoint_59/m_seed1.jsonl.usage.jsonl": b"{}",
        "predictions/operator_disjoint_59/.hidden.jsonl": b"{}",
        "predictions/session_disjoint_30/m.jsonl.gz": gzip.compress(rows("z")),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return open_benchmark(tmp_path)


def test_what_the_folder_holds(dataset: Dataset) -> None:
    assert dataset.sets == ["operator_disjoint_59", "session_disjoint_30"]
    labels = dataset.labels()
    assert labels.clips.select("set", "clip_id").rows() == [
        *(("operator_disjoint_59", c) for c in ("../../x", "B", "a", "b")),
        ("session_disjoint_30", "z"),
        ("session_disjoint_30", "é"),
    ]
    assert labels.problems.is_empty() and labels.segments.height == 6
    assert dataset.labels("30").clips["clip_id"].to_list() == ["z", "é"]
    assert [Path(p).name for p in dataset.predictions()] == ["m_seed1.jsonl", "m.jsonl.gz"]
    assert [Path(p).name for p in dataset.predictions("session")] == ["m.jsonl.gz"]
    manifest = dataset.manifest("59").to_dicts()
    assert manifest[0] == {"clip_id": "a", "resolution": "[1920, 1080]", "md5": "0f", "fps": None}
    assert manifest[1]["fps"] == 30
    with pytest.raises(InputError, match=r"manifest\.jsonl"):
        dataset.manifest("30")


def test_aliases_are_of_sets_that_exist() -> None:
    sets = ["operator_disjoint_59", "session_disjoint_30"]
    assert set_aliases(sets) == {
        "30": "session_disjoint_30",
        "59": "operator_disjoint_59",
        "operator": "operator_disjoint_59",
        "session": "session_disjoint_30",
    }
    assert resolve_set("operator", sets) == resolve_set("59", sets) == "operator_disjoint_59"
    with pytest.raises(UsageError, match="unknown set '30'") as caught:
        resolve_set("30", sets[:1])
    assert "operator_disjoint_59" in caught.value.hint
    with pytest.raises(UsageError, match="unknown set 'disjoint'"):
        resolve_set("disjoint", sets)


def test_a_folder_without_sets_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        open_benchmark(tmp_path / "absent")
    with pytest.raises(InputError, match=r"data/<set>/labels\.jsonl"):
        open_benchmark(tmp_path)


def test_clips_of_a_trial(dataset: Dataset) -> None:
    labels = dataset.labels()
    assert select_clips(labels) is None
    assert select_clips(labels, limit=2) == {"../../x", "B", "z", "é"}
    assert select_clips(labels, limit=99) == {"../../x", "B", "a", "b", "z", "é"}
    assert select_clips(labels, clips=["b", "z"]) == {"b", "z"}
    assert select_clips(labels, clips=["b", "a"], limit=1) == {"a"}
    with pytest.raises(UsageError, match=r"unknown clip '\.\./x'") as caught:
        select_clips(labels, clips=["a", "../x"])
    assert "'../../x'" in caught.value.hint
    for limit, clips in ((0, None), (-1, None), (None, [])):
        with pytest.raises(UsageError):
            select_clips(labels, limit=limit, clips=clips)
