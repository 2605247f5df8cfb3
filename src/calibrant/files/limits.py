"""How much memory one file may ask for: a few kilobytes of zeros, well compressed, can claim to be terabytes."""

from __future__ import annotations

import os

#: The environment variable that raises the limit, in gigabytes.
VARIABLE = "CALIBRANT_MAX_GB"
_DEFAULT = "4"


class FileTooLargeError(ValueError):
    """What a file holds would take more memory than the limit."""


def check_size(n_bytes: float, what: str) -> None:
    """Raise unless `n_bytes` are within the limit; `what` would take them.

    Examples
    --------
    >>> check_size(1e13, "bomb.npz")
    Traceback (most recent call last):
        ...
    calibrant.files.limits.FileTooLargeError: bomb.npz would take 1e+04 GB of memory; the limit is 4 GB. To read it
    anyway, set the environment variable CALIBRANT_MAX_GB.
    """
    text = os.environ.get(VARIABLE, _DEFAULT)
    try:
        limit = float(text)
    except ValueError:
        raise ValueError(
            f"the environment variable {VARIABLE} is {text!r}; a number of gigabytes is expected"
        ) from None
    if not n_bytes <= limit * 1e9:
        raise FileTooLargeError(
            f"{what} would take {n_bytes / 1e9:.3g} GB of memory; the limit is {limit:g} GB. To read it anyway, "
            f"set the environment variable {VARIABLE}."
        )
