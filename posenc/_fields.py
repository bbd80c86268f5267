"""Reading numbers out of a mapping nobody has checked: a model's config, a scaling dictionary.

What is wrong is not raised at once but listed, so that one error names every key at fault.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NoReturn

__all__ = ["Fields", "show"]

_LONGEST_INT = 2**63 - 1  # of a whole number in a config
_LONGEST_LIST = 1 << 14  # of numbers, one for each pair of the widest head
_MOST_PROBLEMS = 40  # in one error
_ONE = Decimal(1)


def show(value: object) -> str:
    """`value` in a few words, however large it is."""
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 10**30 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else f"{value[:40]!r}..."
    if isinstance(value, (Mapping, Sequence)):
        return f"{type(value).__name__} of {len(value)}"
    return f"{value}" if isinstance(value, Real) else type(value).__name__


class Fields:
    """A mapping, the name it has in the config, and the list of what is wrong so far.

    A reader that finds a fault writes it down and answers 1, or 0 for a whole number, or nothing
    for a list: reading goes on, and `check` raises before anything is computed from them. What is
    wrong only with such a stand-in is no problem of the reader's: see `clash`.
    """

    def __init__(
        self,
        fn: str,
        values: Mapping[str, Any],
        problems: list[str],
        prefix: str = "",
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.fn = fn
        self.values = values
        self.problems = problems
        self.prefix = prefix
        self.names = names or {}  # that keys have where they were read, if others

    def inner(self, key: str, values: Mapping[str, Any]) -> Fields:
        """The fields of a mapping found under `key`; an empty key stays where it is."""
        prefix = f"{self.prefix}{key}." if key else self.prefix
        return Fields(self.fn, values, self.problems, prefix, self.names)

    def wrong(self, key: str, wanted: str, got: object) -> None:
        """Note that `key` should have been `wanted`."""
        self.problems.append(f"{self.named(key)}: {wanted}, got {show(got)}")

    def clash(self, key: str, wanted: str, got: object, *, whole: bool = False) -> None:
        """Note what is wrong between values, if nothing is wrong with any by itself.

        `whole`: the key is a whole name already.
        """
        if not self.problems:
            name = key if whole else self.named(key)
            self.problems.append(f"{name}: {wanted}, got {show(got)}")

    def missing(self, key: str, why: str = "") -> None:
        """Note that `key` is not there."""
        self.problems.append(f"{self.named(key)}: is missing{why}")

    def named(self, key: str) -> str:
        """The name of `key` in an error: that which it has in the config."""
        return self.names.get(f"{self.prefix}{key}", f"{self.prefix}{key}")

    def check(self) -> None:
        """Raise one ValueError that lists every problem: of each key the first."""
        first: dict[str, str] = {}
        for problem in self.problems:
            first.setdefault(problem.partition(": ")[0], problem)
        problems = list(first.values())
        if len(problems) > _MOST_PROBLEMS:
            problems[_MOST_PROBLEMS:] = [f"and {len(problems) - _MOST_PROBLEMS} problems more"]
        if problems:
            self.fail("; ".join(p if len(p) < 300 else f"{p[:300]}..." for p in problems))

    def fail(self, problem: str) -> NoReturn:
        """Raise a ValueError in the name of the function that was called."""
        raise ValueError(f"{self.fn}: {problem}")

    def get(self, key: str) -> Any:
        """The value of `key`; None if it is null or not there."""
        return self.values.get(key)

    def number(
        self, key: str, *, least: float | None = None, above: float | None = None
    ) -> Decimal:
        """A number that must be there: exactly the one written, to its last binary place."""
        value = self.get(key)
        if value is None:
            self.missing(key)
            return _ONE
        return self._exact(key, value, least, above)

    def optional(
        self, key: str, *, least: float | None = None, above: float | None = None
    ) -> Decimal | None:
        """A number, or None if it is null or not there."""
        value = self.get(key)
        return None if value is None else self._exact(key, value, least, above)

    def integer(self, key: str, *, least: int = 1, most: int = _LONGEST_INT) -> int | None:
        """A whole number; None if it is null or not there, 0 if it is wrong."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, Integral):
            self.wrong(key, "must be an integer", value)
        elif not least <= (whole := int(value)) <= most:
            self.wrong(key, f"must be from {least} to {most}", whole)
        else:
            return whole
        return 0

    def flag(self, key: str, default: bool) -> bool:
        """True or false; the default if null or not there."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong(key, "must be true or false", value)
        return bool(value is True)

    def list_of(self, key: str, length: int | None, wanted: str) -> list[Any] | None:
        """A list, of that many items if `length` is known; None if it is not there or is wrong."""
        value = self.get(key)
        if value is None:
            return None
        wanted = f"must be a list of {wanted}" if length is None else f"must be {length} {wanted}"
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            self.wrong(key, wanted, value)
        elif length is not None and len(value) != length:
            self.wrong(key, wanted, value)
        else:
            return list(value)
        return None

    def numbers(self, key: str, length: int | None, *, above: float) -> list[Decimal]:
        """A list of numbers that must be there."""
        if self.get(key) is None:
            self.missing(key)
        items = self.list_of(key, length, "numbers") or []
        if len(items) > _LONGEST_LIST:
            self.wrong(key, f"must be at most {_LONGEST_LIST} numbers", len(items))
            return []
        before = len(self.problems)
        result = []
        for i, item in enumerate(items):
            result.append(self._exact(f"{key}[{i}]", item, None, above))
            if len(self.problems) > before:  # one bad item is enough to know of
                break
        return result

    def _exact(self, key: str, value: object, least: float | None, above: float | None) -> Decimal:
        bound = f" of at least {least}" if least is not None else ""
        bound = f" above {above}" if above is not None else bound
        wanted = f"must be a finite number{bound}"
        if isinstance(value, bool) or not isinstance(value, Real):
            self.wrong(key, wanted, value)
            return _ONE
        try:
            size = float(value)
        except OverflowError:
            size = math.inf
        if (
            not math.isfinite(size)
            or (least is not None and size < least)
            or (above is not None and size <= above)
        ):
            self.wrong(key, wanted, value)
            return _ONE
        return Decimal(int(value)) if isinstance(value, Integral) else Decimal(size)
