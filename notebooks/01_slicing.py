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
# # Where does it go wrong? Slicing a result
#
# One number ranks models; it does not say what to fix. This notebook cuts a result by operator, by clip length, by
# verb and by hand, in polars and again in SQL, and checks each cut against the other.
#
# Everything runs on the sample that comes with mabpl: ten invented clips, four invented configurations, three
# generation seeds each. No key, no network.

# %%
import polars as pl
from polars.testing import assert_frame_equal

import mabpl
from mabpl.data import sample_folder
from mabpl.report import charts
from mabpl.report.diagnosis import diagnose

charts.offline()  # charts as pictures, nothing loaded from the network
_ = pl.Config(
    float_precision=1, fmt_str_lengths=80, tbl_rows=30, tbl_cols=14, tbl_width_chars=140,
    tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True,
)  # fmt: skip

sample = mabpl.open_benchmark(sample_folder())
scores = mabpl.score(sample.labels(), sample.predictions())

# %% [markdown]
# `scores.clips` has one row for each run and clip. The counts stand beside the metrics (`x` predicted segments, `y`
# human ones, `b` of them matched with both ends within 20 frames), and every column that the labels file has for a
# clip comes along: here `operator`, `session` and `scene`.

# %%
scores.clips.filter(run="quick-large_seed1").select(
    "set", "clip_id", "operator", "duration_s", "x", "y", "b", "boundary_f1", "temporal_f1", "seg_f1"
)

# %% [markdown]
# ## Two ways to a wrong mean
#
# The benchmark adds metrics up in two ways. Boundary and Temporal F1 are the **mean of the clips' values**; Seg F1
# **pools its counts** over the clips of a set and divides once. Use one recipe for all of them and one column is
# wrong, by an amount that looks like a result:

# %%
one_set = scores.clips.filter(run="quick-large_seed1", set="operator_disjoint_6")
pooled = one_set.select(
    pl.lit("pool the counts").alias("recipe"),
    boundary_f1=200 * pl.col("b").sum() / (pl.col("x") + pl.col("y")).sum(),
    seg_f1=200 * pl.col("t").sum() / (pl.col("x") + pl.col("y")).sum(),
)
averaged = one_set.select(
    pl.lit("average the clips").alias("recipe"), pl.col("boundary_f1").mean(), pl.col("seg_f1").mean()
)
right = mabpl.summarise(one_set).select(pl.lit("summarise").alias("recipe"), "boundary_f1", "seg_f1")

assert right["boundary_f1"].item() != pooled["boundary_f1"].item()
assert right["seg_f1"].item() != averaged["seg_f1"].item()
assert abs(right["boundary_f1"].item() - averaged["boundary_f1"].item()) < 1e-9
assert abs(right["seg_f1"].item() - pooled["seg_f1"].item()) < 1e-9
pl.concat([pooled, averaged, right])

# %% [markdown]
# That is why `summarise` exists. It knows each metric's recipe, keeps sets apart unless told to `combine` them
# (weighted by their numbers of clips), and folds generation seeds last. Every slice below goes through it.
#
# ## By operator
#
# Do all configurations find the same people hard? One line; `ci=0.95` adds a bootstrap over the clips of each slice.

# %%
by_operator = scores.summarise("operator", fold_seeds=True, ci=0.95)
charts.slices_chart(by_operator, "temporal_f1", "operator")

# %% [markdown]
# One or two clips an operator are an anecdote, not a finding; of a single clip every draw is that clip, so its
# interval has no width at all. Look at `by_operator["clips"]` before you believe a gap.
#
# The same in SQL. `connect` gives a DuckDB connection with every table as a view. The recipe is spelled out this
# time: first each run's slice, by the metric's own rule; then the mean over seeds.

# %%
sql = mabpl.connect(scores)
by_operator_sql = sql.sql("""
    with slices as (
        select configuration, run, operator, "set",
               avg(boundary_f1)               as boundary_f1,   -- mean over clips
               200.0 * sum(t) / sum(x + y)    as seg_f1         -- pooled
        from clip_scores group by all
    )
    select configuration, operator, "set", avg(boundary_f1) as boundary_f1, avg(seg_f1) as seg_f1
    from slices group by all order by all
""").pl()
assert_frame_equal(by_operator_sql, by_operator.select(by_operator_sql.columns))
by_operator_sql.pivot("configuration", index=["set", "operator"], values="boundary_f1").sort("set", "operator")

# %% [markdown]
# ## By clip length
#
# Any column will do, also one made on the spot. An `Enum` keeps the bins in their order. Sets are put together here,
# for a bin of one set alone would hold too few clips.

# %%
bins = ["under 45 s", "45 to 60 s", "over 60 s"]
d = pl.col("duration_s")
length = pl.when(d < 45).then(pl.lit(bins[0])).when(d <= 60).then(pl.lit(bins[1])).otherwise(pl.lit(bins[2]))
clips = scores.clips.with_columns(length=length.cast(pl.Enum(bins)))

by_length = mabpl.summarise(clips, by=["length"], combine=True, fold_seeds=True, ci=0.95)
charts.slices_chart(by_length, "boundary_f1", "length")

# %%
by_length_sql = sql.sql("""
    with slices as (
        select configuration, run, "set",
               case when duration_s < 45 then 'under 45 s' when duration_s <= 60 then '45 to 60 s'
                    else 'over 60 s' end       as length,
               count(*)                        as clips,
               avg(boundary_f1)                as boundary_f1,
               200.0 * sum(t) / sum(x + y)     as seg_f1
        from clip_scores group by all
    ), runs as (                                                  -- sets weigh by their clips, seg_f1 too
        select configuration, run, length, sum(clips * boundary_f1) / sum(clips) as boundary_f1,
               sum(clips * seg_f1) / sum(clips) as seg_f1
        from slices group by all
    )
    select configuration, length, avg(boundary_f1) as boundary_f1, avg(seg_f1) as seg_f1 from runs group by all
""").pl()
by_length_sql = by_length_sql.with_columns(pl.col("length").cast(pl.Enum(bins))).sort("configuration", "length")
assert_frame_equal(by_length_sql, by_length.select(by_length_sql.columns))
by_length.pivot("length", index="configuration", values="seg_f1")

# %% [markdown]
# ## Below the clip: which segments are missed?
#
# `matches` says which human segment each run hit, metric by metric. A left join from the human segments gives the
# ones that nobody hit. Idle and flagged segments are not scored, so they leave first.

# %%
human = scores.segments.filter(pl.col("run").is_null() & ~pl.col("is_idle") & ~pl.col("flagged"))
hits = scores.matches.filter(metric="boundary").select("run", "set", "clip_id", "human", found=True)
asked = (
    human.drop("run")
    .rename({"segment": "human"})
    .join(scores.runs.select("run", "set", "configuration"), on="set")
    .join(hits, on=["run", "set", "clip_id", "human"], how="left")
    .with_columns(pl.col("found").fill_null(False))
)
assert asked["found"].sum() == scores.clips["b"].sum()
assert asked.height == scores.clips["y"].sum()

share_found = (100 * pl.col("found").mean()).alias("found")
hands = pl.col("hands").fill_null("not said")
by_hands = asked.group_by("configuration", hands).agg(share_found).sort("configuration", "hands")
by_hands.pivot("hands", index="configuration", values="found")

# %% [markdown]
# These are shares of segments, in percent, and a share of segments *is* pooled: there is no F1 here, so nothing to
# average wrongly. Now by verb. A label for two hands holds two actions, separated by a semicolon; each counts once.

# %%
verbs = asked.with_columns(pl.col("label").str.split("; ")).explode("label")
verbs = verbs.with_columns(verb=pl.col("label").str.extract(r"^(pick up|put down|\w+)"))
by_verb = verbs.group_by("verb", "configuration").agg(pl.len().alias("asked"), share_found)
common = by_verb.group_by("verb").agg(pl.col("asked").sum()).sort(["asked", "verb"], descending=[True, False]).head(8)
shown = by_verb.join(common.select("verb"), on="verb").sort("configuration").pivot(
    "configuration", index="verb", values="found"
)  # fmt: skip
common.join(shown, on="verb", maintain_order="left")

# %%
by_verb_sql = sql.sql("""
    with asked as (
        select s.*, r.run as by_run, r.configuration, unnest(string_split(s.label, '; ')) as action
        from segments s join runs r using ("set")
        where s.run is null and not s.is_idle and not s.flagged
    )
    select regexp_extract(action, '^(pick up|put down|\\w+)') as verb, configuration,
           count(*) as asked, 100.0 * count(m.human) / count(*) as found
    from asked a left join matches m
        on m.run = a.by_run and m."set" = a."set" and m.clip_id = a.clip_id and m.human = a.segment
        and m.metric = 'boundary'
    group by all
""").pl()
assert_frame_equal(by_verb_sql, by_verb, check_row_order=False, check_dtypes=False)
print(f"{by_verb.height} rows agree")

# %% [markdown]
# ## And look at one
#
# A table says which clip, a picture says why. Here is the clip on which `small-coarse` does worst at timing, with the
# best configuration below it. (Where the editor draws Vega-Lite itself, each segment's label is in its tooltip.)

# %%
coarse = scores.clips.filter(run="small-coarse_seed1").sort("temporal_f1", "clip_id")
worst = coarse["clip_id"][0]
charts.timeline_chart(scores, worst, ["small-coarse_seed1", "careful-large_seed1"], metric="temporal")

# %% [markdown]
# `diagnose` puts the picture into words, one row for each segment. In the terminal, `mabpl show` prints the same.

# %%
of_clip = [frame.filter(clip_id=worst) for frame in (scores.segments, scores.matches)]
diagnosis = diagnose(*of_clip, run="small-coarse_seed1")
diagnosis.filter(side="human").select("segment", "label", "verdict", "why")

# %% [markdown]
# **Next:** `02_many_configurations` asks which configuration is better, and how sure one can be.
