from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common
from mabpl.cli.judges import Bar
from mabpl.errors import ServiceError, UsageError, unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mabpl.annotate.forecast import Forecast
    from mabpl.annotate.runner import Clip, Ran, Setup
    from mabpl.benchmarks.micro_annotation.reading import Labels
    from mabpl.judges.endpoint import Endpoint
    from mabpl.judges.judge import Judge

_KEY = "MODEL_API_KEY"
_LAYOUTS = ("mp4", "frames", "grids", "printed")
_DIALECTS = ("openrouter", "openai", "compatible", "template", "none")
_SHOWN = 20


@click.command("run")
@common.input_options
@click.option("--input", "layout", type=click.Choice(_LAYOUTS), default="mp4", show_default=True, help="What is sent.")
@click.option("--base-url", metavar="URL", help="An OpenAI-compatible endpoint; its key is in MODEL_API_KEY.")
@click.option("--model", "name", metavar="NAME", help="The model as it is served.")
@click.option("--route", metavar="NAME", help="The route's label in reports (default: the host, or self-hosted).")
@click.option(
    "--out", type=click.Path(), metavar="FILE.jsonl", help="The prediction file; also what it is resumed from."
)
@click.option("--seeds", metavar="1,11,21,31,41", help="A run each, sent as the request's seed: FILE_seed1.jsonl, ...")
@click.option(
    "--reasoning-effort", "effort", metavar="EFFORT", help="low, medium, high, ...: the endpoint's own words."
)
@click.option(
    "--reasoning-dialect", "dialect", type=click.Choice(_DIALECTS), help="How it is said (by default by host)."
)
@click.option(
    "--max-tokens", type=click.IntRange(1), default=32_000, show_default=True, help="Output, thinking included."
)
@click.option("--temperature", type=click.FloatRange(0), help="Not sent unless given.")
@click.option("--top-p", type=click.FloatRange(0, 1), help="Not sent unless given.")
@click.option("--extra-body", default="{}", metavar="JSON", help="Merged into every request.")
@click.option(
    "--video-part-extra", default="{}", metavar="JSON", help="Merged into the video's part, e.g. '{\"fps\": 6}'."
)
@click.option(
    "--max-uri-mb", type=click.FloatRange(0, min_open=True), help="Encode an MP4 anew, worse, above this size."
)
@click.option("--parse-mode", type=click.Choice(["strict", "lenient"]), default="strict", show_default=True,
              help="lenient also repairs answers; each repair is counted.")  # fmt: skip
@click.option("--videos", type=click.Path(), metavar="DIR", help="The clips (default: data/<set>/videos of the root).")
@click.option("--cache", type=click.Path(), metavar="DIR", help="The store of answers (default: model_cache).")
@click.option("--concurrency", type=click.IntRange(1), default=4, show_default=True, help="Requests in flight.")
@click.option("--processes", type=click.IntRange(1), help="That decode videos (default: one for each core).")
@click.option("--timeout", type=click.FloatRange(1), default=1200.0, show_default=True, help="Seconds for one answer.")
@click.option("--give-up-after", type=click.FloatRange(0), default=900.0, help="Seconds without any answer.")
@click.option("--price-in", type=click.FloatRange(0), help="Price of a million input tokens, where no cost is told.")
@click.option("--price-out", type=click.FloatRange(0), help="Price of a million output tokens.")
@click.option(
    "--check", "checks", is_flag=True, help="Only: does the endpoint see 6 frames a second, and tell the time?"
)
@click.option("--dry-run", is_flag=True, help="Tell what would be asked; ask nothing.")
@click.option("--export", type=click.Path(), metavar="FILE.jsonl", help="Write what is to be asked as batch files.")
@click.option("--new-only", is_flag=True, help="--export: leave out what was asked or exported before.")
@click.option("--import", "imports", multiple=True, type=click.Path(), metavar="FILE", help="Take a batch's replies.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@common.quiet_option
def command(where: dict[str, Any], as_json: bool, quiet: bool, **given: Any) -> int:
    """Annotate videos with a model: from a dataset folder and an endpoint to a prediction file.

    Each clip is asked about in windows of 45 s, 38 s apart, at 6 frames a second and 720 pixels, up to 4 times; the
    answers are stitched. Run it again after a crash or an error: what was answered is not asked again, and clips that
    failed are tried again. Begin with --limit 2: it ends by telling what the whole set will cost.

    Beside FILE.jsonl: FILE.jsonl.run.json (what a report must state) and FILE.jsonl.usage.jsonl (each request). Exit
    code 3 where clips failed or their videos cannot be used.
    """
    model = _model(given)
    if given["checks"]:
        return _check(model, given, as_json)
    from mabpl.annotate.answers import parser
    from mabpl.judges.store import Store

    if given["out"] is None:
        raise UsageError("the prediction file has no name", "give --out FILE.jsonl")
    setup, durations = _setup(model, where, given)
    root = where["root_after"] or where["root_before"] or "."
    asks = not (given["dry_run"] or given["export"] or given["imports"])
    endpoint = _endpoint(model, given) if asks else None
    with Store.open(given["cache"] or Path(root) / "model_cache", parser=parser(setup.parse_mode)) as store:
        if given["export"] or given["dry_run"]:
            return _without_asking(setup, store, given, quiet)
        return _run(setup, store, endpoint, durations, given, as_json, quiet)


def _model(given: dict[str, Any]) -> Judge:
    from mabpl.annotate.dialects import model_of

    for option, name in (("base_url", "--base-url"), ("name", "--model")):
        if not given[option]:
            raise UsageError(f"{name} is not given", "say where the model is served and what it is called there")
    return model_of(
        given["base_url"],
        given["name"],
        route=given["route"],
        effort=given["effort"],
        dialect=given["dialect"],
        sampling={name: given[name] for name in ("max_tokens", "temperature", "top_p")},
        extra_body=given["extra_body"],
        seeds=_seeds(given["seeds"]),
    )


def _seeds(text: str | None) -> list[int]:
    try:
        return [int(part) for part in text.split(",")] if text is not None else []
    except ValueError:
        raise UsageError(f"--seeds {text!r} is no list of seeds", "expected whole numbers, e.g. 1,11,21") from None


def _endpoint(model: Judge, given: dict[str, Any]) -> Endpoint:
    from mabpl.judges.asking import price
    from mabpl.judges.endpoint import Endpoint, Timeouts
    from mabpl.judges.judge import SELF_HOSTED, route_of

    key = os.environ.get(_KEY, "").strip()
    if not key and route_of(model.base_url) != SELF_HOSTED:
        raise UsageError(f"the model at {model.route} has no API key", f"set {_KEY}")
    return Endpoint(model.base_url, key, Timeouts(read=given["timeout"]), price(given["price_in"], given["price_out"]))


def _setup(model: Judge, where: dict[str, Any], given: dict[str, Any]) -> tuple[Setup, list[float]]:
    """What is to be run, and how long each clip of the set is."""
    from mabpl.annotate.dialects import parse_object
    from mabpl.annotate.messages import PROMPTS
    from mabpl.annotate.outputs import seed_file
    from mabpl.annotate.runner import Setup
    from mabpl.benchmarks.micro_annotation import checks, dataset, inputs
    from mabpl.judges.prompts import load_prompts
    from mabpl.reading import problems

    request = common.request(where)
    labels, _ = inputs.read_labels_of(request)
    problems.require_valid(checks.check_labels(labels))
    if len(labels.sets) != 1:
        raise UsageError("a run is of one set", f"give --set; known: {', '.join(labels.sets)}")
    (set_name,) = labels.sets
    chosen = dataset.select_clips(labels, limit=request.limit, clips=request.clips)
    every = _clips(labels, set_name, where, given["videos"])
    root = request.root if request.labels is None else None
    prompt = load_prompts(root or ("." if request.labels is None else None), PROMPTS.values())
    out = Path(given["out"])
    setup = Setup(
        model=model,
        prompt=prompt.files[PROMPTS[given["layout"]]],
        layout=given["layout"],
        set_name=set_name,
        clips=[clip for clip in every if chosen is None or clip.clip_id in chosen],
        known=[clip.clip_id for clip in every],
        outs={seed: out if seed is None else seed_file(out, seed, set_name) for seed in model.seeds},
        parse_mode=given["parse_mode"],
        max_uri_mb=given["max_uri_mb"],
        part_extra=parse_object(given["video_part_extra"], "--video-part-extra"),
    )
    return setup, [clip.duration_s for clip in every]


def _clips(labels: Labels, set_name: str, where: dict[str, Any], videos: str | None) -> list[Clip]:
    """All clips of the set, in order of their ids."""
    from mabpl.annotate.runner import Clip

    if videos is None and where["labels"] is not None:
        raise UsageError("a labels file does not tell where the videos are", "give --videos DIR")
    root = Path(where["root_after"] or where["root_before"] or ".")
    folder = Path(videos) if videos is not None else root / "data" / set_name / "videos"
    if not folder.is_dir():
        raise unreadable(folder, "there is no such folder", "download the set's videos, or give --videos DIR")
    found = []
    for clip_id, duration_s in labels.clips.select("clip_id", "duration_s").sort("clip_id").iter_rows():
        if duration_s is None:
            raise UsageError(f"the labels do not say how long clip {clip_id!r} is", "they need duration_s")
        if Path(clip_id).name != clip_id:
            raise UsageError(f"clip {clip_id!r} cannot be the name of a video", "an id must not hold a path")
        found.append(Clip(clip_id, duration_s, folder / f"{clip_id}.mp4"))
    return found


def _without_asking(setup: Setup, store: Any, given: dict[str, Any], quiet: bool) -> int:
    """--dry-run and --export."""
    from mabpl.annotate.media import Media
    from mabpl.annotate.runner import Run
    from mabpl.judges.batch import export_questions

    with Media(given["processes"]) as media:
        run = Run(setup, store, media)
        questions = run.prepare()
        _tell_bad(run.bad, quiet)
        if given["dry_run"]:
            windows = sum(map(len, run.asked.values()))
            click.echo(f"{len(setup.clips)} clips, {windows} windows with {len(setup.outs)} seeds to be answered still")
            click.echo(f"{len(questions)} of them to ask, at most 4 times each; --limit 2 tells what it will cost")
            return common.PARTIAL if run.bad else 0
        out = Path(given["export"])
        written = export_questions(store, questions, out, new_only=given["new_only"], content=media.make)
    _tell_bad({md5: why for md5, why in media.bad.items() if why not in run.bad.values()}, quiet)
    if written.pending:
        state = "were left out" if given["new_only"] else "would be paid twice if that batch is still under way"
        common.note(f"{written.pending} were asked or exported before, without an answer: they {state}", quiet)
    if written.stale is not None:
        common.note(f"{written.stale} is left from an earlier export: send no request twice", quiet)
    for file, count in written.files:
        click.echo(f"{file}  {count}")
    return common.PARTIAL if run.bad or media.bad else 0


def _run(
    setup: Setup, store: Any, endpoint: Endpoint | None, durations: list[float], given: dict[str, Any],
    as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    from mabpl.annotate import runner
    from mabpl.judges.batch import take

    for name in given["imports"]:
        taken = take(store, Path(name))
        failed = sum(taken.failed.values()) + taken.without
        common.note(f"{name}: {taken.new} new, {taken.known} known before, {failed} without a usable answer", quiet)
        if taken.unknown:
            common.note(f"{name}: {len(taken.unknown)} answers to questions of another store", quiet)
    try:
        with Bar(quiet) as bar:
            ran = runner.run(
                setup, store, endpoint, concurrency=given["concurrency"], processes=given["processes"],
                give_up_after=given["give_up_after"], progress=lambda now: bar.tell("windows", now),
            )  # fmt: skip
    except ServiceError:
        common.note(f"what is finished so far is in {', '.join(str(out) for out in setup.outs.values())}", quiet)
        raise
    ahead = _forecast(ran, durations, given, len(setup.clips) < len(setup.known))
    _tell(ran, ahead, as_json, quiet)
    if ran.outcome is not None and ran.outcome.interrupted:
        return common.INTERRUPTED
    return 0 if ran.whole else common.PARTIAL


def _forecast(ran: Ran, durations: list[float], given: dict[str, Any], partial: bool) -> Forecast | None:
    """What the whole set will take, after a trial."""
    from mabpl.annotate.forecast import forecast
    from mabpl.judges.asking import price

    rows = [row for output in ran.outputs.values() for row in output.rows_used() if row["clip_id"] in output.rows]
    if not partial or not rows:
        return None
    return forecast(
        rows, durations, runs=len(ran.outputs), concurrency=given["concurrency"],
        processes=given["processes"] or os.cpu_count() or 1, price=price(given["price_in"], given["price_out"]),
    )  # fmt: skip


def _tell(ran: Ran, ahead: Forecast | None, as_json: bool, quiet: bool) -> None:
    from mabpl.annotate import usage
    from mabpl.annotate.messages import CRF
    from mabpl.tables.files import to_json

    told = [(seed, output, usage.totals(output.rows_used())) for seed, output in ran.outputs.items()]
    if as_json:
        listed = [
            {
                "file": str(output.path),
                "seed": seed,
                "finished": len(output.rows),
                "failed": output.failed,
                "usage": sums,
            }
            for seed, output, sums in told
        ]
        document = {"files": listed, "bad_videos": dict(ran.bad), "forecast": asdict(ahead) if ahead else None}
        click.echo(to_json(document), nl=False)
        return
    _tell_bad(ran.bad, quiet)
    for _, output, sums in told:
        for clip_id, why in _some(sorted(output.failed.items())):
            if clip_id not in ran.bad:
                common.note(f"{output.path.name}: {clip_id} failed, and is tried again by the next run: {why}")
        if anew := usage.reencoded(output.rows_used(), CRF):
            common.note(f"{anew} windows were encoded at a higher CRF than {CRF}, to fit --max-uri-mb", quiet)
        if output.repairs:
            common.note(f"{sum(output.repairs.values())} repairs in {len(output.repairs)} clips", quiet)
        click.echo(f"{output.path}: {len(output.rows)} clips finished, {len(output.failed)} not; {_sums(sums)}")
    if ahead is not None:
        click.echo(_ahead(ahead))


def _tell_bad(bad: Any, quiet: bool) -> None:
    for _, why in _some(sorted(bad.items())):
        common.note(f"bad video, skipped: {why}", quiet)


def _some(items: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    if len(items) > _SHOWN:
        common.note(f"{len(items)} clips, of which the first {_SHOWN}:")
    return items[:_SHOWN]


def _sums(sums: dict[str, Any]) -> str:
    thought = "" if sums["tokens_reasoning"] is None else f" ({_number(sums['tokens_reasoning'])} thinking)"
    tokens = f"{_number(sums['tokens_in'])} tokens in, {_number(sums['tokens_out'])} out{thought}"
    return f"{sums['requests']} requests, {tokens}, cost {_number(sums['cost'], 4)}"


def _ahead(ahead: Forecast) -> str:
    of = f"{ahead.clips} clips, {ahead.windows} windows" + (f", {ahead.runs} seeds" if ahead.runs > 1 else "")
    thought = "" if ahead.tokens_reasoning is None else f" ({_number(ahead.tokens_reasoning)} thinking)"
    return (
        f"The whole set ({of}), by these {ahead.tried}: about {_number(ahead.minutes, 1)} min, "
        f"{_number(ahead.tokens_in)} tokens in, {_number(ahead.tokens_out)} out{thought}, "
        f"cost {_number(ahead.cost, 2)}" + ("" if ahead.cost is not None else " (--price-in and --price-out tell it)")
    )


def _number(value: float | None, digits: int = 0) -> str:
    return "unknown" if value is None else f"{value:,.{digits}f}"


def _check(model: Judge, given: dict[str, Any], as_json: bool) -> int:
    from mabpl.annotate.clock import check
    from mabpl.annotate.dialects import parse_object
    from mabpl.tables.files import to_json

    extra = parse_object(given["video_part_extra"], "--video-part-extra")
    found = check(model, _endpoint(model, given), given["layout"], part_extra=extra, give_up_after=60.0)
    if as_json:
        click.echo(to_json(asdict(found)), nl=False)
    else:
        for line in found.lines():
            click.echo(line)
    return {"fine": 0, "doubtful": common.PARTIAL, "failed": 4}[found.state]
