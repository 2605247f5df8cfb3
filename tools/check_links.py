"""Check that a built site is whole: links inside lead somewhere, and no page loads anything from elsewhere.

Usage: python tools/check_links.py docs/_build/html
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a browser fetches when it opens a page; a link is only followed.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}
#: Links that are told apart by `rel`: only these are fetched.
FETCHED = {"stylesheet", "icon", "preload", "modulepreload"}


class Page(HTMLParser):
    """The places of a page that can be linked to, its links, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        for name, value in found.items():
            if (tag, name) in LOADED:
                if tag != "link" or FETCHED & set(found.get("rel", "").split()):
                    self.loads.append(value)
            elif name == "href":
                self.links.append(value)


def faults(root: Path) -> Iterator[str]:
    """What is wrong, one sentence each."""
    pages = {path.resolve(): Page(path) for path in sorted(root.rglob("*.html")) if "_static" not in path.parts}
    if not pages:
        yield f"{root} has no pages"
    for path, page in pages.items():
        name = path.relative_to(root.resolve())
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    yield f"{name} loads {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{name} links to {link}: there is no such file"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                yield f"{name} links to {link}: there is no such place"


def main() -> None:
    root = Path(sys.argv[1])
    found = list(faults(root))
    for fault in found:
        print(fault)
    if found:
        sys.exit(f"{len(found)} faults")
    print(f"All links inside {root} lead somewhere, and nothing is loaded from elsewhere.")


if __name__ == "__main__":
    main()
