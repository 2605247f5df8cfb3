"""What `AutoCalibrator` fits for data of a given size: the members, folds and rows that are worth their cost.

Trees pay where classes are few and distortions curved, kernel features add a little beside them. With many classes
Gaussian models of several strengths find what there is in a matrix, beside a weak ridge; above 200 the matrix has a low
rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from calibrant.calibrators.auto.additive import EVEN, FACTORS, STRONGEST, Lambdas
from calibrant.calibrators.auto.members import DISCRIMINANTS, FEW_ROWS, GAUSSIANS, PROJECTED, RIDGES
from calibrant.calibrators.auto.trees.ensemble import BoostingOptions
from calibrant.calibrators.parameters import InputSmoothing

#: Classes up to which thorough fits have a kernel.
_KERNEL_CLASSES = 12
#: With many rows trees find what the kernel would, at less cost.
_KERNEL_ROWS = 20_000
#: Classes up to which there are trees; above, Gaussian models have a lower log loss, by 0.006 to 0.041 with up to 200
#: classes. With more than these a full matrix is no longer fitted.
_TREE_CLASSES = 40
_MATRIX_CLASSES = 200
#: A further factor on the strengths for many classes, whose strengths off the diagonal grow with k²: too much for some.
_WEAKEST = 0.03
#: Above `_MATRIX_CLASSES`: directions in which log-probabilities vary most, and rows for each class below which the
#: Gaussian model of them gains nothing.
_DIRECTIONS, _LEAST_FOR_DIRECTIONS = 100, 1
#: Above so many classes vector scaling adds nothing to that model, and would take three quarters of the time
#: (`benchmarks/thousand_classes.py`).
_VECTOR_CLASSES = 500
#: Folds of fewer than `FEW_ROWS` rows above `_TREE_CLASSES`: a fit to nine tenths of them is more like one to all.
_FOLDS_OF_FEW = 10
#: Above `_TREE_CLASSES`: what the stack of members gives temperature scaling beforehand.
_TEMPERATURE_SHARE = 0.7
#: One probability has few ways to be distorted that the curves do not know; trees need rows to find one.
_BINARY_TREE_ROWS = 5000
#: One more pseudo-observation in the pool for each of this many rows. Two classes have few coefficients, and folds
#: understate what their average is worth: they go to the blend. With more classes they go to the predictions as they
#: are, `_MOST_POOLED` at most: an error that so many rows have not made evident is small, and trees find noise. Against
#: 500 rows and at most two, harm falls by a quarter at 300 and 1000 rows, for 0.0001 of log loss
#: (docs/notebook-trees.md). Above `_TREE_CLASSES` two are always there, above `_MATRIX_CLASSES` the strengths guard.
_POOL_ROWS_OF_TWO, _POOL_ROWS, _MOST_POOLED = 500.0, 200.0, 4.0
#: Most rows, and most numbers in a matrix of log-probabilities (but never less than the last number of rows): what is
#: more is thinned by a random draw, since the error that is left is far below what can be measured.
_MOST_ROWS = 50_000
_MOST_NUMBERS = 1 << 21
_LEAST_ROWS = 10_000
#: Numbers that a fit has memory for, whatever the number of rows: it holds about 160 bytes for each.
_LARGEST = 3 << 22
#: With fewer rows than this nothing beyond the temperature is learned, ...
_LEAST_FOR_FOLDS = 15
#: ... and with fewer than this neither kernel nor trees.
_LEAST_FOR_FLEXIBLE = 200
#: The prior weights then.
_FEW_ROWS = {"temperature": 0.4, "additive": 0.6}
#: With fewer rows, and fewer of them wrong, a few lucky ones decide what trees seem to be worth: these must gain so
#: many nats out of fold, or the prior weights are those of few rows. With 200, 300 and 450 rows of tabular data and
#: images, design half, a smaller gain was noise.
_ROWS_FOR_TREES, _ERRORS_FOR_TREES, _PROOF_OF_TREES = 500, 50.0, 2.0
#: What trees must gain otherwise: a fifth of all maps need none then, and lose nothing (`benchmarks/size.py`).
_WORTH_STORING = 1.0
#: Bytes of a map by default, ...
_MOST_BYTES, _MOST_BYTES_PER_CLASS = 1_000_000, 100_000
#: ... and of a number in it: a step of a leaf has three decimal places, a threshold all of them.
_BYTES_PER_VALUE, _BYTES_PER_QUESTION = 7, 28


@dataclass(frozen=True)
class Plan:
    """What is fitted: every ingredient of `AutoCalibrator` that can be left out or changed."""

    #: Members to fit, with their prior weights in the blend.
    members: dict[str, float]
    n_folds: int
    stratified: bool
    #: Size of the kernel, or number of projections instead of one.
    n_landmarks: int
    n_directions: int = 0
    trees: BoostingOptions = field(default_factory=BoostingOptions)
    #: Factors on the ridge strengths that are averaged, and the relative strengths of the parts of the matrix.
    factors: tuple[float, ...] = FACTORS
    lambdas: Lambdas = EVEN
    input_smoothing: InputSmoothing = "auto"
    #: Nats that trees must gain out of fold to take part, and prior weights of other members if they do not.
    proof_of_trees: float = -np.inf
    without_trees: dict[str, float] = field(default_factory=dict)
    #: Pseudo-observations for the blend and for the unchanged predictions, which so keep a share where calibration
    #: gains nothing out of fold.
    pool_counts: tuple[float, float] = (1.0, 2.0)

    @property
    def diagonal(self) -> bool:
        """Whether no member has a matrix of coefficients."""
        return self.n_directions > 0 or self.members.keys() <= {"temperature", "vector"}


def make_plan(n: int, k: int, effort: str, n_wrong: float = np.inf, max_size: int | None = None) -> Plan:
    """The plan for `n` independent observations of `k` classes, of which the predicted class is wrong in `n_wrong`.

    Trees take at most `max_size` bytes.
    """
    if n < _LEAST_FOR_FOLDS:
        members = {"temperature": 1.0}
    elif k > _MATRIX_CLASSES:
        members = {"temperature": 0.5, "vector": 0.5}
        if n >= _LEAST_FOR_DIRECTIONS * k:
            members |= dict.fromkeys(PROJECTED, 0.5 / len(PROJECTED))
            if k > _VECTOR_CLASSES:
                del members["vector"]
    elif k > _TREE_CLASSES:
        members = _many_classes(effort)
    elif k == 2:
        members = {"temperature": 0.03, "additive": 0.97}
        if n >= _BINARY_TREE_ROWS:
            members |= {"additive": 0.92, "trees": 0.05}
    else:
        members = {"temperature": 0.05, "additive": 0.05, "trees": 0.45}
        if effort == "thorough" and k <= _KERNEL_CLASSES and n <= _KERNEL_ROWS:
            members["kernel"] = 0.45
    if n < _LEAST_FOR_FLEXIBLE and "additive" in members:
        members = dict(_FEW_ROWS)
    if effort == "fast":
        members = {name: w for name, w in members.items() if name not in {"trees", "kernel"}}
    n_folds = 3 if effort == "fast" and k > _MATRIX_CLASSES else 5
    if _TREE_CLASSES < k <= _MATRIX_CLASSES and n < FEW_ROWS:
        n_folds = _FOLDS_OF_FEW
    landmarks = min(40, n // 5) if "kernel" in members else 0
    # With few rows a class, folds of equal class frequencies would hide that these are estimated, too.
    plan = Plan(
        members,
        max(1, min(n_folds, n)),
        k <= _TREE_CLASSES,
        landmarks,
        trees=BoostingOptions(most_trees=most_trees(k, max_size)),
        proof_of_trees=_WORTH_STORING,
    )
    if k == 2:
        return replace(plan, pool_counts=(1.0 + n / _POOL_ROWS_OF_TWO, 2.5))
    if k <= _TREE_CLASSES:
        few = "trees" in members and n < _ROWS_FOR_TREES and n_wrong < _ERRORS_FOR_TREES
        return replace(
            plan,
            pool_counts=(1.0, 2.0 + min(n / _POOL_ROWS, _MOST_POOLED)),
            proof_of_trees=_PROOF_OF_TREES if few else _WORTH_STORING,
            without_trees=_FEW_ROWS if few else {},
        )
    if k <= _MATRIX_CLASSES:
        return replace(plan, pool_counts=(1.0, 4.0))
    directions = _DIRECTIONS if PROJECTED.keys() <= members.keys() else 0
    return replace(plan, factors=(STRONGEST, *FACTORS, _WEAKEST), n_directions=directions)


def _many_classes(effort: str) -> dict[str, float]:
    """Members of more than 40 classes, with their prior weights."""
    names = [*GAUSSIANS, *DISCRIMINANTS, *(() if effort == "fast" else RIDGES)]
    return {"temperature": _TEMPERATURE_SHARE} | dict.fromkeys(names, (1.0 - _TEMPERATURE_SHARE) / len(names))


def most_trees(k: int, max_size: int | None) -> int:
    """How many trees of `k` classes a map of so many bytes has room for; by default 1 MB, more above ten classes."""
    size = max(_MOST_BYTES, _MOST_BYTES_PER_CLASS * k) if max_size is None else max_size
    depth = BoostingOptions.depth
    return int(size // (_BYTES_PER_VALUE * k * 2**depth + _BYTES_PER_QUESTION * depth))


def most_rows(k: int) -> int:
    """The number of rows of `k` classes beyond which a fit gains nothing that can be measured."""
    return min(max(_LEAST_ROWS, min(_MOST_ROWS, _MOST_NUMBERS // k)), _LARGEST // k)
