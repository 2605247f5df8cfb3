"""Mistakes of the user end in one line, not in a stack trace.

Exit codes: 0 for success; 1 when the work could not be done (a damaged file, a value in it, a missing package); 2 when
the command itself was wrong (an unknown option, method or column, a missing file, an output that exists); 3 for an
alarm of `calibrant watch`; 130 and 143 when it was interrupted or terminated. The environment variable
`CALIBRANT_DEBUG` brings the stack trace back.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import typer

#: What errors and notes about tables suggest, in the words of the command line.
HINTS = {
    "amounts": "A cost that is not a number is read as the name of a column",
    "began": "Leave out --alpha, --tolerance and --reference",
    "classes": "Name the label of each column with --classes a,b,c",
    "two_classes": "Name both classes with --classes, the column's own class last",
    "order": "If that is wrong, name the label of each column with --classes",
    "order_of_two": "If that is wrong, name the other class with --classes",
    "decimal": "--decimal . reads decimal points instead",
    "force": "--force overwrites it",
    "intervals": "`calibrant fit --intervals` stores what they need",
    "logits": "--logits reads logits",
    "not_logits": "Leave out --logits",
    "maybe_not_logits": "In that case leave out --logits",
    "probs": "Name the probability columns with --probs, as in --probs 'p_*' or --probs a,b,c",
    "renormalize": "--renormalize rescales rounded rows",
    "replace": "--replace removes it and adds these rows instead",
    "scores": "`calibrant fit --scores` learns to turn scores of any scale into probabilities, and `calibrant "
    "apply` converts new ones",
    "skip_errors": "--on-error skip leaves such rows out",
    "suffix": "Choose another --suffix",
}
#: What is said instead by a command that lacks the option: it has a fitted calibrator, or nothing to advise.
INSTEAD = {
    "classes": "Call the columns after their classes, as in p_a, p_b, p_c",
    "two_classes": "Call the column after its class, as in p_a",
    "order": "If that is wrong, call the columns after their classes, as in p_a, p_b, p_c",
    "order_of_two": "If that is wrong, call the column after its class, as in p_a",
    "logits": "The calibrator was fitted to probabilities",
    "not_logits": "The calibrator was fitted to logits",
    "maybe_not_logits": "The calibrator was fitted to logits",
}


#: No message is longer, whatever stands in the file that it is about.
LONGEST_MESSAGE = 3000
#: The parameters of the command that runs, if one does.
_OWN: ContextVar[Collection[str] | None] = ContextVar("own", default=None)


class CommandError(ValueError):
    """A mistake in the command itself."""


class Terminated(KeyboardInterrupt):
    """Someone asked the program to end (SIGTERM); it cleans up as for Ctrl-C."""


def with_hints(message: object, hints: Sequence[str] = ()) -> str:
    """A message and what can be done about it, as sentences."""
    text = str(message)
    if len(text) > LONGEST_MESSAGE:
        text = f"{text[: LONGEST_MESSAGE - 500]} ... {text[-495:]}"
    sentences = [text, *filter(None, map(_hint, hints))]
    return sentences[0] if len(sentences) == 1 else ". ".join(text.rstrip(".") for text in sentences) + "."


def _hint(name: str) -> str:
    """What a hint says in the command that runs, which may lack the option; options of other commands are in quotes."""
    own, words = _OWN.get(), HINTS[name]
    flags = re.findall(r"--([a-z-]+)", re.sub("`[^`]*`", "", words))
    known = own is None or all(flag.replace("-", "_") in own for flag in flags)
    return words if known else INSTEAD.get(name, "")


@contextlib.contextmanager
def asked() -> Iterator[None]:
    """Errors about values in this block are mistakes in the command."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise CommandError(str(error)) from error


@contextlib.contextmanager
def explained(kept: str = "Nothing was written", own: Collection[str] | None = None) -> Iterator[None]:
    """Turn errors about files, values and missing packages into a message and an exit code, warnings into lines.

    `kept` is what an interrupted command leaves behind, `own` are the parameters of the command.
    """
    running = _OWN.set(own)
    with warnings.catch_warnings():
        # Show what the package says about the data, and hide warnings of other packages.
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _once()
        try:
            yield
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as error:
            ended = isinstance(error, Terminated)
            typer.echo(f"{'Terminated' if ended else 'Interrupted'}. {kept}.", err=True)
            raise typer.Exit(128 + (signal.SIGTERM if ended else signal.SIGINT)) from error
        except (ValueError, OSError, ImportError, RuntimeError, TypeError, MemoryError) as error:
            if os.environ.get("CALIBRANT_DEBUG"):
                raise
            # A system error names the file itself.
            typer.echo(f"Error: {with_hints(error, getattr(error, 'hints', ())) or type(error).__name__}", err=True)
            raise typer.Exit(2 if _in_command(error) else 1) from error
        finally:
            _OWN.reset(running)


def _in_command(error: Exception) -> bool:
    from calibrant.inputs.words import RequestError

    return isinstance(error, (CommandError, RequestError))


def end_cleanly() -> None:
    """Let SIGTERM end the program as Ctrl-C does, so that no half-written file is left behind."""
    main = os.getpid()

    def stop(number: int, frame: object) -> None:
        if os.getpid() == main:
            raise Terminated
        # A worker process that inherited this: as if it had never been set.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, stop)


def _once() -> Any:
    """Shows each warning a single time: folds of a cross-validation all say the same."""
    shown: set[str] = set()

    def show(message: object, *_: object, **__: object) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            typer.echo(f"Warning: {with_hints(message)}", err=True)

    return show
