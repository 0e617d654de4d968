# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The command line: ``h5lossy COMMAND``, one module a command.

Exit codes: 0 done; 1 a check failed, or the command could not do what was asked; 2 wrong usage, or
something can't be read; 3 fields can't be compared; 4 a record is outdated; 128 + N interrupted by
signal N. docs/howto/command-line.md says what they mean for each command.
"""

from __future__ import annotations

import errno
import importlib
import io
import itertools
import signal
import sys
import warnings
from collections import UserDict
from typing import Any

import click

import h5lossy
from h5lossy._cli._interrupts import InterruptedBySignal
from h5lossy._errors import H5LossyError
from h5lossy._printable import one_line, printable, printable_lines

__all__ = ["main"]

#: The commands, with their texts in the list.
_SHORT_HELP = {
    "assess": "Compare decoded data with its original, with a verdict.",
    "cd-values": "Print a bound, and a codec, as other tools take it.",
    "demo": "Write a generated field, read it back, check every value.",
    "doctor": "Say what works here, or what is needed to read files.",
    "info": "Print what the datasets of files are compressed with.",
    "plugin-path": "Print the folder of the HDF5 plugin.",
    "repack": "Copy files, with their numbers compressed.",
    "sweep": "Print rate and distortion of codecs and bounds.",
    "tune": "Find the smallest data that meets thresholds.",
    "verify": "Check files against the records from when they were written.",
}


class _LoadedWhenCalled(UserDict[str, Any]):
    """Commands by name, each imported when it is needed."""

    def __getitem__(self, name: str) -> click.Command:
        short_help = self.data[name]
        module = name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"{__name__}.{module}"), module)
        command.short_help = short_help
        return command


class _Commands(click.Group):
    """Turns errors of any command into one line and an exit code."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the list of commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([*_SHORT_HELP.items()])

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command; escape characters that standard output cannot encode."""
        # Finished work must not fail because of a name, or of a sign in a table.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        return super().main(*args, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse empty arguments: as paths they would stand for the current folder."""
        for before, given in itertools.pairwise([ctx.info_name or "", *args]):
            option, equals, value = given.partition("=")
            is_option = option.startswith("--") and equals
            if not (value if is_option else given):
                which = f"{option} is" if is_option else f"the argument behind {before!r} is"
                raise click.UsageError(f"{which} empty; is a variable of the shell not set?")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except (KeyboardInterrupt, InterruptedBySignal) as interrupt:
            click.echo("interrupted", err=True)
            ctx.exit(128 + getattr(interrupt, "number", signal.SIGINT))
        except click.ClickException as error:
            # All messages pass through here; some contain names from files.
            vars(error)["message"] = printable_lines(error.message or "")
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:  # our reader has closed the pipe; click handles that
                raise
            raise _failure(error) from error
        except (click.exceptions.Exit, click.Abort):  # these are RuntimeErrors, too
            raise
        # h5py raises RuntimeError, ValueError and KeyError where HDF5 refuses a call.
        except (H5LossyError, MemoryError, RuntimeError, ValueError, KeyError) as error:
            raise _failure(error) from error


def _show_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
    """Print a warning like other messages: it may contain names from files, too."""
    click.echo(f"Warning: {printable(' '.join(str(message).split()))}", err=True)


def _failure(error: Exception) -> click.ClickException:
    return click.ClickException(printable(one_line(error)))


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
    """Print the version, which the library knows, and end."""
    if wanted:
        click.echo(f"h5lossy, version {h5lossy.__version__}")
        ctx.exit()


@click.group(
    cls=_Commands,
    commands=_LoadedWhenCalled(_SHORT_HELP),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def main() -> None:
    """HDF5 float data, compressed within an error bound that is kept for every value."""
