"""How accurate the flagship is with 300 and 1000 classes and ten and more calibration rows for each.

    python benchmarks/thousand_classes.py folder [--part design] [--repeats 2] [--methods ts,svs,sms,ets,auto]

Nothing is downloaded: the texts are the Python sources of the standard library and of the installed packages, so that
the figures depend on what is installed. Three tasks, each from a third of the files by the SHA-1 of their paths:
`modules` (which file do three lines of code come from), `tokens` (which word follows five tokens) and `calls` (which
function is called with these arguments). The first two are for design, `calls` is unseen until all choices are made.
Every class has as many rows as every other one; `calls` has fewer than 1000 classes of enough rows. Two models of
hashed features, naive Bayes, which is over-confident, and a small network, are trained on 40 rows of each class; their
predictions of 30 others are stored in `folder` as ``{task}-{classes}-{model}.npz``. Of these, 10 000 or two thirds are
drawn for calibration, and the others tested on.

The table has, for each set, the test log loss of each method and the CPU seconds of fit and prediction. Harm is the
increase of the expected log loss of `auto` where the labels are drawn from the predictions.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sysconfig
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import numpy as np

from calibrant import get_calibrator

PARTS = {"design": ("modules", "tokens"), "unseen": ("calls",)}
TASKS = ("modules", "tokens", "calls")
CLASSES = (300, 1000)
#: Rows of each class that models learn from, and that they predict.
TRAINED, PREDICTED = 40, 30
#: Most calibration rows, about as many as the flagship looks at with a thousand classes.
ROWS = 10_000
#: Columns that features are hashed to.
HASHED = 1 << 15
#: Larger files are data.
LARGEST_FILE = 300_000
_TOKEN = re.compile(r"\w+|[^\w\s]")
_CALL = re.compile(r"(\w{3,})\(([^()\n]{8,80})\)")

Sample = tuple[str, list[str]]


def texts(task: str) -> Iterator[tuple[str, str]]:
    """Names and contents of a third of the installed sources."""
    paths = sysconfig.get_paths()
    for root in (Path(paths["stdlib"]), Path(paths["purelib"])):
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root).as_posix()
            third = int(hashlib.sha1(name.encode()).hexdigest(), 16) % 3
            if third == TASKS.index(task) and "site-packages" not in name and path.stat().st_size < LARGEST_FILE:
                yield name, path.read_text(errors="ignore")


def _modules(name: str, text: str) -> Iterator[Sample]:
    lines = [line.strip() for line in dict.fromkeys(text.splitlines()) if len(line.strip()) > 12]
    for start in range(0, len(lines) - 2, 3):
        tokens = _TOKEN.findall(" \n ".join(lines[start : start + 3]))
        yield name, [*tokens, *map(" ".join, pairwise(tokens))]


def _tokens(_: str, text: str) -> Iterator[Sample]:
    tokens = _TOKEN.findall(text)
    for i in range(5, len(tokens), 3):
        if len(tokens[i]) > 2 and not tokens[i][0].isdigit():
            before = [f"{j} {tokens[i - j]}" for j in range(1, 6)]
            yield tokens[i], [*before, f"{before[1]} {before[0]}", f"{before[2]} {before[1]} {before[0]}"]


def _calls(_: str, text: str) -> Iterator[Sample]:
    for found in _CALL.finditer(text):
        tokens = _TOKEN.findall(found[2])
        before = _TOKEN.findall(text[max(0, found.start() - 40) : found.start()])[-3:]
        yield found[1], [*tokens, *map(" ".join, pairwise(tokens)), *(f"< {t}" for t in before)]


SAMPLES: dict[str, Callable[[str, str], Iterator[Sample]]] = {"modules": _modules, "tokens": _tokens, "calls": _calls}


def build(folder: Path, task: str) -> None:
    """Train the models of a task and store what they predict."""
    from scipy.special import softmax
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.neural_network import MLPClassifier

    rng = np.random.default_rng(0)
    of_class: dict[str, list[list[str]]] = defaultdict(list)
    for name, text in texts(task):
        for label, features in SAMPLES[task](name, text):
            of_class[label].append(features)
    each = TRAINED + PREDICTED
    able = [label for label in sorted(of_class) if len(of_class[label]) >= each]
    rng.shuffle(able)
    for k in sorted({min(k, len(able)) for k in CLASSES}):
        drawn = [[of_class[c][i] for i in rng.permutation(len(of_class[c]))[:each]] for c in able[:k]]
        hashed = FeatureHasher(HASHED, input_type="string", alternate_sign=False).transform(f for c in drawn for f in c)
        y, place = np.repeat(np.arange(k), each), np.tile(np.arange(each), k)
        fit, rest = place < TRAINED, rng.permutation(np.flatnonzero(place >= TRAINED))
        bayes = MultinomialNB(alpha=0.1).fit(hashed[fit], y[fit])
        network = MLPClassifier((64,), max_iter=12, batch_size=500, learning_rate_init=0.003, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            network.fit(hashed[fit], y[fit])
        logits = {"nb": bayes.predict_joint_log_proba(hashed[rest]), "mlp": network.predict_log_proba(hashed[rest])}
        for model, z in logits.items():
            p = softmax(z, axis=1).astype(np.float32)
            np.savez(folder / f"{task}-{k}-{model}.npz", p=p, y=y[rest].astype(np.int16))


def losses(p: np.ndarray, y: np.ndarray, rows: np.ndarray, method: str) -> tuple[float, float]:
    """Test log loss after calibration by the rows, and CPU seconds."""
    test = np.setdiff1d(np.arange(len(y)), rows)
    start = time.process_time()
    found = p[test]
    if method != "none":
        calibrator = get_calibrator(method, classes=range(p.shape[1]), renormalize=True).fit(p[rows], y[rows])
        found = np.asarray(calibrator.predict_proba(found))
    seconds = time.process_time() - start
    return float(-np.log(np.maximum(found[np.arange(len(test)), y[test]], 1e-15)).mean()), seconds


def harm(p: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> float:
    """Increase of the expected log loss by `auto` where labels are drawn from the predictions."""
    test = np.setdiff1d(np.arange(len(p)), rows)
    drawn = np.minimum((p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1), p.shape[1] - 1)
    auto = get_calibrator("auto", classes=range(p.shape[1]), renormalize=True).fit(p[rows], drawn[rows])
    q = np.maximum(p[test], 1e-15)
    return float((q * np.log(q / np.maximum(auto.predict_proba(q), 1e-15))).sum(axis=1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", default="design", choices=sorted(PARTS))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--methods", default="ts,svs,sms,ets,auto")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    methods = ["none", *given.methods.split(",")]
    print(f"| set | rows | {' | '.join(methods)} | harm of auto |\n" + "|---" * (len(methods) + 3) + "|")
    for task in PARTS[given.part]:
        if not list(given.folder.glob(f"{task}-*.npz")):
            build(given.folder, task)
        for path in sorted(given.folder.glob(f"{task}-*.npz")):
            stored = np.load(path)
            p, y = stored["p"].astype(float), stored["y"].astype(int)
            p /= p.sum(axis=1, keepdims=True)
            n = min(ROWS, 2 * len(y) // 3)
            rng = np.random.default_rng(0)
            draws = [rng.permutation(len(y))[:n] for _ in range(given.repeats)]
            cells = []
            for method in methods:
                found = np.mean([losses(p, y, rows, method) for rows in draws], axis=0)
                cells.append(f"{found[0]:.4f} ({found[1]:.1f} s)")
            print(f"| {path.stem} | {n} | {' | '.join(cells)} | {harm(p, draws[0], rng):.4f} |", flush=True)


if __name__ == "__main__":
    main()
