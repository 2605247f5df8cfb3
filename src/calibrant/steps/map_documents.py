"""What a file with a fitted map holds, and what it may hold: a file may come from anyone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.steps import Scale, check_steps, decode
from calibrant.steps.actions import CostTable
from calibrant.steps.step import require
from calibrant.typing import Label

FORMAT = "calibrant calibrator"
#: Raised when files change in a way that older versions cannot read.
VERSION = 2
#: What a map holds: see docs/format.md.
_KEYS = {"classes", "input", "scaling", "renormalize", "columns", "names", "method", "segments", "independent", "steps"}


class FileError(ValueError):
    """A file that holds no map, or a damaged one.

    Examples
    --------
    >>> from calibrant import runtime
    >>> issubclass(runtime.FileError, ValueError)
    True
    """


def map_parts(value: object) -> dict[str, Any]:
    """What the fields of a `Map` are, from a map in terms of JSON; every number is checked."""
    if not isinstance(value, dict):
        raise FileError("This file is damaged: its map is not an object.")
    try:
        if unknown := sorted(set(value) - _KEYS):
            raise ValueError(f"its map holds {unknown[0]!r:.40}, which this version of calibrant does not know")
        classes, columns = value["classes"], value["columns"]
        independent = value.get("independent", False)
        if independent not in (True, False) or (independent and {"segments", "scaling"} & set(value)):
            raise ValueError("independent should be true or false, and true only without segments and scaling")
        if not isinstance(classes, list) or len(classes) < (1 if independent else 2):
            raise ValueError("classes should be a list of at least two labels")
        if not all(isinstance(label, (str, int, float)) for label in classes) or len(set(classes)) < len(classes):
            raise ValueError("classes should hold different texts or numbers")
        if value["input"] not in ("probabilities", "logits", "scores") or type(value["renormalize"]) is not bool:
            raise ValueError("input should be probabilities, logits or scores, renormalize true or false")
        if (value["input"] == "scores") != ("scaling" in value):
            raise ValueError("a map of scores, and no other, should hold their scaling")
        scaling = _read_scaling(value["scaling"], len(classes)) if "scaling" in value else None
        if columns is not None:
            if not isinstance(columns, list) or sorted(columns) != list(range(len(classes))):
                raise ValueError("columns should be a permutation")
            columns = np.array(columns, dtype=np.intp)
        segments = _read_inputs(value["segments"]) if "segments" in value else {}
        names = _read_names(value["names"], len(classes)) if "names" in value else None
        steps = decode(value["steps"])
        if check_steps(steps, 2 * len(classes) if independent else len(classes) + len(segments)) != len(classes):
            raise ValueError("the last step should return one column per class")
        logits, method = value["input"] != "probabilities", str(value["method"])
    except (LookupError, TypeError, ValueError) as error:
        raise FileError(f"This file is damaged: {error!s:.300}.") from None
    return {
        "classes": classes,
        "steps": steps,
        "logits": logits,
        "renormalize": value["renormalize"],
        "columns": columns,
        "method": method,
        "segments": segments,
        "names": names,
        "scaling": scaling,
        "independent": independent,
    }


def _read_scaling(value: object, k: int) -> Scale:
    """The step that makes logits of scores, in a file."""
    steps = decode(value)
    if len(steps) != 1 or not isinstance(steps[0], Scale) or check_steps(steps, k) != k:
        raise ValueError("scaling should be one step that scales a number of each class")
    return steps[0]


def _read_names(value: object, k: int) -> list[Label]:
    if not isinstance(value, list) or (len(value) != k and not (k == 2 and len(value) == 1)):
        raise ValueError("names should be a list with one name per class")
    if not all(isinstance(name, (str, int)) for name in value) or len(set(value)) < len(value):
        raise ValueError("names should hold different texts or whole numbers")
    return value


def _read_inputs(value: object) -> dict[str, list[str] | None]:
    """The columns of segments in a file."""
    if not isinstance(value, list) or not value:
        raise ValueError("segments should be a list of columns")
    found: dict[str, list[str] | None] = {}
    for item in value:
        if not isinstance(item, Mapping) or set(item) != {"name", "levels"} or not isinstance(item["name"], str):
            raise ValueError("a column of segments should hold name, a text, and levels")
        levels = item["levels"]
        if levels is not None:
            if not isinstance(levels, list) or not levels or not all(isinstance(text, str) for text in levels):
                raise ValueError("levels should be texts, or null for a column of numbers")
            if len(set(levels)) < len(levels):
                raise ValueError("levels should be different texts")
        found[item["name"]] = levels
    if len(found) < len(value):
        raise ValueError("columns of segments should have different names")
    return found


def refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def read_rule(document: Mapping[str, object], classes: list[Label]) -> CostTable | None:
    """The decision rule of a file, checked; `None` if it has none."""
    if "rule" not in document:
        return None
    try:
        require(checksum(canonical(document["rule"])) == document.get("rule_sha256"), "it does not match its checksum")
        return CostTable.from_json(document["rule"], classes)
    except (TypeError, ValueError, RecursionError) as error:
        raise FileError(f"This file is damaged: its decision rule is wrong, {error!s:.200}.") from None


def version_fault(document: Mapping[str, object]) -> str:
    """What keeps this version of calibrant from reading a file of its format; nothing if it can."""
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        return f"This file is damaged: its version is {version!r:.40}."
    if version <= VERSION:
        return ""
    return (
        f"This file has format version {version}, written by calibrant {document.get('calibrant')!r:.40}; this "
        f"version of calibrant reads up to {VERSION}. Upgrade it."
    )


def canonical(value: object) -> str:
    """JSON with one spelling for each value; checksums are those of this text."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def checksum(text: str) -> str:
    """SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
