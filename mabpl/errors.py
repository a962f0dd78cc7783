"""What can go wrong, said so that a reader knows where, what was expected and what to do.

Every error that a user may meet derives from :class:`MabplError` and carries the exit code with which the command
line ends. The command line prints ``str(error)``; it never prints a traceback of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os


class MabplError(Exception):
    """Base class. ``message`` says what is wrong, ``hint`` what to do about it."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(MabplError):
    """The call itself is off: an unknown option, set, metric or clip (exit code 2)."""


class InputError(MabplError):
    """A file cannot be read at all (exit code 2)."""


class InvalidTimelines(MabplError):
    """A file was read and holds errors; ``problems`` is the table of them (exit code 1)."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "", problems: object = None) -> None:
        super().__init__(message, hint)
        self.problems = problems


class CheckFailed(MabplError):
    """A comparison or gate did not hold (exit code 1)."""

    exit_code = 1


class ServiceError(MabplError):
    """A judge, a model or another service failed; what it answered so far is kept (exit code 4).

    ``outcome``: what was done before it failed.
    """

    exit_code = 4

    def __init__(self, message: str, hint: str = "", outcome: object = None) -> None:
        super().__init__(message, hint)
        self.outcome = outcome


class MissingExtra(MabplError):
    """An optional dependency is not installed (exit code 2)."""


def unreadable(path: str | os.PathLike[str], why: str, hint: str = "") -> InputError:
    return InputError(f"{path}: {why}", hint)


def unknown_name(kind: str, name: str, known: list[str]) -> UsageError:
    """``name`` is no ``kind``; lists the known ones and suggests the nearest."""
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    shown = ", ".join(known[:20]) + (f", ... ({len(known)} in all)" if len(known) > 20 else "")
    return UsageError(f"unknown {kind} {name!r}", f"{guess}known: {shown or 'none'}")


def missing_extra(package: str, extra: str) -> MissingExtra:
    return MissingExtra(f"{package} is not installed", f"python -m pip install 'mabpl[{extra}]'")
