"""The command line: ``python -m posenc``, or ``posenc`` once the package is installed.

Each command is one function of `_COMMANDS`. It is given the list of commands, adds its own parser
to it, and sets `run`, which takes the parsed arguments and returns the text to print. A ValueError
or TypeError from there is the user's: its message, one line, is all that is printed.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

import posenc

from . import _compare, _demo
from .config import describe

__all__ = ["main"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{self.prog}: {message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after the program's name; by default those of this process.

    Returns
    -------
    int
        The exit code: 0, or 2 if the input cannot be used, with one line on standard error.

    Raises
    ------
    SystemExit
        After ``--help`` and ``--version``, with the code 0.

    Examples
    --------
    >>> from posenc.__main__ import main
    >>> main(["compare", "dog bites man", "man bites dog"])  # doctest: +ELLIPSIS
    1: dog bites man
    2: man bites dog
    The same words in another order.
    ...
    0
    """
    parser = _Parser(
        prog="posenc", description="Positional encodings of transformers, on NumPy arrays."
    )
    parser.add_argument("--version", action="version", version=f"posenc {posenc.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add in _COMMANDS:
        add(commands)
    parser.set_defaults(run=lambda args: parser.format_help())
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # where the terminal lacks an emoji
    try:
        args = parser.parse_args(argv)
        text = args.run(args)
    except (TypeError, ValueError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    except ImportError as error:  # a GGUF file without the package that reads it
        print(f"posenc: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("posenc: not enough memory", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    try:
        print(text.rstrip("\n"), flush=True)
    except OSError as error:
        # Nobody reads on (`| head`), or the disk is full. Python would try once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 128 + 13  # as for any program that the signal of a closed pipe ends
        print(f"posenc: cannot write: {error.strerror}", file=sys.stderr)
        return 2
    return 0


def _add_info(commands: Any) -> None:
    parser = commands.add_parser(
        "info",
        help="versions and instruction set, for a bug report",
        description="Print what a bug report should say about this machine.",
    )
    parser.set_defaults(run=lambda args: _info())


def _info() -> str:
    cpu = posenc.cpu_info()
    facts = {
        "posenc": posenc.__version__,
        "numpy": np.__version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.machine()}",
        "kernels": f"{cpu['isa']} (of {', '.join(cpu['available'])})",
        "threads": cpu["threads"],
    }
    return "\n".join(f"{name:<8} {value}" for name, value in facts.items())


def _add_config(commands: Any) -> None:
    parser = commands.add_parser(
        "config",
        help="explain the rotary embedding of a model from its config",
        description="Say what the rotary embedding of each layer of a model does: method, base,\n"
        "lengths, attention factor, wavelengths, and which pairs a scaling stretches.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="config.json, its folder, or a GGUF file")
    parser.add_argument("--layer", type=_layer, help="one layer, from 0 (default: all kinds)")
    parser.set_defaults(run=lambda args: describe(args.file, args.layer))


def _layer(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, got {text!r}")
    return int(text)


_COMMANDS = (_compare.add, _demo.add, _add_config, _add_info)

if __name__ == "__main__":
    sys.exit(main())
