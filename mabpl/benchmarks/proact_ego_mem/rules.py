"""Every rule that a released file or a submission can break."""

from __future__ import annotations

from functools import partial

from mabpl.reading.problems import JSON_RULES, LINE_RULES, Rule, problem_of

_AS_RELEASED = "compare the file with the released one"

RELEASE_RULES: dict[str, Rule] = {
    **JSON_RULES,
    "schema-version": Rule("error", "this reader knows proact-studio-v3"),
    "released-flag": Rule("error", "ground_truth_released must say what the file holds; nothing is scored otherwise"),
    "withheld-on-test": Rule("error", "the test split carries no answers: remove them, or mend `split`"),
    "split-of-folder": Rule("error", "move the file, or mend `split`"),
    "no-clips": Rule("error", "give the whole file"),
    "id-mismatch": Rule("error", "an object's key and the id inside it are the same"),
    "task-mismatch": Rule("error", "a file holds samples of its own task"),
    "open-end": Rule("error", "an open segment is null in times.end_sec and in clip.local_end_sec"),
    "local-time": Rule("error", "a local time is the source time less the clip's abs_start_sec, to 1e-3 s"),
    "time-out-of-range": Rule("error", "times are seconds"),
    "clip-window": Rule("error", "a clip is cut from abs_start_sec to a later abs_end_sec, neither below 0"),
    "unknown-video": Rule("error", _AS_RELEASED),
    "unknown-clip": Rule("error", _AS_RELEASED),
    "unknown-sample": Rule("error", "every sample id of a clip resolves in videos.*.samples"),
    "unlisted-sample": Rule("error", "the sample's clip lists it in sample_ids"),
    "duplicate-sample": Rule("error", "a sample is there once"),
    "sample-of-other-clip": Rule("error", "a clip lists the samples whose clip.clip_uid it is"),
    "video-mismatch": Rule("error", "a sample stands under the video that its clip is cut from"),
    "choice-count": Rule("error", "every question has exactly four choices"),
    "duplicate-letter": Rule("error", "each choice has a letter of its own"),
    "unknown-letter": Rule("error", "correct_letter is the letter of one of the choices"),
    "answer-mismatch": Rule("error", "answer repeats the text of the choice that correct_letter names"),
    "clip-in-two-files": Rule("error", "give each released file once; a clip is of one split"),
    "clip-differs": Rule("error", "a clip that several files share is the same window in each"),
    "qa-in-two-files": Rule("error", "question ids are unique over all files"),
    "published-total": Rule("error", "the release is not whole, or not as published"),
    "duration-mismatch": Rule("warning", "duration_sec is abs_end_sec less abs_start_sec; open segments end at it"),
    "outside-clip": Rule("warning", "ends are clamped to the clip's duration; starts are taken as they are"),
    "zero-length": Rule("warning", "it is dropped: once clamped, its end is not after its start"),
    "emptied-clip": Rule("warning", "all its samples are dropped; it is not a declared negative"),
}

SUBMISSION_RULES: dict[str, Rule] = {
    **LINE_RULES,
    "no-lines": Rule("error", "was it cut off? a submission has a line for every clip, or for questions"),
    "row-kind": Rule("error", 'a line is {"clip_uid", "mentions"}, {"clip_uid", "error"} or {"qa_id", "letter"}'),
    "failed-clip": Rule("error", "run the clip again; a clip without mentions is an empty list, not an error"),
    "duplicate-clip": Rule("error", "keep one line a clip"),
    "unknown-clip": Rule("error", "remove the line, or give the released file that holds the clip"),
    "ambiguous-clip": Rule("error", 'the clip is in several files: add "task" (and "track") to the line'),
    "missing-clip": Rule("error", "add a line for the clip; silence is an empty list of mentions"),
    "no-mentions": Rule("error", 'give a submission with lines of {"clip_uid", "mentions"}'),
    "outside-clip": Rule("error", "times are seconds from the start of the clip, not of the source video"),
    "empty-text": Rule("error", "say something, or leave the mention out"),
    "duplicate-qa": Rule("error", "keep one line a question"),
    "unknown-qa": Rule("error", "remove the line, or give the released file that holds the question"),
    "no-answers": Rule("error", 'give a submission with lines of {"qa_id", "letter"}'),
    "illegal-letter": Rule("warning", "it counts as wrong: submit a letter of the question, as released"),
    "missing-answer": Rule("warning", "it counts as wrong"),
}

release_problem = partial(problem_of, RELEASE_RULES)
submission_problem = partial(problem_of, SUBMISSION_RULES)
"""Breaches: see :func:`~mabpl.reading.problems.problem_of`."""
