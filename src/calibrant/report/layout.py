"""What pages are made of: an opening with three numbers and one picture, and sections that fold away.

A section is one template in `templates/sections` and one function that returns a `Section`, or None where there is
nothing to show. Everything from the data passes through the template's escaping or that of the figures; a content
security policy in the page forbids the network and every script but those of this package.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import numerals
from calibrant.metrics.result_types import Estimate
from calibrant.numerals import percent
from calibrant.optional import require

TEMPLATES = Path(__file__).parent / "templates"
SAVING = "calibration saves"
_FILTERS = ("number", "signed", "percent", "span", "count", "amount", "excess", "class_text")


@dataclass(frozen=True)
class KeyNumber:
    """One of the numbers at the top: what it is, its value as text, and a few words below."""

    label: str
    value: str
    words: str = ""


def saving(gain: Estimate, share: Estimate) -> KeyNumber:
    """The number that says what calibration saves of the log loss before it."""
    if np.isnan(share.value) or gain.low <= 0 <= gain.high:
        return KeyNumber(SAVING, "nothing", "of log loss, beyond chance")
    if gain.high < 0:
        return KeyNumber(SAVING, "nothing", f"log loss would be {percent(-share.value, 1)} higher")
    # No more than all of it can be saved, though a normal interval may say so.
    low, high = percent(share.low, 1), percent(min(share.high, 1.0), 1)
    return KeyNumber(SAVING, percent(share.value, 1), f"of log loss ({low} to {high})")


@dataclass(frozen=True)
class Opening:
    """What a page says before anything is unfolded; `tone` is "good", "fair" or "bad"."""

    tone: str
    headline: str
    numbers: tuple[KeyNumber, ...]
    picture: Any = None
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a page that folds away.

    The template ``sections/name.html.j2`` is given `values` as `v`, of which figures have passed through `drawn`;
    `name` is also the id of the section, and `note` what it finds, in words that can be read while it is folded.
    """

    name: str
    title: str
    note: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    #: A file of `templates` with the script that the section needs.
    script: str = ""


@cache
def environment(*, autoescape: bool) -> Any:
    """The templates, and how numbers and classes are written in them; compiled once."""
    jinja2 = require("jinja2", extra="cli")
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {name: getattr(numerals, name) for name in _FILTERS} | {"p": numerals.p_text, "md": escaped}
    return made


def escaped(text: object) -> str:
    """Text in Markdown, where names of classes may hold what it takes for marks."""
    return re.sub(r"([\\`*\[\]<>|#]|(?<!\w)_|_(?!\w))", r"\\\1", " ".join(str(text).split()))


def drawn(svg: str) -> Any:
    """A figure, which is SVG, as what a template does not escape."""
    return require("markupsafe", extra="cli").Markup(svg)


def fill(template: str, sections: Sequence[Section] = (), **values: object) -> str:
    """A page of this package's style with the scripts of its sections; all values are escaped but figures."""
    style, *scripts = (
        (TEMPLATES / name).read_text(encoding="utf-8")
        for name in ("style.css", *dict.fromkeys(section.script for section in sections if section.script))
    )
    # A script runs if its checksum is named: nothing that came with the data does.
    allowed = [f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts]
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    policy += f"; script-src {' '.join(allowed)}" if allowed else ""
    code = [drawn(script) for script in scripts]
    page = environment(autoescape=True).get_template(template)
    return str(page.render(style=drawn(style), scripts=code, policy=drawn(policy), sections=sections, **values))
