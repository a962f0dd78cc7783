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
# # A tournament: who beats whom, and can the judge be trusted?
#
# Every two models are compared on every clip, each time in both orders. This notebook holds a tournament, looks at its
# strengths, and then asks the table of verdicts in SQL what the standing rests on.
#
# It runs on the invented sample with the embedded judge, offline; the ranking says nothing about any real model.

# %%
import tempfile
from pathlib import Path

import duckdb
import polars as pl
from polars.testing import assert_frame_equal

import mabpl
from mabpl.data import sample_folder
from mabpl.report import charts
from mabpl.report.tournament import standings_chart
from mabpl.stats import bradley_terry

charts.offline()  # charts as pictures, nothing loaded from the network
_ = pl.Config(
    float_precision=2, fmt_str_lengths=60, tbl_rows=30, tbl_cols=14, tbl_width_chars=140,
    tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True,
)  # fmt: skip

# %% [markdown]
# ## One call
#
# An arm is a name and a prediction file. With an endpoint, `judge=mabpl.Judging.from_environment(kinds=("timing",
# "labels"))` compares timing too; the embedded judge reads labels alone.

# %%
SET = "operator_disjoint_6"
folder = sample_folder() / "predictions" / SET
arms = {name: folder / f"{name}_seed1.jsonl" for name in ("careful-large", "quick-large", "small-fine")}
tournament = mabpl.run_tournament(sample_folder(), arms, set_name=SET, judge="embedded")

tournament.standings.select("arm", "rank", "strength", "strength_low", "strength_high", "wins", "losses", "win_rate")

# %%
standings_chart(tournament.result)

# %% [markdown]
# A difference of strengths is a chance to win: 1 / (1 + exp(-difference)). Averaged over the opponents it must come
# near the win rate, or the model of one strength per arm does not hold.

# %%
shown = tournament.standings.select("arm", "win_rate", "expected_win_rate")
assert (shown["win_rate"] - shown["expected_win_rate"]).abs().max() < 2
assert abs(tournament.standings["strength"].sum()) < 1e-9
shown.head()

# %% [markdown]
# ## Keep it, and ask the files
#
# The result folder holds what was compared, asked and answered: plain parquet. A row of `comparisons` is one order of
# one pair on one clip; its `request` leads to what the judge was shown (`requests`) and what it said (`verdicts`).

# %%
scratch = tempfile.TemporaryDirectory()
result = Path(scratch.name) / "tournament"
tournament.write(result)
for table in ("comparisons", "requests", "verdicts", "games", "standings"):
    duckdb.read_parquet(str(result / f"{table}.parquet")).create_view(table)
print(*sorted(path.name for path in result.iterdir()), sep="\n")

# %% [markdown]
# **Position bias.** Of all verdicts that name a side, how many name what was shown first? An impartial judge: half.

# %%
bias = duckdb.sql("""
    select dimension, count(*) as decided, count(*) filter (verdict = 'A') as first_shown_wins,
           100 * avg((verdict = 'A')::int) as position_bias
    from comparisons join verdicts using (request)
    where status = 'ok' and verdict <> 'tie'
    group by dimension
""").pl()
columns = ["decided_verdicts", "first_shown_wins", "position_bias"]
assert bias.select(columns[1:]).rows() == tournament.checks.select(columns[1:]).rows()
assert bias["decided"].to_list() == tournament.checks["decided_verdicts"].to_list()
bias.head()

# %% [markdown]
# **What counts.** Both orders side by side, from the verdicts alone: a pair of verdicts counts only if it names the
# same arm twice. `games` holds the same.

# %%
counted = duckdb.sql("""
    with said as (
        select clip_id, dimension, first, second, verdict,
               case verdict when 'A' then first when 'B' then second end as named
        from comparisons join verdicts using (request)
    )
    select x.clip_id, x.first as arm, x.second as other, x.named as winner
    from said x join said y
      on (x.clip_id, x.dimension, x.first, x.second) = (y.clip_id, y.dimension, y.second, y.first)
    where x.first < x.second and x.named = y.named
    order by all
""").pl()
games = tournament.games.filter(outcome="counted").select("clip_id", "arm", "other", "winner")
assert_frame_equal(counted, games.sort(pl.all()))
wins = counted.group_by("winner").len("wins").sort("winner")
assert wins["wins"].cast(pl.Int64).to_list() == tournament.standings.sort("arm")["wins"].to_list()
wins.head()

# %% [markdown]
# **Why did it lose?** The packets of a clip on which the strongest arm lost, as the judge saw them:

# %%
best = tournament.standings["arm"][0]
lost = duckdb.sql(
    """
    select clip_id, winner, primary_text as human, shown as theirs, other_shown as best_shown
    from (
        select g.clip_id, g.winner, r.primary as primary_text, r.predicted_label as shown, r.also[1] as other_shown
        from games g
        join comparisons c on c.clip_id = g.clip_id and c.first = g.winner and c.second = $best
        join requests r using (request)
        where g.winner <> $best and $best in (g.arm, g.other)
    )
    order by all limit 1
    """,
    params={"best": best},
).pl()
clip, winner, human, theirs, own = lost.row(0)
print(f"{clip}: {winner} beat {best}\n")
for title, text in (("human", human), (winner, theirs), (best, own)):
    print(title, *text.split("\n")[:4], "...", sep="\n  ")

# %% [markdown]
# ## A part of it
#
# Any clips and arms are refitted from the same verdicts; nothing is asked. Here the clips on which the strongest arm
# lost to nobody. An arm without a loss has no finite strength, whatever the others did: the standing names the reason,
# gives no interval, and a small prior stands in for what the games do not tell.

# %%
beaten = (pl.col("winner") != best) & pl.any_horizontal(pl.col("arm", "other") == best)
clean = sorted(set(tournament.games["clip_id"]) - set(tournament.games.filter(beaten)["clip_id"]))
part = tournament.refit(clips=clean)
direct = mabpl.run_tournament(sample_folder(), arms, set_name=SET, clips=clean)
assert_frame_equal(part.standings, direct.standings)
assert set(part.standings["fit"]) == {"prior"}
print(f"{len(clean)} clips; {part.standings['reason'][0]}")
part.standings.select("arm", "strength", "strength_low", "wins", "losses", "fit")

# %% [markdown]
# The strengths are no black box: they come from the win matrix alone.

# %%
names = part.standings["arm"].sort().to_list()
matrix = part.win_matrix.pivot("other", index="arm", values="wins").sort("arm").select(names).fill_null(0).to_numpy()
strengths = bradley_terry.fit(bradley_terry.with_prior(matrix))
assert max(abs(strengths - part.standings.sort("arm")["strength"].to_numpy())) < 1e-6
scratch.cleanup()
print({name: round(float(value), 2) for name, value in zip(names, strengths, strict=True)})

# %% [markdown]
# On the command line: `mabpl tournament --set SET --arms a=FILE b=FILE ...`, and `mabpl tournament fit FOLDER --arms
# a,b --clips x,y` for a part.
