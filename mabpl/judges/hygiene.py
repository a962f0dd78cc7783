"""Labels are untrusted: what is taken out of one before a judge reads it, and what makes one suspicious.

An honest label passes unchanged. Hygiene cannot tell an injected sentence from a description; such a label is only
marked as risky, and counted.
"""

from __future__ import annotations

import re

import polars as pl

from mabpl.tables.files import UNSAFE

LONGEST = 2_000
"""Characters of a label that a judge is shown."""

_TOKEN = re.compile(
    r"<\|[^<>|]{1,40}\|>|<\uff5c[^<>\uff5c]{1,40}\uff5c>"  # ChatML, Llama, DeepSeek
    r"|<</?sys>>|\[/?(?:inst|think|system_prompt|available_tools|tool_calls|tool_results)\]"  # Llama 2, Mistral
    r"|</?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|extra_id_\d+)>"  # T5, Gemma
    r"|</?(?:\w{1,20}:)?(?:think|thinking|thought|reasoning|answer|system|user|assistant|human|tool|tool_call)>"
    r"|\u25c1/?think\u25b7",  # Kimi
    re.IGNORECASE,
)
_MAY_NEED_CLEANING = r"[^ -;=-Z\\-~]"
"""Every character that hygiene alters, and the first of every token that it breaks, is one of these."""

RISKY = (
    r"[{}]|```|<\||(?i:\b(?:score|scores|ignore|disregard|verdict|equivalent|rubric|json|prompt|judge)\b)"
    r"|\b(?:PREDICTED|PRIMARY|ALSO)\b"
)
"""What a label carries that may be meant for the judge, as a pattern that Python and polars read alike."""


def clean(label: str) -> tuple[str, bool]:
    """``label`` as a judge is shown it, and whether that differs.

    Control, zero-width and bidirectional characters and line breaks become spaces, tokens of chat templates and tags of
    thinking blocks get spaces inside their brackets, and what exceeds ``LONGEST`` characters is cut.
    """
    text = _TOKEN.sub(_broken, UNSAFE.sub(" ", label[:LONGEST]))[:LONGEST]
    return text, text != label


def _broken(token: re.Match[str]) -> str:
    return re.sub(r"(?<=[<\[\u25c1])|(?=[>\]\u25b7])", " ", token.group())


def risky(label: str) -> bool:
    """Whether ``label`` carries JSON, a code fence, or a word of the judge's task that manual work does not have."""
    return re.search(RISKY, label) is not None


def cleaned(labels: pl.Series, on: bool = True) -> pl.DataFrame:
    """One row per label: ``label`` as a judge is shown it, ``altered`` and ``risky``. ``on``: label_hygiene."""
    frame = (
        labels.alias("label").to_frame().with_columns(altered=pl.lit(False), risky=pl.col("label").str.contains(RISKY))
    )
    suspect = labels.str.contains(_MAY_NEED_CLEANING) | (labels.str.len_chars() > LONGEST)
    if not on or not suspect.any():
        return frame
    rows = suspect.arg_true()
    shown = [clean(label) for label in labels.gather(rows)]
    return frame.with_columns(
        label=frame["label"].scatter(rows, [text for text, _ in shown]),
        altered=frame["altered"].scatter(rows, [altered for _, altered in shown]),
    )
