"""`mabpl submission`: what is reported is all there, agrees, and is what comes out of the predictions again."""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mabpl.cli.main import run
from mabpl.data import sample_folder

SETS = {"operator_disjoint_6": 6, "session_disjoint_4": 4}
SEEDS = (1, 11)
STEM = "quick-large_seed1.session_disjoint_4"
Files = list[Path]
Told = tuple[int, dict[str, list[str]]]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, with score and joint JSONs of two seeds on two sets beside the predictions."""
    root = tmp_path_factory.mktemp("scored") / "root"
    shutil.copytree(sample_folder(), root)
    for file in predictions(root):
        for verb in ("score", "joint"):
            assert run([verb, "--root", str(root), "-p", str(file), "--judge", "embedded", "--quiet"]) == 0
    return root


@pytest.fixture
def root(scored: Path, tmp_path: Path) -> Path:
    shutil.copytree(scored, tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def bundle(root: Path, tmp_path: Path) -> Path:
    out = tmp_path / "bundle"
    assert make(out, root, "--produced-by", "by hand") == 3  # the embedded judge is a warning
    return out


@pytest.fixture
def check(root: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Path], Told]:
    """Exit code, and file → what was found of it, warnings aside."""

    def call(folder: Path) -> Told:
        capsys.readouterr()
        code = run(["submission", "check", str(folder), "--root", str(root), "--json"])
        said = json.loads(capsys.readouterr().out)
        assert said["sound"] == (code != 1)
        found: dict[str, list[str]] = {}
        for finding in said["findings"]:
            if finding["kind"] != "warning":
                found.setdefault(finding["file"], []).append(finding["message"])
        return code, found

    return call


def predictions(root: Path) -> Files:
    return [root / "predictions" / name / f"quick-large_seed{seed}.jsonl" for name in SETS for seed in SEEDS]


def make(out: Path, root: Path, *more: str, files: Files | None = None) -> int:
    chosen = [str(file) for file in (files or predictions(root))]
    return run(["submission", "make", str(out), "--root", str(root), "-p", *chosen, *more])


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def store(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def run_json(root: Path, **changes: Any) -> None:
    """A run.json beside every prediction file."""
    (root / "prompts").mkdir(exist_ok=True)
    (root / "prompts" / "segment.txt").write_bytes(b"find the segments")
    for file in predictions(root):
        facts = {
            "model": "m", "route": "host", "set": file.parent.name, "sampling": {"temperature": 0.5},
            "generation_seed": int(file.stem.rpartition("seed")[2]), "input": {"layout": "mp4", "fps": 6},
            "prompt": {"file": "segment.txt", "sha256": hashlib.sha256(b"find the segments").hexdigest()},
            "parse_mode": "strict",
        }  # fmt: skip
        store(Path(f"{file}.run.json"), {"run": {**facts, **changes}})


def test_the_numbers_are_means_over_seeds_and_clip_weighted_over_sets(bundle: Path) -> None:
    document = load(bundle / "submission.json")
    assert document["generation_seeds"] == [1, 11]
    assert document["missing"] == []
    for metric, kind in (
        ("headline", "scores"),
        ("strict_pa_f1", "scores"),
        ("joint_f1", "joint"),
        ("seg_f1", "joint"),
    ):
        values = {
            name: [load(bundle / f"quick-large_seed{s}.{name}.{kind}.json")["summary"][metric] for s in SEEDS]
            for name in SETS
        }
        for name, of_seeds in values.items():
            stated = document["sets"][name]
            assert stated["clips"] == SETS[name]
            assert stated[metric]["mean"] == pytest.approx(statistics.mean(of_seeds))
            assert stated[metric]["sd"] == pytest.approx(statistics.stdev(of_seeds))
        per_seed = [
            sum(values[name][i] * clips for name, clips in SETS.items()) / sum(SETS.values()) for i in range(len(SEEDS))
        ]
        assert document["combined"][metric]["mean"] == pytest.approx(statistics.mean(per_seed))
        assert document["combined"][metric]["sd"] == pytest.approx(statistics.stdev(per_seed))
    assert {judge["route"] for kind in ("pa", "joint") for judge in document["judges"][kind]} == {"embedded"}
    page = (bundle / "SUBMISSION.md").read_text(encoding="utf-8")
    assert f"{document['combined']['headline']['mean']:.1f} ± {document['combined']['headline']['sd']:.1f}" in page
    assert "by hand" in page
    assert "embedded judge" in page


def test_what_was_made_is_sound_but_for_the_embedded_judge(bundle: Path, check: Callable[[Path], Told]) -> None:
    assert check(bundle) == (3, {})
    assert len(list(bundle.iterdir())) == 2 * 2 * 3 + 2
    for name, sha256 in load(bundle / "submission.json")["files"].items():
        assert hashlib.sha256((bundle / name).read_bytes()).hexdigest() == sha256


def edit_prediction(bundle: Path) -> str:
    path = bundle / f"{STEM}.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows[0]["segments"].pop()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path.name


def edit_score(bundle: Path) -> str:
    path = bundle / f"{STEM}.scores.json"
    store(path, (document := load(path)) | {"summary": document["summary"] | {"pa_f1": 99.0}})
    return path.name


def edit_checklist(bundle: Path) -> str:
    document = load(bundle / "submission.json")
    document["combined"]["joint_f1"]["mean"] += 0.01
    store(bundle / "submission.json", document)
    return "submission.json"


def hide_warnings(bundle: Path) -> str:
    store(bundle / "submission.json", load(bundle / "submission.json") | {"warnings": []})
    return "submission.json"


def edit_page(bundle: Path) -> str:
    path = bundle / "SUBMISSION.md"
    path.write_text(path.read_text(encoding="utf-8").replace("quick", "quicker"), encoding="utf-8")
    return path.name


def remove_page(bundle: Path) -> str:
    (bundle / "SUBMISSION.md").unlink()
    return "SUBMISSION.md"


def remove_joint(bundle: Path) -> str:
    (bundle / f"{STEM}.joint.json").unlink()
    return f"{STEM}.joint.json"


def remove_checklist(bundle: Path) -> str:
    (bundle / "submission.json").unlink()
    return "submission.json"


def swap_seeds(bundle: Path) -> str:
    """Both seeds' score JSONs under each other's name, and listed so."""
    one, two = (bundle / f"quick-large_seed{seed}.session_disjoint_4.scores.json" for seed in SEEDS)
    one_bytes, two_bytes = one.read_bytes(), two.read_bytes()
    one.write_bytes(two_bytes)
    two.write_bytes(one_bytes)
    relist(bundle, one, two)
    return one.name


def other_judge(bundle: Path) -> str:
    path = bundle / f"quick-large_seed11.{STEM.partition('.')[2]}.joint.json"
    document = load(path)
    document["provenance"]["judge"]["judge"] = "another"
    store(path, document)
    relist(bundle, path)
    return path.name


def other_settings(bundle: Path) -> str:
    path = bundle / f"{STEM}.scores.json"
    document = load(path)
    document["settings"]["tolerance_frames"] = 30
    store(path, document)
    relist(bundle, path)
    return path.name


def link_outside(bundle: Path) -> str:
    path = bundle / f"{STEM}.jsonl"
    shutil.copy(path, bundle.parent / "outside.jsonl")
    path.unlink()
    path.symlink_to(bundle.parent / "outside.jsonl")
    return path.name


def more_files(bundle: Path) -> str:
    (bundle / "notes.exe").write_text("x", encoding="utf-8")
    return "notes.exe"


def broken_score(bundle: Path) -> str:
    (bundle / f"{STEM}.scores.json").write_text('{"summary": {}, "per_clip": {"a": {"x": null}}}', encoding="utf-8")
    return f"{STEM}.scores.json"


def relist(bundle: Path, *paths: Path) -> None:
    document = load(bundle / "submission.json")
    document["files"] |= {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    store(bundle / "submission.json", document)


@pytest.mark.parametrize(
    "change",
    [
        edit_prediction, edit_score, edit_checklist, hide_warnings, edit_page, remove_page, remove_joint,
        remove_checklist, swap_seeds, other_judge, other_settings, link_outside, more_files, broken_score,
    ],
)  # fmt: skip
def test_every_change_is_found(bundle: Path, check: Callable[[Path], Told], change: Callable[[Path], str]) -> None:
    file = change(bundle)
    code, found = check(bundle)
    assert code == 1
    assert file in found, found


def test_an_edited_prediction_is_told_of_by_its_hash_and_by_what_is_recomputed(
    bundle: Path, check: Callable[[Path], Told]
) -> None:
    edit_prediction(bundle)
    _, found = check(bundle)
    assert "was changed: SHA-256" in found[f"{STEM}.jsonl"][0]
    assert any("recomputed" in message for message in found[f"{STEM}.scores.json"])
    assert any("recomputed" in message for message in found[f"{STEM}.joint.json"])


def test_names_that_lead_out_of_the_bundle_are_told_of_and_not_opened(
    bundle: Path, check: Callable[[Path], Told]
) -> None:
    (bundle.parent / "outside.jsonl").write_bytes(b"{}")
    document = load(bundle / "submission.json")
    document["files"]["../outside.jsonl"] = hashlib.sha256(b"{}").hexdigest()
    store(bundle / "submission.json", document)
    code, found = check(bundle)
    assert code == 1
    assert found == {"submission.json": ["lists '../outside.jsonl', which is no plain file name"]}


@pytest.mark.parametrize("junk", ["[]", "{", "{}", '{"files": [1]}', '{"files": {}, "sets": [], "produced_by": {}}'])
def test_a_checklist_that_is_none_is_a_finding(bundle: Path, check: Callable[[Path], Told], junk: str) -> None:
    (bundle / "submission.json").write_text(junk, encoding="utf-8")
    code, found = check(bundle)
    assert code == 1
    assert "submission.json" in found


def test_what_is_missing_is_listed_and_not_invented(
    root: Path, tmp_path: Path, check: Callable[[Path], Told], capsys: pytest.CaptureFixture[str]
) -> None:
    lone, second = predictions(root)[0], predictions(root)[2]
    Path(str(lone).removesuffix(".jsonl") + ".operator_disjoint_6.joint.json").unlink()
    files = [lone, second, predictions(root)[3]]  # and no seed 11 on the first set
    assert make(tmp_path / "out", root, "--produced-by", "by hand", files=files) == 3
    said = capsys.readouterr().out
    assert "missing: quick-large_seed1.operator_disjoint_6.joint.json: is not there" in said
    assert "missing: quick-large_seed11.operator_disjoint_6.jsonl: is not there" in said
    document = load(tmp_path / "out" / "submission.json")
    assert document["sets"]["operator_disjoint_6"]["joint_f1"] == {"mean": None, "sd": None}
    assert document["combined"]["joint_f1"]["mean"] is None
    assert document["combined"]["runs"] == 1
    assert document["sets"]["session_disjoint_4"]["runs"] == 2
    assert any("no value of seg_f1, joint_f1 for operator_disjoint_6" in line for line in document["missing"])
    code, found = check(tmp_path / "out")
    assert code == 1
    assert "quick-large_seed1.operator_disjoint_6.joint.json" in found


def test_a_partial_result_is_a_warning(
    root: Path, tmp_path: Path, check: Callable[[Path], Told], capsys: pytest.CaptureFixture[str]
) -> None:
    for file in predictions(root):
        for verb in ("score", "joint"):
            only = ("--limit", "2", "--set-option", "tolerance_frames=21")
            assert run([verb, "--root", str(root), "-p", str(file), "--judge", "embedded", "--quiet", *only]) == 0
    capsys.readouterr()
    assert make(tmp_path / "out", root, "--produced-by", "by hand") == 3
    said = capsys.readouterr().out
    assert "and 7 more: is partial" in said
    assert "and 7 more: tolerance_frames = 21, as published it is 20" in said
    assert load(tmp_path / "out" / "submission.json")["combined"]["clips"] == 4
    assert check(tmp_path / "out") == (3, {})


def test_jsons_may_be_named_and_lie_elsewhere(root: Path, tmp_path: Path, check: Callable[[Path], Told]) -> None:
    jsons: dict[str, list[str]] = {"scores": [], "joint": []}
    for kind, named in jsons.items():
        for path in sorted((root / "predictions").rglob(f"*.{kind}.json")):
            named.append(str(path.rename(tmp_path / path.name)))
    given = ["--produced-by", "by hand", "--scores", *jsons["scores"], "--joint", *jsons["joint"]]
    assert make(tmp_path / "out", root, *given) == 3
    assert check(tmp_path / "out") == (3, {})


def test_run_files_tell_how_it_was_produced(root: Path, tmp_path: Path, check: Callable[[Path], Told]) -> None:
    run_json(root)
    assert make(tmp_path / "out", root) == 3
    (produced,) = load(tmp_path / "out" / "submission.json")["produced"]
    assert produced["prompt_as_published"] is True
    assert produced["sampling"] == {"temperature": 0.5}
    assert "as published" in (tmp_path / "out" / "SUBMISSION.md").read_text(encoding="utf-8")
    assert check(tmp_path / "out") == (3, {})

    run_json(root, generation_seed=1, prompt={"file": "segment.txt", "sha256": "0"})
    path = predictions(root)[0].with_name("quick-large_seed1.jsonl.run.json")
    store(path, {"run": load(path)["run"] | {"sampling": {}}})
    assert make(tmp_path / "two", root) == 3
    code, found = check(tmp_path / "two")
    assert code == 1
    of = [f"quick-large_seed{seed}.{name}.jsonl.run.json" for seed in SEEDS for name in SETS]
    assert found.keys() == set(of[1:])  # the first is the one that the others differ from
    assert any("generation seed is 1, its name says 11" in message for message in found[of[2]])
    assert load(tmp_path / "two" / "submission.json")["produced"][0]["prompt_as_published"] is False


def test_nothing_is_written_where_the_sources_do_not_fit(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*more: str, files: Files | None = None) -> str:
        capsys.readouterr()
        assert make(tmp_path / "out", root, *more, files=files) == 2
        assert not (tmp_path / "out").exists()
        return capsys.readouterr().err

    by = ("--produced-by", "by hand")
    assert "no run.json tells" in refused()
    one = predictions(root)[0]
    other = one.with_name("small-fine_seed1.jsonl")
    assert "2 configurations" in refused(*by, files=[one, other])
    score, joint = (one.with_name(f"quick-large_seed1.operator_disjoint_6.{k}.json") for k in ("scores", "joint"))
    assert "give it with --joint" in refused(*by, "--scores", str(joint), files=[one])
    assert "none of these" in refused(*by, "--scores", str(score), files=predictions(root)[1:])
    one.write_bytes(one.read_bytes() + b"\n")
    assert "none of these" in refused(*by)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    assert make(tmp_path / "out", root, *by) == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
