"""What pages are made of: an opening with three numbers and one picture, and sections that fold away.

A section is one template in `templates/sections` and one function that returns a `Section`, or None where there is
nothing to show. Everything from the data passes through the template's escaping or that of the figures; a content
security policy in the page forbids the network and every script but those of this package.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from calibrant import numerals
from calibrant.optional import require

TEMPLATES = Path(__file__).parent / "templates"
#: How numbers and classes are written.
FILTERS = ("number", "signed", "percent", "span", "count", "excess", "class_text")


@dataclass(frozen=True)
class KeyNumber:
    """One of the numbers at the top: what it is, its value as text, and a few words below."""

    label: str
    value: str
    words: str = ""


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

    Attributes
    ----------
    name : str
        Of the template ``sections/name.html.j2``, and the id of the section.
    title : str
    note : str
        What the section finds, in a few words that can be read while it is folded.
    values : mapping
        What the template is given as `v`; figures have passed through `drawn`.
    script : str
        A file of `templates` with the script that the section needs.
    """

    name: str
    title: str
    note: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    script: str = ""


def drawn(svg: str) -> Any:
    """A figure, which is SVG, as what a template does not escape."""
    return require("markupsafe", extra="cli").Markup(svg)


def fill(template: str, sections: Sequence[Section] = (), **values: Any) -> str:
    """A page of this package's style with the scripts of its sections; all values are escaped but figures."""
    jinja2 = require("jinja2", extra="cli")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(p=numerals.p_text, **{name: getattr(numerals, name) for name in FILTERS})
    style, *scripts = (
        (TEMPLATES / name).read_text(encoding="utf-8")
        for name in ("style.css", *dict.fromkeys(section.script for section in sections if section.script))
    )
    # A script runs if its checksum is named: nothing that came with the data does.
    allowed = [f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts]
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    policy += f"; script-src {' '.join(allowed)}" if allowed else ""
    code = [drawn(script) for script in scripts]
    page = environment.get_template(template)
    return str(page.render(style=drawn(style), scripts=code, policy=drawn(policy), sections=sections, **values))
