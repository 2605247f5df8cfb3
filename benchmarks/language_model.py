"""A small language model answers multiple-choice questions; how far its confidence can be trusted, and what labels buy.

The model is a character model (up to seven characters of context, Witten-Bell smoothing) of the docstrings of NumPy,
SciPy and pandas. Questions are the beginnings of sentences in scikit-learn's docstrings, options the true end and ends
of other sentences, three to six of them; the score of an option is by how much the beginning raises its
log-probability. Files are documents: calibration and test questions come from different ones.

Run: python benchmarks/language_model.py [folder]   (about a minute; writes samples.jsonl and test.jsonl there)
"""

from __future__ import annotations

import ast
import json
import math
import re
import sys
import tempfile
from collections import Counter, defaultdict
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from calibrant import OptionCalibrator, read_answers
from calibrant.metrics import ece, log_loss

ORDER, TRAINED, QUESTIONS, LABELS, DRAWS = 7, 1_500_000, 2000, (50, 100, 200, 500, 1000), 20


def sentences(package: str) -> dict[str, list[str]]:
    """First sentences of docstrings in each file of a package, once each."""
    folder = Path(str(find_spec(package).origin)).parent
    found: dict[str, list[str]] = {}
    known: set[str] = set()
    for file in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                continue
            text = re.sub(r"\s+", " ", ast.get_docstring(node) or "")
            for sentence in re.findall(r"[A-Z][a-z][^.:`*|>=\[\]]{40,160}\.", text):
                if sentence not in known and sentence.count(" ") > 6:
                    known.add(sentence)
                    found.setdefault(str(file.relative_to(folder)), []).append(sentence)
    return found


class CharacterModel:
    """P(character | up to `ORDER` before it), orders mixed by Witten and Bell's rule."""

    def __init__(self, text: str) -> None:
        self.counts: list[defaultdict[str, Counter[str]]] = [defaultdict(Counter) for _ in range(ORDER + 1)]
        for order, counts in enumerate(self.counts):
            for i in range(order, len(text)):
                counts[text[i - order : i]][text[i]] += 1
        self.size = len(set(text)) + 1

    def logprob(self, before: str, text: str) -> float:
        whole, total = before + text, 0.0
        for i in range(len(before), len(whole)):
            p = 1.0 / self.size
            for order, counts in enumerate(self.counts):
                seen = counts.get(whole[i - order : i]) if i >= order else None
                if not seen:
                    break
                n = seen.total()
                p = (seen[whole[i]] + len(seen) * p) / (n + len(seen))
            total += math.log(p)
        return total


def questions(model: CharacterModel, rng: np.random.Generator) -> list[dict[str, object]]:
    """Beginnings of sentences, with their end and those of other sentences as options."""
    known = [(document, text) for document, texts in sentences("sklearn").items() for text in texts]
    cuts = [text.rindex(" ", 0, len(text) // 2 + 20) for _, text in known]
    ends = [text[at:] for (_, text), at in zip(known, cuts)]
    made: list[dict[str, object]] = []
    for i in rng.permutation(len(known))[: 2 * QUESTIONS]:
        document, before, after = known[i][0], known[i][1][: cuts[i]], ends[i]
        options = list(dict.fromkeys([after, *(ends[j] for j in rng.integers(0, len(ends), rng.integers(2, 6)))]))
        options = [options[j] for j in rng.permutation(len(options))]
        logprobs = [round(model.logprob(before, option) - model.logprob(" ", option), 4) for option in options]
        made.append(
            {
                "document": document,
                "question": before,
                "options": options,
                "logprobs": logprobs,
                "answer": options.index(after),
            }
        )
    return made


def main() -> None:
    rng = np.random.default_rng(0)
    texts = [text for package in ("numpy", "scipy", "pandas") for part in sentences(package).values() for text in part]
    model = CharacterModel(" ".join(texts[i] for i in rng.permutation(len(texts)))[:TRAINED])
    rows = questions(model, rng)
    documents = sorted({str(row["document"]) for row in rows})
    kept = set(rng.permutation(documents)[: len(documents) // 2])
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("samples", True), ("test", False)):
        lines = [json.dumps(row) for row in rows if (row["document"] in kept) == part]
        (folder / f"{name}.jsonl").write_text("\n".join(lines[:QUESTIONS]) + "\n", encoding="utf-8")
    labelled, test = (read_answers(folder / f"{name}.jsonl") for name in ("samples", "test"))
    right = test.sample.y

    def row(name: str, found: list[np.ndarray]) -> None:
        parts = [(log_loss(right, p), ece(right, p), float((p.argmax(axis=1) == right).mean())) for p in found]
        mean, spread = np.mean(parts, axis=0), np.std(parts, axis=0)
        print(f"{name:>12}  {mean[0]:.3f} ± {spread[0]:.3f}  {mean[1]:.3f} ± {spread[1]:.3f}  {mean[2]:.3f}")

    print(f"{folder}: {labelled.sample.size} to learn from, {test.sample.size} to test\n")
    print("      labels  log loss       ECE            accuracy")
    row("none", [test.sample.proba])
    for n in (*(n for n in LABELS if n < labelled.sample.n_rows), labelled.sample.n_rows):
        draws = DRAWS if n < labelled.sample.n_rows else 1
        drawn = [labelled.take(rng.permutation(labelled.sample.n_rows)[:n]) for _ in range(draws)]
        row(str(n), [OptionCalibrator().fit(part).predict_proba(test) for part in drawn])


if __name__ == "__main__":
    main()
