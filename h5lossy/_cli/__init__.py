# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The command line: ``h5lossy COMMAND``, one module a command.

Exit codes: 0 done; 1 a check failed, or it can't be done; 2 wrong usage, or something that can't be
read; 3 fields that can't be compared; 4 an outdated record; 128 + N interrupted by signal N.
docs/howto/command-line.md says what they mean for each command.
"""

from __future__ import annotations

import errno
import signal
import warnings
from typing import Any

import click

from h5lossy import H5LossyError, __version__
from h5lossy._cli import (
    assess,
    cd_values,
    demo,
    doctor,
    info,
    plugin_path,
    repack,
    sweep,
    tune,
    verify,
)
from h5lossy._cli._console import one_line, printable, printable_lines
from h5lossy._cli._interrupts import InterruptedBySignal

__all__ = ["main"]


class _Commands(click.Group):
    """Turns what may go wrong in any command into one line and an exit code."""

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
            if (
                error.errno == errno.EPIPE
            ):  # the pipe that we write to was closed; click handles that
                raise
            raise _failure(error) from error
        except (click.exceptions.Exit, click.Abort):  # RuntimeErrors, too
            raise
        # h5py raises RuntimeError, ValueError and KeyError where HDF5 refuses a call.
        except (H5LossyError, MemoryError, RuntimeError, ValueError, KeyError) as error:
            raise _failure(error) from error


def _show_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
    """Print a warning as the messages are: it may hold names from files, too."""
    click.echo(f"Warning: {printable(' '.join(str(message).split()))}", err=True)


def _failure(error: Exception) -> click.ClickException:
    return click.ClickException(printable(one_line(error)))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="h5lossy")
def main() -> None:
    """HDF5 float data, compressed within an error bound that is kept for every value."""


main.add_command(demo.demo)
main.add_command(repack.repack)
main.add_command(info.info)
main.add_command(assess.assess)
main.add_command(verify.verify)
main.add_command(sweep.sweep)
main.add_command(tune.tune)
main.add_command(cd_values.cd_values)
main.add_command(plugin_path.plugin_path)
main.add_command(doctor.doctor)
