"""`mabpl judge check` against endpoints that are fit, and unfit in one way each; `mabpl judge agreement` on files."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import judge_server
import numpy as np
import polars as pl
import pytest
from commands import Mabpl, Said
from judge_server import JudgeServer

import mabpl
from mabpl.benchmarks.micro_annotation import opinions, trust
from mabpl.benchmarks.micro_annotation.judging import embedded_verdicts, plan
from mabpl.data import sample_folder
from mabpl.errors import InputError, UsageError
from mabpl.judges import retry
from mabpl.judges.check import EQUAL, KNOWN
from mabpl.judges.store import Store
from mabpl.judges.types import Question, Request, fingerprint

SET = "operator_disjoint_6"


@pytest.fixture
def mabpl_(mabpl_: Mabpl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Mabpl:
    """In an empty folder, with a key for both judges."""
    monkeypatch.setattr(retry, "FIRST_DELAY_S", 0.002)
    monkeypatch.setenv("MAB_JUDGE_API_KEY", "local")
    monkeypatch.setenv("MAB_JOINT_JUDGE_API_KEY", "local")
    monkeypatch.chdir(tmp_path)
    return mabpl_


# --- judge check ---

Mind = Callable[[str, int | None, int], dict[str, Any]]
"""(name of the known pair, judge seed, attempt from 0) -> a choice of a chat completion."""

SCORES = {EQUAL: 96, "wrong object": 20, "out of span": 55}


def verdict(pair: str) -> str:
    return json.dumps({"score": SCORES[pair], "equivalent": pair == EQUAL})


def fit(pair: str, seed: int | None, attempt: int) -> dict[str, Any]:
    return {"message": {"content": verdict(pair), "reasoning_content": f"Let me think with {seed}."}}


def not_thinking(pair: str, seed: int | None, attempt: int) -> dict[str, Any]:
    return {"message": {"content": f"As {seed} I say {verdict(pair)}"}}


def seedless(pair: str, seed: int | None, attempt: int) -> dict[str, Any]:
    return fit(pair, None, attempt)


def moody(pair: str, seed: int | None, attempt: int) -> dict[str, Any]:
    """Another score when it is asked again."""
    return {"message": {"content": f'{{"score": {SCORES[pair] + attempt}, "equivalent": {str(pair == EQUAL).lower()}}}',
                        "reasoning": f"with {seed}"}}  # fmt: skip


def wordy(pair: str, seed: int | None, attempt: int) -> dict[str, Any]:
    """The same verdict in other words when it is asked again."""
    return {"message": {"content": verdict(pair), "reasoning": f"{seed} {attempt}"}}


def confused(pair: str, seed: int | None, attempt: int) -> dict[str, Any]:
    """Likes the wrong object best."""
    swapped = {EQUAL: "wrong object", "wrong object": EQUAL}.get(pair, pair)
    return fit(swapped, seed, attempt)


def mute(pair: str, seed: int | None, attempt: int) -> dict[str, Any]:
    return {"message": {"content": "I would rather not.", "reasoning": "Hm."}}


def of(mind: Mind, monkeypatch: pytest.MonkeyPatch, kind: str = "pa", **options: Any) -> JudgeServer:
    """A server whose judge has that mind, asked the known pairs of ``kind``."""
    replies = dict(judge_server.REPLIES)
    monkeypatch.setattr(judge_server, "REPLIES", replies)
    asked: dict[tuple[str, int | None], int] = {}

    def script(question: str, seed: int | None, attempt: int) -> str:
        pair = next(known.name for known in KNOWN[kind] if f": {known.predicted}\n" in question)  # type: ignore[index]
        times = asked[pair, seed] = asked.get((pair, seed), -1) + 1
        act = f"mind {pair} {seed} {times}"
        replies[act] = mind(pair, seed, times)
        return act

    return JudgeServer(script, **options)


def check(mabpl_: Mabpl, server: JudgeServer, *more: object) -> Said:
    where = ("--judge-base-url", server.url, "--judge-model", "m")
    where += ("--joint-judge-base-url", server.url, "--joint-judge-model", "m")
    return mabpl_("judge", "check", "--json", *where, *more)


def states(said: Said) -> dict[str, str]:
    return {finding["name"]: finding["state"] for finding in said.json["findings"]}


def test_a_fit_judge(mabpl_: Mabpl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with of(fit, monkeypatch, cost=0.002).running() as server:
        said = check(mabpl_, server)
    assert said.code == 0
    assert set(states(said).values()) == {"fine"}
    asked = sorted((bill.seed, bill.attempt) for bill in server.ledger)
    assert asked == sorted([(1, 0)] * 3 + [(1, 1)] * 3 + [(2, 0)] * 3 + [(3, 0)] * 3)
    per_call = said.json["per_call"]
    assert (per_call["tokens_in"], per_call["tokens_out"], per_call["tokens_reasoning"]) == (700, 40, 30)
    assert said.json["calls"] == 12
    assert said.json["cost"] == pytest.approx(0.024)
    assert list(tmp_path.iterdir()) == []  # no store


@pytest.mark.parametrize(
    ("mind", "finding", "state", "code", "words"),
    [
        (not_thinking, "thinking", "doubtful", 3, "in 0 of 12"),
        (seedless, "seed", "doubtful", 3, "no effect"),
        (moody, "seed", "doubtful", 3, "not honoured"),
        (wordy, "seed", "unclear", 0, "cannot tell"),
        (confused, "sense", "doubtful", 3, "4 of 12"),
        (mute, "verdicts", "failed", 4, "no_json"),
    ],
)
def test_a_judge_that_is_unfit_in_one_way(
    mind: Mind, finding: str, state: str, code: int, words: str,
    mabpl_: Mabpl, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    usage = {"prompt_tokens": 700, "completion_tokens": 40}
    monkeypatch.setattr(judge_server, "TOKENS", usage)
    with of(mind, monkeypatch).running() as server:
        said = check(mabpl_, server)
    assert said.code == code
    others = {name: value for name, value in states(said).items() if value != "fine"}
    assert others == {finding: state}
    assert words in next(f["said"] for f in said.json["findings"] if f["name"] == finding)
    assert len(server.ledger) <= 24


def test_usage_that_is_not_reported(mabpl_: Mabpl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_server, "TOKENS", None)
    with of(fit, monkeypatch).running() as server:
        said = check(mabpl_, server)
    assert (said.code, states(said)["usage"]) == (3, "doubtful")
    assert said.json["per_call"]["tokens_in"] is None


def test_one_seed_tells_nothing_about_seeds(mabpl_: Mabpl, monkeypatch: pytest.MonkeyPatch) -> None:
    with of(fit, monkeypatch).running() as server:
        said = check(mabpl_, server, "--judge-seeds", "7")
    assert (said.code, states(said)["seed"]) == (0, "unclear")
    assert {bill.seed for bill in server.ledger} == {7}


@pytest.mark.parametrize("kind", ["joint", "object"])
def test_the_judges_without_seeds(kind: str, mabpl_: Mabpl, monkeypatch: pytest.MonkeyPatch) -> None:
    def mind(pair: str, seed: int | None, attempt: int) -> dict[str, Any]:
        return {"message": {"content": json.dumps({"accept": pair == EQUAL})}}

    with of(mind, monkeypatch, kind).running() as server:
        said = check(mabpl_, server, "--kind", kind)
    assert said.code == 0
    assert [bill.seed for bill in server.ledger] == [None] * 6
    assert "none is sent" in str(said.json["findings"])


def test_an_endpoint_that_refuses_or_is_not_there(mabpl_: Mabpl) -> None:
    with JudgeServer(lambda question, seed, attempt: "401").running() as server:
        said = check(mabpl_, server)
    assert (said.code, said.out) == (4, "")
    assert "401" in said.err
    said = check(mabpl_, server, "--give-up-after", "0.1")
    assert said.code == 4
    assert mabpl_("judge", "check", "--judge", "embedded").code == 2
    assert "12 calls" in mabpl_("judge", "check", "--dry-run").out


def test_what_the_whole_run_will_take(mabpl_: Mabpl, monkeypatch: pytest.MonkeyPatch) -> None:
    root = sample_folder()
    file = root / "predictions" / SET / "quick-large_seed1.jsonl"
    scores = mabpl.score(root / "data" / SET / "labels.jsonl", file)
    calls = 3 * plan(scores, ["pa"]).requests.height
    with of(fit, monkeypatch).running() as server:
        said = check(mabpl_, server, "--root", root, "-p", file, "--concurrency", "10", "--price-out", "5")
    ahead = said.json["forecast"]
    assert ahead["calls"] == calls
    assert ahead["tokens_out"] == pytest.approx(40 * calls)
    assert ahead["cost"] == pytest.approx(40 * calls * 5 / 1e6)
    assert 0.8 < ahead["tokens_in"] / (700 * calls) < 1.2
    assert ahead["seconds"] == pytest.approx(-(-calls // 30) * said.json["per_call"]["seconds"])


def test_a_check_is_printed(mabpl_: Mabpl, monkeypatch: pytest.MonkeyPatch) -> None:
    with of(fit, monkeypatch).running() as server:
        said = mabpl_("judge", "check", "--judge-base-url", server.url, "--judge-model", "m")
    assert said.code == 0
    assert "pa judge m at self-hosted: fine" in said.out
    assert "700 tokens in" in said.out


# --- judge agreement ---


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two configurations of the sample, two generation seeds, judged with three judge seeds that differ."""
    folder = tmp_path_factory.mktemp("judged")
    root = sample_folder()
    files = [root / "predictions" / SET / f"{c}_seed{s}.jsonl" for c in ("quick-large", "small-fine") for s in (1, 11)]
    scores = mabpl.score(root / "data" / SET / "labels.jsonl", files)
    asked = plan(scores, ["pa"]).requests
    random = np.random.default_rng(3)
    seeds = []
    for seed in (1, 2, 3):
        said = embedded_verdicts(asked)
        score = np.clip(said["score"].to_numpy() + random.normal(seed, 4, said.height), 0, 100)
        keys = pl.Series("key", [fingerprint([key, seed]) for key in said["key"]])
        seeds.append(
            said.with_columns(
                keys, pl.Series("score", score), judge=pl.lit("m"), route=pl.lit("self-hosted"),
                judge_seed=pl.lit(seed, pl.Int64), equivalent=pl.Series(score > 70),
            )
        )  # fmt: skip
    verdicts = pl.concat(seeds)
    mabpl.score(root / "data" / SET / "labels.jsonl", files, judge=verdicts).write_tables(folder / "result")
    verdicts.write_parquet(folder / "verdicts.parquet")
    verdicts.write_ndjson(folder / "verdicts.jsonl")
    return folder


def test_agreement_of_seeds_counts_a_question_once_in_each_clip(judged: Path) -> None:
    (row,) = trust.agreement([opinions.read_opinions(judged / "result")]).to_dicts()
    result = mabpl.load_result(judged / "result")
    items = result.pairs.select("clip_id", "request").unique()
    assert (row["kind"], row["between"]) == ("pa", "seeds 1, 2, 3 of m @ self-hosted")
    assert (row["pairs"], row["clips"]) == (items.height, items["clip_id"].n_unique())
    wide = items.join(result.verdicts.pivot("judge_seed", index="request", values="score"), on="request")
    a, b, c = (wide[str(seed)].to_numpy() for seed in (1, 2, 3))
    assert row["distance"] == pytest.approx(np.mean([abs(a - b), abs(a - c), abs(b - c)]))
    assert row["distance_low"] < row["distance"] < row["distance_high"]
    yes = [side > 70 for side in (a, b, c)]
    assert row["share_equal"] == pytest.approx(np.mean([x == y for x, y in [yes[:2], yes[1:], yes[::2]]]))


def test_a_verdict_table_is_drawn_by_request(judged: Path) -> None:
    rows = [
        trust.agreement([opinions.read_opinions(judged / f"verdicts.{end}")]).to_dicts() for end in ("parquet", "jsonl")
    ]
    assert rows[0] == rows[1]
    assert rows[0][0]["clips"] is None
    assert rows[0][0]["pairs"] == pl.read_parquet(judged / "verdicts.parquet")["request"].n_unique()


def test_a_store_and_a_result_are_joined_by_request_and_two_judges_of_a_store_are_compared(
    judged: Path, tmp_path: Path
) -> None:
    verdicts = pl.read_parquet(judged / "verdicts.parquet")
    other = verdicts.filter(judge_seed=1).with_columns(
        judge=pl.lit("other"), judge_seed=pl.lit(None, pl.Int64), score=100 - pl.col("score"),
        key=pl.col("key").str.reverse(),
    )  # fmt: skip
    with Store.open(tmp_path / "judge_cache") as store:
        store.import_verdicts(pl.concat([verdicts, other]))
    store_source = opinions.read_opinions(tmp_path / "judge_cache")
    found = {row["between"]: row for row in trust.agreement([store_source]).to_dicts()}
    pairs = verdicts["request"].n_unique()
    between = found["m @ self-hosted and other @ self-hosted"]
    assert between["pairs"] == pairs
    one = verdicts.join(other.select("request", theirs="score"), on="request")
    assert between["distance"] == pytest.approx((one["score"] - one["theirs"]).abs().mean())
    both = trust.agreement([opinions.read_opinions(judged / "result"), store_source]).to_dicts()
    row = next(row for row in both if row["between"] == "m @ self-hosted (result) and other @ self-hosted")
    items = mabpl.load_result(judged / "result").pairs.select("clip_id", "request").unique()
    assert (row["pairs"], row["clips"]) == (items.height, items["clip_id"].n_unique())


def test_labels_of_people_are_joined_by_labels_and_clip(judged: Path, tmp_path: Path) -> None:
    """A person agrees with every decision of judge seed 1 but one."""
    result = mabpl.load_result(judged / "result")
    asked = result.pairs.select("clip_id", "request").unique().sort("clip_id", "request")
    rows = asked.join(result.requests, on="request").join(result.verdicts.filter(judge_seed=1), on="request")
    rows = rows.unique(["clip_id", "predicted_label", "primary"], keep="none").sort("clip_id", "request")
    said = rows["equivalent"].to_list()
    said[0] = not said[0]
    people = rows.select("clip_id", pred_label="predicted_label", human="primary").with_columns(
        pl.Series("same_event", ["yes" if yes else "no" for yes in said])
    )
    people.write_csv(tmp_path / "people.csv")
    source = opinions.read_opinions(judged / "result")
    source = opinions.Opinions("first", source.table.filter(seed=1))
    (row,) = trust.agreement([source, opinions.read_opinions(tmp_path / "people.csv")]).to_dicts()
    assert (row["kind"], row["between"]) == ("pa", "m @ self-hosted and people")
    assert row["pairs"] == people.height
    assert row["share_equal"] == pytest.approx(1 - 1 / people.height)
    assert row["clips"] == people["clip_id"].n_unique()
    assert row["distance"] is None


def test_how_far_a_score_moves_with_the_judge_seed(judged: Path, tmp_path: Path, mabpl_: Mabpl) -> None:
    """Each seed's PA-F1 is that of a result that was judged with this seed alone."""
    found = trust.seed_spread(judged / "result")
    verdicts = pl.read_parquet(judged / "verdicts.parquet")
    root = sample_folder()
    runs = {}
    for run_ in mabpl.load_result(judged / "result").runs["run"]:
        for seed in (1, 2, 3):
            alone = mabpl.score(
                root / "data" / SET / "labels.jsonl", root / "predictions" / SET / f"{run_}.jsonl",
                judge=verdicts.filter(judge_seed=seed),
            )  # fmt: skip
            runs[run_, seed] = alone.sets["pa_f1"][0]
    for row in found.iter_rows(named=True):
        mine = np.array([[runs[f"{row['configuration']}_seed{g}", s] for s in (1, 2, 3)] for g in (1, 11)])
        assert [row[f"seed_{s}"] for s in (1, 2, 3)] == pytest.approx(mine.mean(axis=0))
        assert row["pa_f1"] == pytest.approx(mine.mean())
        assert row["judge_sd"] == pytest.approx(mine.mean(axis=0).std(ddof=1))
        assert row["judge_sd_run"] == pytest.approx(np.sqrt(mine.var(axis=1, ddof=1).mean()))
        assert row["generation_sd"] == pytest.approx(mine.mean(axis=1).std(ddof=1))
        assert (row["set"], row["runs"], row["clips"]) == (SET, 2, 6)
    assert found.height == 2
    said = mabpl_("judge", "agreement", judged / "result")
    assert said.code == 0
    assert "PA-F1 by judge seed: result" in said.out


def test_a_result_file_says_the_same_as_the_folder(judged: Path, tmp_path: Path, mabpl_: Mabpl) -> None:
    from mabpl.benchmarks.micro_annotation.results import score_document
    from mabpl.tables.files import write_json

    root = sample_folder()
    file = root / "predictions" / SET / "quick-large_seed1.jsonl"
    verdicts = pl.read_parquet(judged / "verdicts.parquet")
    scores = mabpl.score(root / "data" / SET / "labels.jsonl", file, judge=verdicts)
    scores.write_tables(tmp_path / "folder")
    write_json(tmp_path / "one.scores.json", score_document(scores, "quick-large_seed1", SET))
    one, two = (mabpl_("judge", "agreement", "--json", tmp_path / name).json for name in ("one.scores.json", "folder"))
    assert one["agreement"] == two["agreement"]
    assert one["judge_seeds"]["one.scores.json"] == two["judge_seeds"]["folder"]
    assert one["judge_seeds"]["one.scores.json"][0]["generation_sd"] is None


def test_a_clip_that_lacks_a_verdict_of_one_seed_is_left_out_for_all(judged: Path, tmp_path: Path) -> None:
    root = sample_folder()
    file = root / "predictions" / SET / "quick-large_seed1.jsonl"
    verdicts = pl.read_parquet(judged / "verdicts.parquet")
    labels = root / "data" / SET / "labels.jsonl"
    scores = mabpl.score(labels, file, judge=verdicts)
    of_clip = scores.pairs.filter(clip_id=scores.pairs["clip_id"].min())["request"].unique()
    lacking = verdicts.filter((pl.col("judge_seed") != 2) | ~pl.col("request").is_in(of_clip.to_list()))
    mabpl.score(labels, file, judge=lacking).write_tables(tmp_path / "lacking")
    (row,) = trust.seed_spread(tmp_path / "lacking").to_dicts()
    whole = scores.table("clip_scores").filter(pl.col("clip_id") != scores.pairs["clip_id"].min())
    assert row["clips"] == whole.height < 6
    assert row["pa_f1"] == pytest.approx(whole["pa_f1"].mean())


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_annotators_of_one_file_are_compared_with_each_other(tmp_path: Path) -> None:
    rows = [{"clip": "c", "pred": f"p{n % 3}", "gold": "g", "annotator": who, "accepted": n < 4 or who == "ann"}
            for n in range(6) for who in ("ann", "bob")]  # fmt: skip
    (row,) = trust.agreement([opinions.read_opinions(write(tmp_path / "two.jsonl", *rows))]).to_dicts()
    assert (row["kind"], row["between"], row["pairs"], row["clips"]) == ("joint", "ann and bob", 6, 1)
    assert row["share_equal"] == pytest.approx(4 / 6)
    assert row["share_equal_low"] is None


def test_equal_labels_in_two_clips_are_two_items_where_both_tell_the_clip(tmp_path: Path) -> None:
    rows = [{"clip_id": clip, "predicted": "p", "human": "h", "same_event": clip == "a"} for clip in "ab"]
    people = opinions.read_opinions(write(tmp_path / "people.jsonl", *rows))
    others = opinions.read_opinions(write(tmp_path / "others.jsonl", *rows[::-1]))
    bare = [{name: value for name, value in row.items() if name != "clip_id"} for row in rows]
    nowhere = opinions.read_opinions(write(tmp_path / "nowhere.jsonl", *bare))
    found = trust.agreement([people, others, nowhere])
    assert found["between"].to_list() == ["people and others", "people and nowhere", "others and nowhere"]
    assert found["pairs"].to_list() == [2, 4, 4]
    assert found["share_equal"].to_list() == [1.0, 0.5, 0.5]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": 1, "score": 3}, "found: a, score"),
        ({"predicted": "a", "gold": "b", "right": True}, "found: predicted, gold, right"),
        ({"predicted": "a", "gold": "b", "score": 101}, "line 1: score = 101"),
        ({"predicted": "a", "gold": "b", "score": True}, "line 1: score"),
        ({"predicted": "a", "gold": "b", "same_event": "maybe"}, "line 1: same_event = 'maybe'"),
        ({"predicted": ["a"], "gold": "b", "same_event": True}, "line 1: predicted"),
        ({"predicted": "a", "gold": "b", "same_event": True, "kind": "pi"}, "line 1: kind"),
    ],
)
def test_a_file_that_cannot_be_read_says_what_it_holds(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        opinions.read_opinions(write(tmp_path / "x.jsonl", row))


def test_nothing_in_common_is_an_error(judged: Path, tmp_path: Path, mabpl_: Mabpl) -> None:
    one, two = (write(tmp_path / f"{n}.jsonl", {"predicted": n, "gold": "g", "accepted": True}) for n in ("a", "b"))
    with pytest.raises(UsageError, match="nothing was rated twice"):
        trust.agreement([opinions.read_opinions(one), opinions.read_opinions(two)])
    assert mabpl_("judge", "agreement").code == 2
    assert mabpl_("judge", "agreement", tmp_path).code == 2
    shutil.copytree(judged / "result", tmp_path / "bare")
    assert mabpl_("judge", "agreement", tmp_path / "bare", "--labels-file", one).code == 0


@pytest.mark.shared_data
def test_the_embedded_judge_agrees_with_real_verdicts_as_its_page_says(
    shared_data: Path, tmp_path: Path, mabpl_: Mabpl
) -> None:
    """Accuracy and kappa with their intervals, of both halves: rows of mabpl/data/slots/README.md."""
    page = (Path(mabpl.__file__).parent / "data" / "slots" / "README.md").read_text(encoding="utf-8")
    lines = (shared_data / "wgo" / "verdicts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for parity, group in ((1, "all"), (0, "the half it was tuned on")):
        clips = [hashlib.blake2b(json.loads(line)["clip_id"].encode()).digest()[0] % 2 for line in lines]
        half = tmp_path / f"{parity}.jsonl"
        half.write_text("".join(line for line, of in zip(lines, clips, strict=True) if of == parity), encoding="utf-8")
        rows = mabpl_("judge", "agreement", "embedded", "--labels-file", half, "--json").json["agreement"]
        row = next(row for row in rows if row["kind"] == "joint")
        shown = " | ".join(
            f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"
            for name in ("share_equal", "kappa")
        )
        told = next(
            line for line in page.splitlines() if line.startswith(f"| {group} |") and "embedded-slots/1" in line
        )
        assert f"| {shown} |" in told
        assert f"| {row['pairs']} | {row['clips']} |" in told


def test_a_question_in_a_store_tells_its_labels(tmp_path: Path) -> None:
    request = Request("r", "joint", "take the mug", "pick up the mug")
    question = Question("k", request, "m", "self-hosted", None, {"model": "m", "messages": []})
    with Store.open(tmp_path / "store") as store:
        store.register([question])
        row = {"key": "k", "request": "r", "kind": "joint", "judge": "m", "route": "self-hosted", "judge_seed": None}
        store.import_verdicts(pl.DataFrame([{**row, "status": "ok", "accepted": True}]))
    people = write(tmp_path / "p.jsonl", {"predicted": "take the mug", "human": "pick up the mug", "same_event": True})
    found = trust.agreement([opinions.read_opinions(tmp_path / "store"), opinions.read_opinions(people)])
    assert found["share_equal"].to_list() == [1.0]
