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
# # Memory retrieval: what is found, and what should not have been
#
# ely-eye's benchmark set asks a memory that several people share. A system should find the region that holds the
# answer, return nothing strong where there is none, and keep to what the asker knew at the time. Two invented systems
# are scored here on an invented club's files; nothing is said about a real one.

# %%
import tempfile
from pathlib import Path

import polars as pl

import mabpl
from mabpl.benchmarks.ely_eye import ElyOptions, compare, gather, read_atoms, resolve, score
from mabpl.benchmarks.ely_eye.results import load_result, write_result_folder
from mabpl.data import ely_sample_folder

_ = pl.Config(
    float_precision=3, fmt_str_lengths=60, tbl_rows=30, tbl_cols=14, tbl_width_chars=140,
    tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True,
)  # fmt: skip

# %% [markdown]
# ## One call
#
# The gold names sources and regions. Which atoms these are is found out now, from how the system cuts its sources.

# %%
sample = ely_sample_folder()
inputs = gather(sample, sample / "atoms" / "fine.jsonl", [sample / "runs"], ElyOptions())
scores = score(inputs, ElyOptions())
assert scores.split == "dev"
gates = scores.scores.filter(pl.col("gate").is_not_null(), slice="all")
gates.select("run", "metric", "value", "low", "high", "n", "divided_by", "gate", "passed")

# %% [markdown]
# Recall alone would call both systems equal. The hasty one buys it: it calls too much strong, and returns what belongs
# to others. The intervals redraw sources, all queries of one together.
#
# ## The denominator decides
#
# Read to the letter, every metric is divided by all queries. Then not even a perfect system reaches the gate of recall:
# the unanswerable queries are in its denominator.

# %%
recall = scores.scores.filter(slice="all", metric="recall@10", recall_unit="region", whole_source="excluded")
careful = recall.filter(run="careful")
assert careful["value"].to_list() == [1.0, careful["total"][0] / scores.facts["queries"]["scored"]]
careful.select("denominator", "value", "total", "n", "divided_by")

# %% [markdown]
# ## Where it leaks
#
# `ely_query_scores` has a row per query: what leaked, by modality and scenario, in polars or in SQL.

# %%
leaks = (
    scores.queries.filter(run="hasty")
    .group_by("modality")
    .agg(pl.len().alias("queries"), pl.col("leaked").sum(), pl.col("future").sum())
    .sort("modality")
)
in_sql = (
    mabpl.connect(scores)
    .sql("""
    select modality, count(*) as queries, count_if(leaked) as leaked, count_if(future) as future
    from ely_query_scores where run = 'hasty' group by modality order by modality
""")
    .pl()
)
assert in_sql.rows() == leaks.rows()
leaks.select("modality", "queries", "leaked", "future")

# %% [markdown]
# ## Is the difference settled?
#
# Both systems answered the same queries, so the same sources are drawn for both.

# %%
found = compare(scores, scores, runs=("careful", "hasty"), by=["all"])
settled = found.metrics.filter(
    pl.col("denominator").eq_missing("applicable") & pl.col("recall_unit").ne_missing("atom"),
    pl.col("whole_source").ne_missing("counted") & pl.col("cross_holder").ne_missing("asked"),
)
assert len(found.lost_gates()) == 3
settled.select("metric", "value_a", "n_a", "value_b", "n_b", "difference", "low", "high")

# %% [markdown]
# ## Another cut of the same sources
#
# The coarse atoms hold whole sources, too. The same gold is resolved to them without a new label; an atom that spans
# its whole source does not cover a region of it, and both readings are kept.

# %%
bench = inputs.benchmark
coarse = read_atoms(sample / "atoms" / "coarse.jsonl", bench.sources)
gold = bench.gold.join(inputs.queries, on="query_id", how="semi")
cuts = {"fine": inputs.atoms.atoms, "coarse": coarse.atoms}
covered = []
for cut, atoms in cuts.items():
    pairs = resolve(gold, atoms, bench.sources, bench.symbols)
    regions = {"with whole sources": pairs, "without": pairs.filter(~pl.col("whole_source"))}
    counts = {name: rows.select("query_id", "gold").unique().height for name, rows in regions.items()}
    covered.append({"atoms": cut, "held": atoms.height, "regions": gold.height, **counts})
covered = pl.DataFrame(covered)
assert covered["with whole sources"].to_list() == [gold.height] * 2
assert covered["without"][1] < gold.height
covered.select("atoms", "held", "regions", "with whole sources", "without")

# %% [markdown]
# ## Keep it
#
# One JSON document or one folder; both state split, options, and the SHA-256 of manifests, sets, atoms and runs.

# %%
with tempfile.TemporaryDirectory() as scratch:
    write_result_folder(scores, Path(scratch) / "result")
    again = load_result(Path(scratch) / "result")
assert again.queries.equals(scores.queries)
assert again.facts == scores.facts
print(*(f"{file}: {sha256[:12]}..." for file, sha256 in scores.facts["sha256"]["manifest"].items()), sep="\n")
