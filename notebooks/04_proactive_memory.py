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
# # Proactive memory: what was said, when, and what was better left unsaid
#
# ProactEgoMem shows a model clips of a day. It is to speak when something is worth saying, to be silent otherwise, and
# to answer questions afterwards. This notebook scores three invented submissions on an invented release in the same
# format, with the embedded judge, offline. Nothing here says anything about a real model.

# %%
import altair as alt
import polars as pl
from polars.testing import assert_frame_equal

import mabpl
from mabpl.benchmarks.proact_ego_mem import read_release, read_submissions, score_qa
from mabpl.benchmarks.proact_ego_mem.event_options import EventOptions
from mabpl.benchmarks.proact_ego_mem.events import score_events
from mabpl.data import proact_sample_folder
from mabpl.report import charts

charts.offline()  # charts as pictures, nothing loaded from the network
_ = pl.Config(
    float_precision=2, fmt_str_lengths=60, tbl_rows=30, tbl_cols=14, tbl_width_chars=140,
    tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True,
)  # fmt: skip

# %% [markdown]
# ## One call
#
# A released file is a cell: one task of one track. Counts are pooled over the clips of a cell; a row without a track is
# the mean over the cells (macro). Intervals come from redrawing clips, the same ones for every submission.

# %%
sample = proact_sample_folder()
release = read_release(sample / "json").select(splits=["dev"])
submissions = read_submissions(sample / "submissions" / "dev", release)
scores = score_events(release, submissions, judge="embedded")
macro = scores.scores.filter(pl.col("track").is_null()).sort("f1", descending=True)
shown = ["run", "f1", "f1_low", "f1_high", "timing_f1", "silence_rate", "false_alarms_per_minute", "mean_lateness_s"]
macro.select(shown)

# %% [markdown]
# The chatty one is caught by the silence rate: it speaks on nearly every declared negative, the clips where nothing is
# worth saying. How much of its loss is timing, and how much does it say about the wrong things?

# %%
by_kind = scores.outcomes.pivot("outcome", index="run", values="mention", aggregate_function=pl.len()).fill_null(0)
by_kind = by_kind.select("run", "hit", "duplicate", "wrong_object", "out_of_time", "on_negative")
assert by_kind.select(pl.sum_horizontal(pl.exclude("run")).sum()).item() == submissions.mentions.height
by_kind.sort("run")

# %% [markdown]
# The same in SQL, from the table of mentions, and held to the counts of the clips.

# %%
sql = mabpl.connect(scores)
in_sql = sql.sql("""
    select run, sum(hits) as hit, sum(duplicates) as duplicate, sum(wrong_objects) as wrong_object,
           sum(out_of_time) as out_of_time, sum(on_negatives) as on_negative
    from event_clip_scores group by run order by run
""").pl()
assert_frame_equal(in_sql, by_kind.sort("run"), check_dtypes=False)

pooled = sql.sql("""
    select track, task, 200.0 * sum(hits) / sum(mentions + segments) as f1
    from event_clip_scores where run = 'chatty' group by all order by all
""").pl()
cells = scores.scores.filter(pl.col("run") == "chatty", pl.col("cells") == 1).select("track", "task", "f1")
assert_frame_equal(pooled, cells)
pooled.head(6)

# %% [markdown]
# ## Look at a clip
#
# Bars are the annotated segments, marks the mentions, by what became of them.

# %%
missed = scores.clip_scores.filter(run="chatty").sort(["duplicates", "wrong_objects", "clip_uid"], descending=True)
clip = missed["clip_uid"][0]
key = ["run", "track", "task", "clip_uid", "mention"]
said = scores.outcomes.join(submissions.mentions, on=key).filter(clip_uid=clip).select(
    "run", "time_s", "text", "outcome"
)  # fmt: skip
bars = alt.Chart(release.segments.filter(pl.col("clip_uid") == clip, ~pl.col("dropped"))).mark_bar(color="#bbb").encode(
    x=alt.X("start_s", title="s"), x2="end_s", y=alt.Y("object", title=None)
)  # fmt: skip
marks = alt.Chart(said).mark_point(size=90, filled=True).encode(
    x=alt.X("time_s", title="s"), y=alt.Y("run", title=None), color="outcome", shape="outcome"
)  # fmt: skip
bars.properties(width=600) & marks.properties(width=600)

# %%
said.sort("run", "time_s")

# %% [markdown]
# ## What hangs on the judge, and what on the options?
#
# Every mention that is in time for a segment was put to the judge. `event_pairs` links them to what was asked and
# answered, so a doubtful verdict is found in a line of SQL.

# %%
doubtful = sql.sql("""
    select r.predicted_label as mention, r.primary as object, count(*) as pairs
    from event_pairs p join requests r using (request)
    where not p.accepted group by all order by pairs desc, mention, object
""").pl()
asked = sql.sql("select count(*) as pairs, count(distinct request) as requests from event_pairs").pl()
assert asked["requests"].item() == scores.requests.height < asked["pairs"].item()
doubtful.head(8)

# %% [markdown]
# The authors' configuration is not published with the format, so every tolerance is an option, and each result records
# them. Scores rise as the window widens; does the order of the submissions depend on it?

# %%
windows = []
for late_s in (0, 1, 2, 5, 10, 20):
    wider = score_events(release, submissions, options=EventOptions(late_s=late_s), judge="embedded", level=None)
    whole = wider.scores.filter(pl.col("track").is_null())
    windows.append(whole.select("run", "f1", late_s=pl.lit(late_s)))
by_window = pl.concat(windows).sort("late_s", "f1", descending=[False, True])
orders = by_window.group_by("late_s").agg("run")["run"].unique()
assert orders.to_list() == [["attentive", "chatty", "quiet"]]
by_window.pivot("run", index="late_s", values="f1")

# %% [markdown]
# ## And does it remember?
#
# Questions are scored over all of the split: one without an answer is wrong. Who speaks well need not remember well.

# %%
memory = score_qa(release, submissions).filter(pl.col("track").is_null(), pl.col("task").is_null())
both = macro.select("run", "f1").join(memory.select("run", "accuracy", "missing", "illegal"), on="run")
assert both.height == 3
both.sort("accuracy", descending=True)

# %% [markdown]
# On the command line: `mabpl proact score SUBMISSIONS --labels RELEASE`, and `mabpl proact qa`.
