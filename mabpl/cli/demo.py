from __future__ import annotations

import shutil
from pathlib import Path

import click


@click.command("demo")
@click.argument("folder", type=click.Path(), default="mabpl-demo")
def command(folder: str) -> None:
    """Score the bundled sample benchmark: copies it to FOLDER (default mabpl-demo), validates and scores it.

    It ends with a small tournament of three of its models.
    """
    from mabpl.benchmarks.micro_annotation import dataset, inputs, judging, scoring
    from mabpl.data import sample_folder
    from mabpl.errors import unreadable
    from mabpl.reading.problems import counts
    from mabpl.report.results import leaderboard_text
    from mabpl.settings import Settings

    target = Path(folder)
    if target.is_file() or (target.is_dir() and any(target.iterdir()) and not (target / "data").is_dir()):
        raise unreadable(target, "holds something else", "name another folder: mabpl demo FOLDER")
    try:
        shutil.copytree(sample_folder(), target, dirs_exist_ok=True, copy_function=shutil.copyfile)
    except (OSError, shutil.Error) as error:
        raise unreadable(target, f"the sample cannot be copied there ({error})") from None
    sample = dataset.open_benchmark(target)
    request = inputs.Request(root=folder)
    gathered = inputs.gather(request, Settings())
    human = gathered.labels.segments.height
    click.echo(f"{target}: a sample benchmark of {gathered.labels.clips.height} clips and {human} human segments,")
    click.echo(f"  {len(gathered.predictions.sources)} prediction files; sets: {', '.join(sample.sets)}.")
    warnings = ", ".join(f"{rule} {count}" for _, rule, count in counts(gathered.problems).iter_rows())
    click.echo(f"validate: no errors; warnings: {warnings or 'none'}.")
    click.echo()
    scores = scoring.score_files(gathered.labels, gathered.ready(Settings()), settings=Settings())
    scores = judging.judge_scores(scores, judging.Judging("embedded", root=folder)).scores
    click.echo(leaderboard_text(scores), nl=False)
    arms = _tournament(folder, sample.sets[0])
    clip = gathered.labels.clips["clip_id"][0]
    run = f"{folder}/predictions/{gathered.labels.clips['set'][0]}/small-coarse_seed1.jsonl"
    click.echo("\nWhat to try next:")
    for text, what in (
        (f"mabpl show {clip} --root {folder} -p {run}", "see where a timeline goes wrong"),
        (f"mabpl score --root {folder} --judge embedded --by operator", "the same, by operator"),
        (f"mabpl score --root {folder} --judge embedded --tables results", "keep every table as parquet"),
        (
            f"mabpl tournament --root {folder} --judge embedded --arms {' '.join(arms)}",
            "the tournament, kept as parquet",
        ),
        ("mabpl explain boundary_f1", "what the numbers mean"),
    ):
        click.echo(f"  {text}\n      {what}")


def _tournament(folder: str, set_name: str) -> list[str]:
    """Shows a tournament of three models; returns its arms as the command takes them."""
    from mabpl.report.tournament import standings_text
    from mabpl.tournament.running import run_tournament

    files = {name: f"{folder}/predictions/{set_name}/{name}_seed1.jsonl" for name in _ARMS}
    tournament = run_tournament(folder, files, set_name=set_name)
    click.echo()
    click.echo(standings_text(tournament.result, notes=tournament.remarks, matrix=False), nl=False)
    return [f"{name}={file}" for name, file in files.items()]


_ARMS = ("careful-large", "quick-large", "small-fine")
