"""The command ``mabpl``: one file a command, each imported when it is called for."""

from __future__ import annotations

import gc
import os
import sys

import click

import mabpl
from mabpl.cli.lazy import LazyGroup
from mabpl.errors import InvalidTimelines, MabplError

COMMANDS = {
    "demo": "score the bundled sample: the whole tool in one command",
    "run": "annotate videos with a model: from an endpoint and clips to a prediction file",
    "validate": "check prediction and labels files, or fix what is plainly wrong",
    "convert": "cut segments longer than 10 s, or resolve overlaps, in a prediction file",
    "score": "Boundary F1, Temporal F1 and the PA metrics, of one file or of many",
    "joint": "Seg F1@0.75 and Joint F1@0.75 of one file",
    "headline": "combine the sets of one model into the published score",
    "compare": "two results clip by clip, or one against published figures",
    "tournament": "compare every two of several models by a judge, clip by clip, and rank them",
    "verify": "recompute a result from its inputs and say what differs",
    "show": "draw a clip's human and predicted timelines, and why segments fail",
    "explain": "a metric's definition, its options and a worked example",
    "verdicts": "what judges answered: list, verify, export, import, and why a verdict is not there",
    "judge": "is a judge fit for the job, and how far do judges and people agree?",
    "submission": "what goes with a reported result: make the folder, or check it",
    "ely": "ely-eye's benchmark set: validate it, resolve gold regions to atoms, score and compare systems",
    "manifest": "do the videos fit the manifest and the labels? or write a manifest of them",
    "proact": "ProactEgoMem: check releases and submissions, score the memory probe, list clips and questions",
    "prompts": "what a judge is sent for a pair of labels",
    "schema": "the schema of a table or of an input file",
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    prefix="mabpl.cli.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(mabpl.__version__, prog_name="mabpl")
@click.option("--root", type=click.Path(), help="The dataset folder (default: this one). Also after the command.")
@click.pass_context
def cli(ctx: click.Context, root: str | None) -> None:
    """Score timed, labelled action timelines of video against human annotation.

    Start with `mabpl demo`.
    """
    ctx.obj = root


def main() -> None:
    """Runs the command line and ends the process.

    Exit codes: 0 fine, 1 a check failed, 2 wrong use or unreadable input, 3 finished but partial, 4 a service failed,
    130 interrupted.
    """
    # Most of what a command makes lives to its end. To look through it for cycles, often and once more at the end,
    # takes a quarter of a short command's time.
    gc.set_threshold(100_000)
    sys.modules["scipy"] = None  # type: ignore[assignment]  # numba would load its BLAS, which no kernel calls
    code = run(sys.argv[1:])
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """The exit code of ``mabpl ARGUMENTS``; errors are told on standard error, never as a traceback."""
    try:
        result = cli.main(arguments, prog_name="mabpl", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Abort:
        return 130
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except MabplError as error:
        from mabpl.report.tables import plain

        for line in str(error).splitlines():
            click.echo(
                f"mabpl: {plain(line)}" if not line.startswith("  ") else f"       {plain(line.strip())}", err=True
            )
        return 1 if isinstance(error, InvalidTimelines) else error.exit_code
    except (BrokenPipeError, SystemExit):  # click exits where a pipe is closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        click.echo("mabpl: out of memory", err=True)
        return 2
    except Exception as error:
        if os.environ.get("MABPL_DEBUG"):
            raise
        from mabpl.report.tables import plain

        click.echo(plain(f"mabpl: a fault of mabpl itself: {type(error).__name__}: {error}"), err=True)
        click.echo("       MABPL_DEBUG=1 shows where; please report it with the command that you gave", err=True)
        return 2
