from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common, proact_common

if TYPE_CHECKING:
    import polars as pl


@click.command("cuts")
@proact_common.release_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv"]),
    help="Of the list (default: by the ending of --out, else jsonl).",
)
@click.option("--out", type=click.Path(), metavar="FILE", help="Write the list here instead of standard output.")
@click.option("--videos", type=click.Path(), metavar="DIR", help="Source videos: <video_uid>.mp4 (mkv, mov, ...).")
@click.option("--clips-dir", type=click.Path(), metavar="DIR", help="With --videos: cut the clips into this folder.")
@click.option("--fps", type=float, help="Frames a second of the cut clips (default: the source's).")
@click.option("--long-side", type=int, metavar="PIXELS", help="Longer side of the cut clips (default: the source's).")
@click.option("--crf", type=click.IntRange(0, 51), default=18, show_default=True, help="Quality: lower is better.")
@click.option("--again", is_flag=True, help="Cut clips that are there once more.")
@click.option("--json", "as_json", is_flag=True, help="With --videos: what came of each clip, as one JSON document.")
@common.quiet_option
def command(
    where: dict[str, Any],
    form: str | None,
    out: str | None,
    videos: str | None,
    clips_dir: str | None,
    as_json: bool,
    quiet: bool,
    **how: Any,
) -> int:
    """List every clip as a window of its source video, in seconds; with --videos, cut them.

    Cut clips are MP4s without sound, <clip_uid>.mp4, encoded again so that each begins at its start to the frame.
    Exit code 3 where a source video is missing or too short: those clips are listed.
    """
    from mabpl.benchmarks.proact_ego_mem.cuts import windows
    from mabpl.errors import UsageError

    if (videos is None) != (clips_dir is None):
        raise UsageError("--videos and --clips-dir go together", "the source videos, and where the clips go")
    if as_json and videos is None:
        raise UsageError("--json tells what was cut", "give --videos and --clips-dir; the list is JSON lines already")
    release = proact_common.read(where, quiet)
    release.require_valid()
    wanted = windows(release)
    if out is not None or videos is None:
        csv = (form or ("csv" if str(out or "").lower().endswith(".csv") else "jsonl")) == "csv"
        proact_common.write_or_print(_listed(wanted, csv), out, quiet)
    if videos is None or clips_dir is None:
        return 0
    return _cut(wanted, Path(videos), Path(clips_dir), how, as_json, quiet)


def _listed(wanted: pl.DataFrame, csv: bool) -> str:
    from mabpl.report.tables import render
    from mabpl.tables.files import to_json_lines

    return render(wanted, format="csv") if csv else to_json_lines(wanted.to_dicts())


def _cut(wanted: pl.DataFrame, videos: Path, folder: Path, how: dict[str, Any], as_json: bool, quiet: bool) -> int:
    from mabpl.benchmarks.proact_ego_mem.cuts import Cut, cut_all
    from mabpl.report.tables import plain
    from mabpl.tables.files import to_json

    def told(cut: Cut) -> None:
        if cut.status in ("cut", "failed"):
            common.note(f"{cut.clip_uid}: {cut.status}, {cut.told}", quiet)

    cuts = cut_all(wanted, videos, folder, done=told, **how)
    counts = Counter(cut.status for cut in cuts)
    if as_json:
        click.echo(
            to_json({"counts": dict(sorted(counts.items())), "clips": [cut._asdict() for cut in cuts]}), nl=False
        )
    else:
        for cut in cuts:
            if cut.status in ("missing", "failed"):
                click.echo(plain(f"{cut.status}: clip {cut.clip_uid}, video {cut.video_uid}: {cut.told}"))
        click.echo(", ".join(f"{counts[status]} {status}" for status in ("cut", "kept", "missing", "failed")))
    return common.PARTIAL if counts["missing"] or counts["failed"] else 0
