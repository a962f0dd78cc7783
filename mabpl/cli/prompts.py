from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mabpl.cli import common
from mabpl.errors import CheckFailed, UsageError
from mabpl.settings import Settings

if TYPE_CHECKING:
    from mabpl.judges.prompts import Prompts
    from mabpl.judges.types import Request


@click.group("prompts")
def command() -> None:
    """What a judge is sent: the prompts that come with mabpl, or a dataset folder's own."""


@command.command("show")
@click.option(
    "--kind", type=click.Choice(["pa", "joint", "timing", "labels", "object"]), default="pa", show_default=True,
    help="Which judge; timing and labels are a tournament's, object is ProactEgoMem's.",
)  # fmt: skip
@click.option("--predicted", metavar="LABEL", help="The predicted label of a pair; object: a mention.")
@click.option("--primary", metavar="LABEL", help="Its human label; object: the object.")
@click.option("--also", metavar="LABEL", multiple=True, help="Another human label in its time span (pa).")
@click.option("--instruction", metavar="TEXT", help="The episode instruction (joint).")
@click.option("--clip", metavar="ID", help="Every pair of this clip, in place of two labels.")
@click.option("--run", metavar="NAME", help="Which of the dataset folder's runs.")
@click.option(
    "--arms", metavar="NAME=FILE", multiple=True, help="An arm of a tournament, two or more (timing, labels)."
)
@click.option("--root", "root_after", type=click.Path(), help="The dataset folder, whose own prompts are used.")
@click.option("--json", "as_json", is_flag=True, help="A list of {request, messages}: the messages exactly as sent.")
@common.settings_options
@click.pass_context
def show(
    ctx: click.Context,
    kind: str,
    predicted: str | None,
    primary: str | None,
    also: tuple[str, ...],
    instruction: str | None,
    clip: str | None,
    run: str | None,
    arms: tuple[str, ...],
    root_after: str | None,
    as_json: bool,
    settings: Settings,
) -> None:
    """Print what would be sent for a pair of labels (--predicted, --primary), or for the pairs of a clip (--clip).

    Of a tournament (--kind timing or labels): for every two --arms on a clip (--clip), in both orders.
    """
    from mabpl.judges.prompts import FILES, OBJECT_JUDGE, TOURNAMENT, load_prompts, messages
    from mabpl.judges.requests import single
    from mabpl.tables.files import to_json

    root = root_after or ctx.obj
    prompts = load_prompts(root, [*FILES, OBJECT_JUDGE])
    if kind in TOURNAMENT:
        requests, prompts = _of_arms(kind, root, clip, arms, settings)
    elif clip is not None and kind != "object":
        requests = _of_clip(kind, root, clip, run, prompts, settings)
    elif predicted is not None and primary is not None:
        requests = [single(kind, predicted, primary, prompts, settings, also=also, instruction=instruction)]
    else:
        raise UsageError("no pair is named", "give --predicted LABEL and --primary LABEL, or --clip ID")
    sent = [{"request": request.request, "messages": messages(request, prompts)} for request in requests]
    click.echo(to_json(sent) if as_json else _readable(sent), nl=False)


def _of_clip(
    kind: str, root: str | None, clip: str, run: str | None, prompts: Prompts, settings: Settings
) -> list[Request]:
    from mabpl.benchmarks.micro_annotation import inputs, one_clip
    from mabpl.judges.requests import as_requests, joint_requests, pa_requests

    scores = one_clip.find(inputs.Request(root=root), settings, clip, run).scores
    if kind == "pa":
        _, requests = pa_requests(scores.pairs, scores.segments, prompts, settings, matches=scores.matches)
    else:
        _, requests = joint_requests(scores.matches, scores.segments, scores.table("clips"), prompts, settings)
    return list(as_requests(requests))


def _of_arms(
    kind: Any, root: str | None, clip: str | None, arms: tuple[str, ...], settings: Settings
) -> tuple[list[Request], Prompts]:
    from mabpl.benchmarks.micro_annotation.inputs import Request as Inputs
    from mabpl.judges.requests import as_requests
    from mabpl.tournament.arms import parse_arms
    from mabpl.tournament.running import prepare

    if clip is None or len(arms) < 2:
        raise UsageError("a comparison is of two arms on a clip", "give --clip ID --arms a=FILE --arms b=FILE")
    plan = prepare(Inputs(root, clips=[clip]), parse_arms(arms), [kind], settings).comparing.plan
    return list(as_requests(plan.of(kind))), plan.prompts


def _readable(sent: list[dict[str, Any]]) -> str:
    """Each message under its role; a system message only where it is not the one before."""
    from mabpl.report.tables import plain

    parts, system = [], None
    for item in sent:
        parts.append(f"=== request {item['request']}")
        for message in item["messages"]:
            if message["role"] == "system" and message["content"] == system:
                continue
            system = message["content"] if message["role"] == "system" else system
            text = "\n".join(plain(line) for line in message["content"].rstrip("\n").split("\n"))
            parts.append(f"--- {message['role']}\n{text}\n")
    return "".join(f"{part}\n" for part in parts)


@command.command("check")
@click.option("--root", "root_after", type=click.Path(), help="The dataset folder (default: this one).")
@click.pass_context
def check(ctx: click.Context, root_after: str | None) -> None:
    """Hold our user message against a dataset folder's example of one: exit code 1 where they differ.

    Its examples of a tournament's packets are shown beside ours: they are of other clips, so that no check can be made.
    """
    from mabpl.judges.prompts import FILES, PA_USER_EXAMPLE, PACKETS, TOURNAMENT, check_example, load_prompts
    from mabpl.report.tables import plain

    root = root_after or ctx.obj or "."
    prompts = load_prompts(root, [*FILES, *TOURNAMENT.values(), PACKETS])
    for name, prompt in sorted(prompts.files.items()):
        click.echo(f"{name}  {prompt.source}  sha256 {prompt.sha256}")
    click.echo(f"labels in the joint rubric: {prompts.joint_layout}")
    theirs = {name for name in (PA_USER_EXAMPLE, PACKETS) if prompts.files[name].source == "dataset"}
    if not theirs:
        raise UsageError(
            f"{root} holds neither prompts/{PA_USER_EXAMPLE} nor prompts/{PACKETS}",
            "there is nothing to hold our rendering against",
        )
    if PACKETS in theirs:
        _show_packets(prompts[PACKETS])
    if PA_USER_EXAMPLE not in theirs:
        return
    rendering = check_example(prompts[PA_USER_EXAMPLE])
    for line in rendering.difference:
        click.echo(plain(line))
    if rendering.difference:
        labels = "its labels were found" if rendering.found else "its labels were not found, so ours are shown"
        raise CheckFailed(f"our user message differs from {PA_USER_EXAMPLE} ({labels})")
    click.echo(f"our user message is {PA_USER_EXAMPLE}")


def _show_packets(examples: str) -> None:
    from mabpl.judges.prompts import PACKETS, TOURNAMENT
    from mabpl.report.tables import plain
    from mabpl.tournament.examples import difference

    for dimension in TOURNAMENT:
        lines = difference(examples, dimension)
        if lines is None:
            click.echo(f"{PACKETS}: no packet of {dimension} was found in it")
            continue
        click.echo(f"{PACKETS}: {dimension}, laid out {'otherwise than ours' if lines else 'as ours'}")
        for line in lines:
            click.echo(plain(line))
