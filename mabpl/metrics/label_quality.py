"""PA-F1 (label quality, time-aware) and strict PA-F1, of MicroAnnotationBench.

Every overlapping (predicted, human) pair of a clip is judged: 0-100 on whether the predicted label describes the same
action, object and hands. Pairs are assigned one-to-one, largest overlap first (in microseconds; ties: the earlier human
segment, then the earlier prediction), without a look at the verdicts. Each assigned pair earns score / 100; under
strict PA-F1 only if the judge calls the labels equivalent. With the credit C, X predicted and Y human segments:
precision = C / X, recall = C / Y, PA-F1 = 2C / (X + Y). Per clip, then the mean over clips.
"""

from mabpl.metrics.metric import Example, Metric

_RULE = "one-to-one, largest overlap first; assigned pairs earn score / 100; mean over clips"
_OPTIONS = ("pa_ties", "judge_pairs")

PA_F1 = Metric(
    "pa_f1", "PA-F1", "pa", "credit", ("x", "y"), False, _RULE, __doc__ or "",
    Example(
        human=((0.0, 4.0), (4.0, 9.0)),
        predicted=((0.0, 3.0), (3.0, 8.5)),
        why="The overlaps are 3.0 s (1,1), 1.0 s (2,1) and 4.5 s (2,2). Largest first: (2,2), then (1,1). "
        "If the judge gives them 90 and 60, the credit is 1.5.",
        credit=(1.5, 0.9),
    ),
    _OPTIONS,
)  # fmt: skip
STRICT_PA_F1 = Metric(
    "strict_pa_f1", "strict PA-F1", "pa", "strict_credit", ("x", "y"), False,
    "as PA-F1; only pairs that the judge calls equivalent earn", __doc__ or "", None, _OPTIONS,
)  # fmt: skip
PRECISION = Metric("precision", "PA precision", "pa", "credit", ("x",), False, _RULE, __doc__ or "", None, _OPTIONS)
RECALL = Metric("recall", "PA recall", "pa", "credit", ("y",), False, _RULE, __doc__ or "", None, _OPTIONS)
