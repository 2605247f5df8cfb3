"""Values of the options of an export that cannot be used."""

from __future__ import annotations

from typing import Any


class OptionError(ValueError):
    """An option has a value that cannot be used.

    Attributes
    ----------
    option, value : its name in Python, and what it was set to; `None`: nothing.
    reason : what is wrong with it, and what to do.

    Examples
    --------
    >>> str(OptionError("dialect", "oracle", "is unknown"))
    "dialect='oracle' is unknown"
    """

    def __init__(self, option: str, value: Any, reason: str) -> None:
        super().__init__(f"{option}={value!r} {reason}")
        self.option, self.value, self.reason = option, value, reason
