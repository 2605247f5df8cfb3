"""Multi-label calibration: `MultilabelCalibrator` against the same method for every label, on three real tasks.

    python benchmarks/multilabel.py

- imports: which of 20 modules of the standard library a Python file imports, from its other words;
- glyphs: which of 20 words are in the Unicode name of a character, from its picture in DejaVu Sans;
- calls: which of 20 functions and methods a Python function calls, from its name and its docstring.

Files are those of the installed packages and of Python itself. Two models of each task are trained on half of the
rows. Of the other half, n rows are drawn for calibration and all others test, ten times. Printed is the log loss of a
label in a row (mean over rows and labels): of the unchanged predictions, and what each method adds to them; and the
same with labels drawn from the predictions, where nothing can be gained. Every method is fitted to each label, and
leaves alone what it cannot be fitted to: a label that no row, or every row, has.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sysconfig
import time
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier

ROWS, LABELS = 8000, 20
METHODS = ("identity", "temperature", "platt", "beta", "isotonic", "logistic", "auto")


def sources() -> list[Path]:
    """The Python files at hand, in an order that does not depend on where they are."""
    paths = sysconfig.get_paths()
    found = [file for folder in ("purelib", "stdlib") for file in Path(paths[folder]).rglob("*.py")]
    found = [file for file in dict.fromkeys(found) if 1_000 < file.stat().st_size < 60_000]
    return [found[i] for i in np.random.default_rng(0).permutation(len(found))]


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Text and syntax tree of one file after the other."""
    for file in sources():
        try:
            text = file.read_text(encoding="utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield text, ast.parse(text)
        except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
            continue


def choose(sets: list[set[str]], allowed: Callable[[str], bool], least: float = 0.004, most: float = 0.3) -> list[str]:
    """Twenty labels, evenly spread by rank among those that are neither too rare nor too common."""
    counts = Counter(item for row in sets for item in row if allowed(item))
    known = [item for item, count in counts.most_common() if least <= count / len(sets) <= most]
    return [known[i] for i in np.linspace(0, len(known) - 1, LABELS).astype(int)]


def imports() -> tuple[list[str], list[set[str]], list[str]]:
    """Words of files, and the modules that they import."""
    import sys

    words, sets = [], []
    for text, tree in trees():
        modules = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.split(".")[0])
        lines = [line for line in text.splitlines() if not re.match(r"\s*(import|from)\s", line)]
        words.append(" ".join(re.findall(r"[A-Za-z_]{2,}", "\n".join(lines))[:2000]))
        sets.append(modules)
        if len(words) == ROWS:
            break
    names = choose(sets, lambda name: name in sys.stdlib_module_names and name != "__future__")
    hidden = re.compile(rf"\b({'|'.join(names)})\b")
    return [hidden.sub(" ", text) for text in words], sets, names


def calls() -> tuple[list[str], list[set[str]], list[str]]:
    """Names and docstrings of functions, and what they call."""
    words, sets = [], []
    for _, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or len(ast.get_docstring(node) or "") < 40:
                continue
            called = {
                inner.func.id if isinstance(inner.func, ast.Name) else inner.func.attr
                for inner in ast.walk(node)
                if isinstance(inner, ast.Call) and isinstance(inner.func, (ast.Name, ast.Attribute))
            }
            words.append(f"{node.name.replace('_', ' ')} {ast.get_docstring(node)}"[:3000])
            sets.append(called)
        if len(words) >= ROWS:
            break
    words, sets = words[:ROWS], sets[:ROWS]
    return words, sets, choose(sets, lambda name: True)


def glyphs() -> tuple[np.ndarray, list[set[str]], list[str]]:
    """Pictures of characters, and the words of their names."""
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font
    from PIL import Image, ImageDraw, ImageFont

    path = str(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
    font = ImageFont.truetype(path, 18, layout_engine=ImageFont.Layout.BASIC)
    pictures, sets = [], []
    for code in sorted(FT2Font(path).get_charmap()):
        name = unicodedata.name(chr(code), "")
        if not name:
            continue
        image = Image.new("L", (28, 28))
        ImageDraw.Draw(image).text((4, 3), chr(code), font=font, fill=255)
        pictures.append(np.asarray(image, dtype=np.float64).ravel() / 255.0)
        sets.append(set(name.split()))
    order = np.random.default_rng(0).permutation(len(sets))
    sets = [sets[i] for i in order]
    return np.array(pictures)[order], sets, choose(sets, lambda word: word != "LETTER", 0.006)


def predictions(name: str, folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The models of a task with their probabilities and the labels of the rows that they were not trained on."""
    file = folder / f"{name}.npz"
    if not file.exists():
        X, sets, names = {"imports": imports, "glyphs": glyphs, "calls": calls}[name]()
        Y = np.array([[item in row for item in names] for row in sets], dtype=np.int64)
        half = len(Y) // 2
        if isinstance(X, list):
            X = TfidfVectorizer(min_df=5, max_features=20_000, sublinear_tf=True).fit(X[:half]).transform(X)
            models = {
                "bayes": OneVsRestClassifier(MultinomialNB(alpha=0.1)),
                "linear": OneVsRestClassifier(LogisticRegression(C=20.0, max_iter=300)),
            }
        else:
            models = {
                "forest": RandomForestClassifier(100, min_samples_leaf=2, random_state=0),
                "network": MLPClassifier((64,), alpha=1e-4, max_iter=30, random_state=0),
            }
        kept = {"y": Y[half:], "names": np.array(names)}
        for model, estimator in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                p = estimator.fit(X[:half], Y[:half]).predict_proba(X[half:])
            kept[model] = np.column_stack([q[:, 1] for q in p]) if isinstance(p, list) else p
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, **kept)
    with np.load(file) as held:
        for model in held.files:
            if model not in ("y", "names"):
                yield model, held[model], held["y"]


def per_label(method: str, p: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """One calibrator for each label that some rows have and others have not."""
    from calibrant import get_calibrator

    out = test.copy()
    for j in np.flatnonzero((y.sum(axis=0) > 0) & (y.sum(axis=0) < len(y))):
        out[:, j] = get_calibrator(method).fit(p[:, j], y[:, j]).predict_proba(test[:, j])[:, 1]
    return out


def log_loss(y: np.ndarray, p: np.ndarray) -> float:
    """Mean over rows and labels, with the floor of `calibrant.metrics.log_loss`."""
    return float(-np.log(np.maximum(np.where(y == 1, p, 1.0 - p), 1e-15)).mean())


def compare(p: np.ndarray, y: np.ndarray, n: int, draws: int, methods: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Log loss of every method in every draw."""
    from calibrant import MultilabelCalibrator

    found: dict[str, list[float]] = {name: [] for name in (*methods, "multilabel")}
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(y))
        fit, test = order[:n], order[n:]
        for name in found:
            if name == "identity":
                q = p[test]
            elif name == "multilabel":
                q = MultilabelCalibrator().fit(p[fit], y[fit]).predict_proba(p[test])
            else:
                q = per_label(name, p[fit], y[fit], p[test])
            found[name].append(log_loss(y[test], q))
    return {name: np.array(losses) for name, losses in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="imports,glyphs,calls")
    parser.add_argument("--rows", default="100,300,1000")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--folder", type=Path, default=Path("/tmp/calibrant-multilabel"), help="keeps predictions")
    parser.add_argument("--drawn", action="store_true", help="labels drawn from the predictions instead of real ones")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    methods, start = tuple(args.methods.split(",")), time.process_time()
    print(f"{'set':8}{'model':9}{'rows':>5}  " + "".join(f"{name:>12}" for name in (*methods, "multilabel")) + "  won")
    for name in args.sets.split(","):
        for model, p, y in predictions(name, args.folder):
            if args.drawn:
                p = np.clip(p, 1e-6, 1.0 - 1e-6)
                y = (np.random.default_rng(1).random(p.shape) < p).astype(np.int64)
            for n in map(int, args.rows.split(",")):
                found = compare(p, y, n, args.draws, methods)
                best = min(methods, key=lambda method: found[method].mean())
                won = int((found["multilabel"] < found[best]).sum())
                cells = "".join(f"{losses.mean():12.5f}" for losses in found.values())
                print(f"{name:8}{model:9}{n:5}  {cells}  {won}/{args.draws} against {best}", flush=True)
    print(f"{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
