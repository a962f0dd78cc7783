"""The readings of ely-eye's metrics that the annotation schema leaves open, recorded in every result.

Both denominators, both units of recall, both readings of whole-source atoms and of cross-holder queries are always
computed and stand in `ely_scores`; the option says which of them is shown first and held to the gates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mabpl.settings import Options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class ElyOptions(Options):
    """How a run is scored."""

    denominator: Literal["applicable", "all"] = option(
        "applicable",
        "what gates divide by: queries that the metric can apply to, or all of the slice (under which a perfect system "
        "cannot reach the gate of recall where many queries are unanswerable)",
    )
    recall_unit: Literal["region", "atom"] = option(
        "region", "recall@10 counts gold regions of which an atom is returned, or the atoms themselves"
    )
    whole_source: Literal["excluded", "counted"] = option(
        "excluded", "whether an atom that spans its whole source covers a region that is only a part of it"
    )
    cross_holder: Literal["possible", "asked"] = option(
        "possible",
        "a cross-holder query is any one while another holder is known, or only an unanswerable one whose question or "
        "item is answered for another holder",
    )
    tau: float | None = option(None, "an atom is strong from this score on; none: by its flag `strong`")
    missing: Literal["refuse", "empty", "skip"] = option(
        "refuse", "a query that the run lacks: an error, nothing returned, or left out (partial result)"
    )
