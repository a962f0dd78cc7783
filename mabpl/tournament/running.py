"""A tournament from timelines to a standing, and as a result folder.

Two arms meet on a clip in both orders. Every verdict is kept in the judges' store under all that can change it, so a
further arm, clip or judge seed pays only for its own comparisons.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

import mabpl
from mabpl.benchmarks.micro_annotation import scoring
from mabpl.benchmarks.micro_annotation.inputs import Inputs, Request
from mabpl.benchmarks.micro_annotation.results import digest
from mabpl.benchmarks.micro_annotation.scores import Scores
from mabpl.errors import UsageError, unknown_name, unreadable
from mabpl.judges.asking import Answered, Judging, Tell, verdicts_on
from mabpl.judges.prompts import TOURNAMENT, load_prompts
from mabpl.settings import Settings
from mabpl.stats.bradley_terry import REPLICATES, Ties
from mabpl.tables import folder as folders
from mabpl.tables.tournament import COMPARISONS
from mabpl.tournament import embedded, standings
from mabpl.tournament.arms import absent_clips, gather_arms
from mabpl.tournament.comparing import Comparing, compare
from mabpl.tournament.packets import DIMENSIONS, Dimension
from mabpl.tournament.standings import Standings

EMBEDDED_ROUTE = "embedded"
TABLES = ("comparisons", "requests", "verdicts", "games", "standings", "win_matrix", "tournament_checks")


@dataclass(frozen=True, slots=True)
class Tournament:
    """A tournament: `comparisons`, `requests` and `verdicts` as tables, and the standing (``result``) made of them.

    ``about``: what a result folder's manifest says of it: set, dimensions, arms, clips that an arm lacks, settings,
    judges and prompts, inputs. ``answered``: what asking came to, where something was asked.
    """

    comparisons: pl.DataFrame
    requests: pl.DataFrame
    verdicts: pl.DataFrame
    result: Standings
    about: Mapping[str, Any]
    answered: Answered | None = field(default=None, repr=False, compare=False)

    @property
    def games(self) -> pl.DataFrame:
        """`games`: two arms on a clip, both orders together."""
        return self.result.games

    @property
    def standings(self) -> pl.DataFrame:
        """`standings`: the arms of each dimension, the strongest first."""
        return self.result.standings

    @property
    def win_matrix(self) -> pl.DataFrame:
        """`win_matrix`: wins and losses of every two arms."""
        return self.result.win_matrix

    @property
    def checks(self) -> pl.DataFrame:
        """`tournament_checks`: how many comparisons count, position bias, order consistency."""
        return self.result.checks

    @property
    def missing(self) -> int:
        """Comparisons that lack the verdict of an order."""
        return int(self.checks["missing"].sum())

    @property
    def absent(self) -> dict[str, list[str]]:
        """Arm → clips that it has no timeline of: it is not compared on them."""
        return dict(self.about["tournament"]["absent"])

    @property
    def partial(self) -> bool:
        """Whether something that was to be compared was not: verdicts, clips of an arm or a whole dimension lack."""
        return bool(self.missing or self.absent or self.about["tournament"]["left_out"])

    @property
    def remarks(self) -> list[str]:
        """What belongs beside the numbers: who judged, and whether that can be compared with published strengths."""
        who: dict[tuple[str, str, str], list[str]] = {}
        for kind, judge in self.about["judging"]["judges"].items():
            seeds = ", ".join(map(str, judge["judge_seeds"]))
            who.setdefault((judge["judge"], judge["route"], seeds), []).append(kind)
        said = [
            f"Judge of {' and '.join(kinds)}: {name} at {route}{f', judge seeds {seeds}' * bool(seeds)}."
            for (name, route, seeds), kinds in who.items()
            if route != EMBEDDED_ROUTE
        ]
        if any(route == EMBEDDED_ROUTE for _, route, _ in who):
            said.append("Judged offline by embedded-slots: not comparable with published strengths.")
        return said

    def views(self) -> dict[str, pl.DataFrame]:
        """What :func:`mabpl.connect` shows: every table."""
        return self.tables()

    def tables(self) -> dict[str, pl.DataFrame]:
        """Every table by its public name, sorted by key."""
        own = {"comparisons": self.comparisons, "requests": self.requests, "verdicts": self.verdicts}
        return {**own, **self.result.tables()}

    def refit(
        self,
        *,
        clips: Collection[str] | None = None,
        arms: Collection[str] | None = None,
        replicates: int | None = None,
        ties: Ties | None = None,
    ) -> Tournament:
        """The tournament of some ``clips`` or ``arms`` alone, from the same verdicts: nothing is asked.

        It is what a run on them gives. ``replicates`` and ``ties``: by default as they were. Raises
        :class:`UsageError` for an unknown clip or arm and for what leaves no two arms.
        """
        fit = self.result.settings
        result = standings.stand(
            self.games,
            clips=clips,
            arms=arms,
            replicates=fit["replicates"] if replicates is None else replicates,
            seed=fit["seed"],
            ties=fit["ties"] if ties is None else ties,
        )
        met = result.games.select("clip_id", "dimension", first="arm", second="other")
        both = pl.concat([met, met.select("clip_id", "dimension", first="second", second="first")]).unique()
        comparisons = self.comparisons.join(both, on=both.columns, how="semi").sort(COMPARISONS.key)
        asked = comparisons.select("request").unique()
        tournament = dict(self.about["tournament"])
        names = set(comparisons["first"])
        tournament["arms"] = [arm for arm in tournament["arms"] if arm in names]
        if clips is not None:
            tournament["clips"] = sorted(set(clips))
        chosen = set(comparisons["clip_id"]) if clips is None else set(clips)
        tournament["absent"] = {
            arm: lacking
            for arm, of in self.absent.items()
            if arm in names and (lacking := [clip for clip in of if clip in chosen])
        }
        tournament["fit"] = _fit(result)
        inputs = [source for source in self.about["inputs"] if source["run"] in (None, *names)]
        return replace(
            self,
            comparisons=comparisons,
            requests=self.requests.join(asked, on="request", how="semi").sort("request"),
            verdicts=self.verdicts.join(asked, on="request", how="semi").sort("key"),
            result=result,
            about={**self.about, "tournament": tournament, "inputs": inputs},
            answered=None,
        )

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Writes every table as parquet and a manifest into ``folder``; an earlier result there is replaced."""
        manifest = {**self.about, "partial": self.partial}
        folders.write_folder(Path(folder), self.tables(), {**manifest, "digest": digest(manifest)})


class _Fit(msgspec.Struct):
    ties: Ties
    replicates: int
    seed: int


class _About(msgspec.Struct):
    set: str
    dimensions: list[Dimension]
    left_out: list[Dimension]
    arms: list[str]
    clips: list[str] | None
    absent: dict[str, list[str]]
    fit: _Fit


class _Judge(msgspec.Struct):
    judge: str
    route: str
    judge_seeds: list[int]


class _Judges(msgspec.Struct):
    judges: dict[str, _Judge]


class _Source(msgspec.Struct):
    run: str | None


class _Manifest(msgspec.Struct):
    """What is relied on of a manifest, which may have been edited."""

    mabpl: str
    tournament: _About
    settings: dict[str, Any]
    judging: _Judges
    inputs: list[_Source]


def load_tournament(folder: str | os.PathLike[str]) -> Tournament:
    """The tournament in a result folder; raises :class:`InputError` where it holds none."""
    path = Path(folder)
    manifest = folders.read_manifest(path)
    about = manifest.get("tournament")
    lacking = [name for name in TABLES if name not in manifest.get("tables", ())]
    if not isinstance(about, dict) or lacking:
        raise unreadable(path, "is a result folder, but not of a tournament", "give the folder of `mabpl tournament`")
    try:
        msgspec.convert(manifest, _Manifest)
    except msgspec.ValidationError as error:
        raise unreadable(path / folders.MANIFEST, f"is not the manifest of a tournament ({error})") from None
    gone = [f"{name}.parquet" for name in TABLES if not (path / f"{name}.parquet").is_file()]
    if gone:
        raise unreadable(path, f"lacks {', '.join(gone)}", "the command that made it makes it again from its verdicts")
    tables = {name: folders.read_table(path, name) for name in TABLES}
    result = Standings(
        tables["standings"], tables["win_matrix"], tables["tournament_checks"], tables["games"], dict(about["fit"])
    )
    known = {name: manifest[name] for name in ("mabpl", "tournament", "settings", "judging", "inputs")}
    return Tournament(tables["comparisons"], tables["requests"], tables["verdicts"], result, known)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Timelines that were read, checked and matched, and what a judge would be asked about them."""

    scores: Scores
    comparing: Comparing
    gathered: Inputs

    @property
    def set_name(self) -> str:
        return str(self.gathered.predictions.runs["set"][0])


def prepare(
    request: Request,
    arms: Mapping[str, str | os.PathLike[str]],
    dimensions: Sequence[Dimension] = DIMENSIONS,
    settings: Settings | None = None,
) -> Prepared:
    """Reads the arms and works out every comparison; nothing is asked. Prompts: ours, or those of ``request.root``."""
    settings = settings or Settings()
    for dimension in dimensions:
        if dimension not in DIMENSIONS:
            raise unknown_name("dimension", dimension, list(DIMENSIONS))
    gathered = gather_arms(request, arms, settings)
    scores = scoring.score_files(gathered.labels, gathered.ready(settings), settings=settings)
    chosen = [dimension for dimension in DIMENSIONS if dimension in dimensions]
    root = request.root if request.labels is None else None
    prompts = load_prompts(root or ("." if request.labels is None else None), [TOURNAMENT[name] for name in chosen])
    comparing = compare(scores, chosen, prompts)
    if comparing.comparisons.is_empty():
        raise UsageError("no clip is in two arms' files", "give files of the same clips")
    return Prepared(scores, comparing, gathered)


def hold(
    prepared: Prepared,
    judging: Judging,
    *,
    replicates: int = REPLICATES,
    ties: Ties = "nowhere",
    progress: Tell | None = None,
) -> Tournament:
    """Asks what has no verdict yet, and makes the standing of all that has one.

    Comparisons that lack a verdict are counted as missing. Raises what :func:`mabpl.judges.client.ask` does.
    """
    plan = prepared.comparing.plan
    if judging.how == "embedded":
        answered = Answered({"labels": embedded.labels_verdicts(prepared.comparing)}, {})
    else:
        answered = verdicts_on(plan, judging, progress)
    plan = plan.without(answered.left_out)
    kinds = list(plan.asked)
    verdicts = pl.concat([answered.verdicts[kind] for kind in kinds]).sort("key")
    profiles = {kind: judging.profile(kind) for kind in kinds}
    comparisons = pl.concat(plan.asked.values()).sort(COMPARISONS.key)
    games = [
        standings.games(plan.asked[kind], _with_every_seed(plan.of(kind), verdicts, profiles[kind]["judge_seeds"]))
        for kind in kinds
    ]
    result = standings.stand(pl.concat(games), replicates=replicates, ties=ties)
    about = {
        "mabpl": mabpl.__version__,
        "tournament": {
            "set": prepared.set_name,
            "dimensions": kinds,
            "left_out": list(answered.left_out),
            "arms": sorted(prepared.gathered.predictions.runs["run"]),
            "clips": None if prepared.gathered.clips is None else sorted(prepared.gathered.clips),
            "absent": absent_clips(prepared.gathered, prepared.scores.settings),
            "fit": _fit(result),
        },
        "settings": prepared.scores.settings.as_dict(),
        "judging": {"judges": profiles, "prompts": plan.prompts.provenance()},
        "inputs": list(prepared.scores.sources),
    }
    return Tournament(comparisons, plan.requests.sort("request"), verdicts, result, about, answered)


def _fit(result: Standings) -> dict[str, Any]:
    return {name: result.settings[name] for name in ("ties", "replicates", "seed")}


def _with_every_seed(requests: pl.DataFrame, verdicts: pl.DataFrame, seeds: Sequence[int]) -> pl.DataFrame:
    """``verdicts`` with a row for every request and judge seed: a seed that nobody answered is missing too."""
    every: list[int | None] = list(seeds) or [None]
    asked = pl.DataFrame({"judge_seed": every}, schema={"judge_seed": pl.Int64})
    known = verdicts.select("request", "judge_seed", "status", "verdict")
    expected = requests.select("request").join(asked, how="cross")
    return expected.join(known, on=["request", "judge_seed"], how="left", nulls_equal=True)


def run_tournament(
    labels: str | os.PathLike[str],
    arms: Mapping[str, str | os.PathLike[str]],
    *,
    judge: str | Judging = "embedded",
    dimensions: Sequence[Dimension] | None = None,
    set_name: str | None = None,
    clips: Sequence[str] | None = None,
    settings: Settings | None = None,
    replicates: int = REPLICATES,
    ties: Ties = "nowhere",
) -> Tournament:
    """Compares every two of ``arms`` (name → prediction file) on every clip, in both orders.

    ``labels``: a dataset folder, whose prompts win, or a labels file. ``judge``: ``"embedded"`` (offline; labels only;
    not comparable with published strengths) or ``mabpl.Judging.from_environment(kinds=("timing", "labels"))``.
    ``dimensions``: timing and labels, by default all that the judge judges. Raises :class:`InvalidTimelines` where a
    file has errors.
    """
    if isinstance(judge, str) and judge != "embedded":
        raise unknown_name("judge", judge, ["embedded"])
    judging = Judging("embedded", ("labels",)) if isinstance(judge, str) else judge
    wanted = tuple(dimensions or (kind for kind in DIMENSIONS if kind in judging.kinds))
    check_judge(judging, wanted)
    root = os.fspath(labels) if Path(labels).is_dir() else None
    request = Request(root, None if root else os.fspath(labels), set_name, clips=clips)
    prepared = prepare(request, arms, wanted, settings)
    return hold(prepared, replace(judging, kinds=wanted), replicates=replicates, ties=ties)


def check_judge(judging: Judging, dimensions: Sequence[Dimension]) -> None:
    """Raises :class:`UsageError` where ``judging`` cannot judge ``dimensions``."""
    if not dimensions:
        raise UsageError("no dimension is to be judged", f"known: {', '.join(DIMENSIONS)}")
    if judging.how == "embedded":
        if "timing" in dimensions:
            raise UsageError("the embedded judge reads labels, not timing", "compare labels alone: --dims labels")
        return
    for dimension in dimensions:
        if dimension not in judging.judges:
            raise UsageError(
                f"no judge of {dimension} is named", 'mabpl.Judging.from_environment(kinds=("timing", "labels"))'
            )
