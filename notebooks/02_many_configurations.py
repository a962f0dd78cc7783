# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Which one is better? Many configurations at once
#
# Four configurations, three generation seeds each, two sets: 24 prediction files. This notebook scores them in one
# call, ranks them with their uncertainty, asks whether A really beats B, and keeps everything as parquet.
#
# It runs on the invented sample that comes with mabpl; the ranking says nothing about any real model.

# %%
import tempfile
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

import mabpl
from mabpl.data import sample_folder
from mabpl.report import charts
from mabpl.report.results import leaderboard
from mabpl.stats import bootstrap

charts.offline()  # charts as pictures, nothing loaded from the network
_ = pl.Config(
    float_precision=1, fmt_str_lengths=60, tbl_rows=30, tbl_cols=14, tbl_width_chars=140,
    tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True,
)  # fmt: skip

# %% [markdown]
# ## One call
#
# `predictions()` lists every file of the dataset folder; any list of paths would do. A file's name less `_seed<k>` is
# its configuration, so runs that differ only in the generation seed belong together.

# %%
sample = mabpl.open_benchmark(sample_folder())
scores = mabpl.score(sample.labels(), sample.predictions())

assert scores.runs.height == 24
scores.runs.group_by("configuration", "set").agg(pl.col("generation_seed").sort()).sort("configuration", "set")

# %% [markdown]
# ## The leaderboard
#
# `leaderboard` folds the seeds and puts the sets together, weighted by their numbers of clips. Two different doubts
# stand beside each mean:
#
# - `_sd`: how far the *model* moves when it is asked again (between generation seeds);
# - `_low`, `_high`: how far the *score* moves with another draw of clips (95%, bootstrap over clips).

# %%
board = leaderboard(scores)
boundary = [f"boundary_f1{part}" for part in ("", "_sd", "_low", "_high")]
board.filter(set="all sets").select("configuration", "runs", *boundary, "temporal_f1", "seg_f1")

# %%
charts.interval_chart(board, "boundary_f1")

# %% [markdown]
# ## A single run is not a result
#
# `quick-large` stands above `small-fine`. Had each been run only once, how often would the order have come out the
# other way? Every pairing of a seed of one with a seed of the other is a paper that somebody could have written.

# %%
both_sets = scores.sets.filter(pl.col("set").is_null()).join(
    scores.runs.select("run", "configuration").unique(), on="run"
)
of = {
    name: both_sets.filter(configuration=name).sort("run")["boundary_f1"].to_list()
    for name in ("quick-large", "small-fine")
}
reversed_order = [quick < fine for quick, fine in product(*of.values())]
print({name: [round(value, 1) for value in values] for name, values in of.items()})
assert any(reversed_order) and not all(reversed_order)
print(f"{sum(reversed_order)} of {len(reversed_order)} single-run comparisons put small-fine first")

# %% [markdown]
# ## Is A better than B?
#
# Their intervals overlap, which settles nothing: both are scored on the *same* clips, and a hard clip pulls both
# down. Ask about the difference, clip by clip, and draw clips, not scores. `clip_weights` says how often each clip is
# drawn; sets are drawn apart, as `summarise` does.

# %%
per_clip = (
    scores.clips.group_by("set", "clip_id", "configuration")
    .agg(pl.col("boundary_f1").mean())  # over the generation seeds
    .pivot("configuration", index=["set", "clip_id"], values="boundary_f1")
    .sort("set", "clip_id")
)
sizes = per_clip.group_by("set", maintain_order=True).len()["len"]
weights = np.hstack([bootstrap.clip_weights(size, stratum=i) for i, size in enumerate(sizes)])
draws = {name: weights @ per_clip[name].to_numpy() / per_clip.height for name in board["configuration"].unique().sort()}

# The same draws as the leaderboard's own: its intervals come out again.
for name, low, high in board.filter(set="all sets").select(
    "configuration", "boundary_f1_low", "boundary_f1_high"
).iter_rows():  # fmt: skip
    assert np.allclose(np.quantile(draws[name], [0.025, 0.975]), [low, high])


# %%
def difference(a: str, b: str) -> dict[str, object]:
    low, high = np.quantile(draws[a] - draws[b], [0.025, 0.975])
    by = (per_clip[a] - per_clip[b]).mean()
    return {"A": a, "B": b, "A - B": by, "low": low, "high": high, "verdict": "better" if low > 0 else "not settled"}


ranked = board.filter(set="all sets")["configuration"].to_list()
pl.DataFrame([difference(a, b) for place, a in enumerate(ranked) for b in ranked[place + 1 :]])

# %% [markdown]
# An interval that stays above 0 says that A would be better on other clips like these. It does not say that A would
# be better on other *seeds*: that is what `_sd` and several runs are for. And six questions at 95% each will now and
# then call a tie a win.
#
# ## Keep it: parquet
#
# One folder, one manifest with every setting and the SHA-256 of every input. Tables with a row per segment are split
# by set.

# %%
scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name) / "results"
scores.write_tables(folder)
print(*sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()), sep="\n")

# %% [markdown]
# `load_result` gives back the very same result: every table, and what is computed from them.

# %%
again = mabpl.load_result(folder)
for name in again.tables:
    assert_frame_equal(again.table(name), scores.table(name))
assert_frame_equal(leaderboard(again), board)
assert again.settings == scores.settings
print(f"{len(again.tables)} tables: {', '.join(again.tables)}")

# %% [markdown]
# And mabpl is not needed to read them. In polars and in DuckDB they are plain tables, documented column by column in
# `data_schema/`:

# %%
hit_by_polars = (
    pl.scan_parquet(folder / "matches")
    .filter(pl.col("metric") == "boundary")
    .group_by("run")
    .agg(pl.len().cast(pl.Int64).alias("matched"))
    .sort("run")
    .collect()
)
hit_by_duckdb = duckdb.sql(f"""
    select run, count(*) as matched from read_parquet('{folder}/matches/*/*.parquet')
    where metric = 'boundary' group by run order by run
""").pl()
counts = scores.clips.group_by("run").agg(pl.col("b").sum().alias("matched")).sort("run")

assert_frame_equal(hit_by_polars, hit_by_duckdb)
assert_frame_equal(hit_by_polars, counts)
hit_by_polars.head(4)

# %% [markdown]
# How far off are the ends of what does overlap? `pairs` holds every overlapping pair with its errors in frames (1/30
# s), so the typical miss of each configuration is one query on the files:

# %%
typical = duckdb.sql(f"""
    select r.configuration,
           count(*)                                   as pairs_over_half,
           median(abs(p.start_error_ticks))           as start_off_frames,
           median(abs(p.end_error_ticks))             as end_off_frames
    from read_parquet('{folder}/pairs/*/*.parquet') p
    join read_parquet('{folder}/runs.parquet') r using (run, "set")
    where p.iou >= 0.5
    group by r.configuration order by all
""").pl()
scratch.cleanup()
typical.head()

# %% [markdown]
# The same on the command line: `mabpl score --root FOLDER --no-judge --tables results`. Another seed or another model
# later? Score it alone into a second folder and read both with one glob.
