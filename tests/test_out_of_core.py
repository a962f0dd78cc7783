"""`score_parquet` gives what `score` gives, for any cut into parts, order of rows and layout of files."""

from __future__ import annotations

from pathlib import Path

import made
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import mabpl
from mabpl.benchmarks.micro_annotation import out_of_core
from mabpl.cli.main import run
from mabpl.errors import InputError, InvalidTimelines, UsageError
from mabpl.settings import Settings
from mabpl.tables.folder import read_manifest, read_table

TABLES = ("clips", "runs", "matches", "clip_scores")


@pytest.fixture
def tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    return made.tables()


def write(folder: Path, human: pl.DataFrame, predicted: pl.DataFrame) -> tuple[Path, Path]:
    folder.mkdir(exist_ok=True)
    for name, side in (("labels", human), ("predictions", predicted)):
        side.write_parquet(folder / f"{name}.parquet", row_group_size=50)
    return folder / "labels.parquet", folder / "predictions.parquet"


def check(out: Path, expected: mabpl.Scores) -> None:
    for name in TABLES:
        assert_frame_equal(read_table(out, name), expected.table(name), check_exact=True)
    assert_frame_equal(read_table(out, "set_scores"), expected.sets, rel_tol=1e-9)
    again = mabpl.load_result(out)
    assert_frame_equal(again.sets, expected.sets, check_exact=True)
    assert (again.partial, again.settings) == (expected.partial, expected.settings)


@pytest.mark.parametrize("clips_per_part", [None, 1, 5, 1000])
@pytest.mark.parametrize("order", ["sorted", "by clip", "shuffled"])
def test_any_cut_and_order_give_the_same_result(
    order: str, clips_per_part: int | None, tables: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path
) -> None:
    expected = mabpl.score(*tables)
    if order == "by clip":
        tables = tables[0], tables[1].sort("clip_id", "run", "segment")
    if order == "shuffled":
        tables = made.shuffled(tables[0]), made.shuffled(tables[1])
    parts: list[tuple[int, int]] = []
    out = mabpl.score_parquet(
        *write(tmp_path, *tables), tmp_path / "out", clips_per_part=clips_per_part,
        progress=lambda done, of: parts.append((done, of)),
    )  # fmt: skip
    check(out, expected)
    expected_parts = {None: 1, 1: 12, 5: 3, 1000: 1}[clips_per_part]
    assert parts == [(i + 1, expected_parts) for i in range(expected_parts)]


def test_parts_are_cut_by_the_number_of_segments_and_of_sampled_clips(
    tables: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out_of_core, "SEGMENTS_PER_PART", 200)
    monkeypatch.setattr(out_of_core, "SAMPLE", 5)
    out = mabpl.score_parquet(*write(tmp_path, *tables), tmp_path / "out")
    assert len(list(out.glob("clip_scores/*/*.parquet"))) > 2
    check(out, mabpl.score(*tables))


def test_folders_of_files_and_hive_partitions(tables: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path) -> None:
    human, predicted = tables
    for (run_name, set_name), rows in predicted.group_by(["run", "set"]):
        folder = tmp_path / "predictions" / f"run={run_name}" / f"set={set_name}"
        folder.mkdir(parents=True)
        rows.drop("run", "set").write_parquet(folder / "part.parquet")
    (tmp_path / "labels").mkdir()
    for i, rows in enumerate(human.iter_slices(40)):
        rows.write_parquet(tmp_path / "labels" / f"{i}.parquet")
    out = mabpl.score_parquet(tmp_path / "labels", tmp_path / "predictions", tmp_path / "out", clips_per_part=4)
    check(out, mabpl.score(human, predicted))


@pytest.mark.parametrize("missing", ["empty", "skip"])
def test_missing_clips_are_empty_or_left_out_whichever_part_they_are_in(
    missing: str, tables: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path
) -> None:
    human, predicted = tables
    lacking = (pl.col("run") == "b") & (pl.col("clip_id") <= "first_7-003")  # of parts that are scored first
    predicted = predicted.filter(~lacking)
    settings = Settings(missing=missing)  # type: ignore[arg-type]
    out = mabpl.score_parquet(*write(tmp_path, human, predicted), tmp_path / "out", settings=settings, clips_per_part=2)
    expected = mabpl.score(human, predicted, settings=settings)
    assert expected.partial
    check(out, expected)


def test_missing_clips_are_refused_and_the_earlier_result_stays(
    tables: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path
) -> None:
    human, predicted = tables
    out = mabpl.score_parquet(*write(tmp_path, human, predicted), tmp_path / "out")
    before = read_manifest(out)
    files = write(tmp_path, human, predicted.filter(pl.col("clip_id") != "first_7-001"))
    with pytest.raises(UsageError, match="3 timelines are missing"):
        mabpl.score_parquet(*files, out, clips_per_part=3)
    assert read_manifest(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.parquet", "out", "predictions.parquet"]


def test_a_later_result_replaces_an_earlier_one_and_nothing_else(
    tables: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path
) -> None:
    human, predicted = tables
    files = write(tmp_path, human, predicted)
    mabpl.score_parquet(*files, tmp_path / "out", clips_per_part=1)
    out = mabpl.score_parquet(*write(tmp_path, human, predicted.filter(run="b")), tmp_path / "out")
    check(out, mabpl.score(human, predicted.filter(run="b")))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="holds other files"):
        mabpl.score_parquet(*files, tmp_path / "mine")


def test_what_is_no_table_of_segments_is_told(tables: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path) -> None:
    human, predicted = tables
    labels, predictions = write(tmp_path, human, predicted.drop("run"))
    with pytest.raises(UsageError, match="lacks run"):
        mabpl.score_parquet(labels, predictions, tmp_path / "out")
    with pytest.raises(InputError, match=r"nowhere\.parquet"):
        mabpl.score_parquet(tmp_path / "nowhere.parquet", predictions, tmp_path / "out")
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(InputError, match=r"text\.parquet"):
        mabpl.score_parquet(tmp_path / "text.parquet", predictions, tmp_path / "out")
    write(tmp_path, human.with_columns(start_s=pl.lit("0")), predicted)
    with pytest.raises(UsageError, match="start_s"):
        mabpl.score_parquet(labels, predictions, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command(
    tables: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, predictions = map(str, write(tmp_path, *tables))
    out = tmp_path / "out"
    score = ["score", "--no-judge", "--labels", labels, "--predictions", predictions]
    assert run([*score, "--tables", str(out)]) == 0
    said = capsys.readouterr()
    assert "a_seed1" in said.out
    assert "all sets" in said.out
    assert said.err == f"tables: {out}\n"
    check(out, mabpl.score(*tables))
    assert run([*score, "--tables", str(out), "--fail-under", "boundary_f1=100"]) == 1
    assert run(score) == 2
    assert run([*score, "--tables", str(out), "--limit", "3", "--by", "operator"]) == 2
    assert "--limit, --by" in capsys.readouterr().err
    write(tmp_path, tables[0], tables[1].filter(pl.col("clip_id") != "first_7-001"))
    assert run([*score, "--tables", str(out)]) == 2
    assert run([*score, "--tables", str(out), "--missing", "skip"]) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"start_s": pl.lit(None, pl.Float64)},
        {"is_idle": pl.when(pl.col("segment") == 3).then(None).otherwise(False)},
        {"end_s": pl.when(pl.col("segment") == 3).then(float("nan")).otherwise("end_s")},
        {"end_s": pl.when(pl.col("segment") == 3).then(float("inf")).otherwise("end_s")},
        {"end_s": pl.when(pl.col("segment") == 3).then(1e10).otherwise("end_s")},
        {"end_s": pl.when(pl.col("segment") == 3).then(1e305).otherwise("end_s")},
        {"start_s": pl.when(pl.col("segment") == 3).then(float("nan")).otherwise("start_s")},
        {name: pl.when(pl.col("segment") == 3).then(float("inf")).otherwise(name) for name in ("start_s", "end_s")},
        {name: pl.when(pl.col("segment") == 3).then(float("-inf")).otherwise(name) for name in ("start_s", "end_s")},
        {"start_s": pl.when(pl.col("segment") == 3).then(-1e10).otherwise("start_s")},
        {"end_s": pl.when(pl.col("segment") == 3).then(pl.col("start_s") + 4e-7).otherwise("end_s")},
    ],
)
def test_unsound_rows_are_refused(
    change: dict[str, pl.Expr], tables: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path
) -> None:
    human, predicted = tables[0], tables[1].with_columns(**change)
    files = write(tmp_path, human, predicted)
    for score in (
        lambda: mabpl.score(human, predicted),
        lambda: mabpl.score(*files),
        lambda: mabpl.score_parquet(*files, tmp_path / "out", clips_per_part=3),
    ):
        with pytest.raises(InvalidTimelines):
            score()


def test_narrower_types_are_widened(tables: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    human, predicted = (
        side.with_columns(pl.col("start_s", "end_s").round(0)).filter(pl.col("end_s") > pl.col("start_s"))
        for side in tables
    )
    narrow = {"segment": pl.UInt8, "start_s": pl.Float32, "end_s": pl.Int16, "clip_id": pl.Categorical}
    found = mabpl.score(human.cast(narrow), predicted.cast(narrow))
    assert_frame_equal(found.table("clip_scores"), mabpl.score(human, predicted).table("clip_scores"))
