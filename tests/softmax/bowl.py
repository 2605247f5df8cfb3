"""A problem that is solved by hand: what solvers ask for is counted, and what they are told is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.softmax.problem import ClassMoments


class Bowl:
    """A sum of one function of every coefficient, given by its value and two derivatives, as a problem of some size."""

    precision, in_memory, total_weight, curvature_share = 2.0**-52, True, 1.0, 1.0
    rough: Any = None
    narrow: Bowl | None = None

    def __init__(
        self, shape: tuple[int, int], function: Any, *, n_rows: int = 1000, error: float = 1.0, change: float = 50.0
    ) -> None:
        self.shape, self.n_classes, self.n_shared, self.n_rows = shape, shape[0], shape[1], n_rows
        self.n_parameters = shape[0] * shape[1]
        self.second_moments = np.ones(shape)
        self.function, self.error, self.change = function, error, change
        self.visited, self.shares, self.products, self.made = list[float](), list[float](), 0, list[str]()

    def single_precision(self) -> Bowl | None:
        return self.narrow

    def largest_change(self, theta: np.ndarray) -> float:
        return self.change * float(np.max(np.abs(theta)))

    def at(self, theta: np.ndarray, *, reuse: object = None) -> Place:
        self.visited.append(float(theta[0, 0]))
        value, first, second = self.function(theta)
        return Place(self, float(np.sum(value)), first, second)


class Place:
    """A bowl at certain coefficients; on some of the rows its curvature is wrong by a factor."""

    def __init__(self, bowl: Bowl, loss: float, first: np.ndarray, second: np.ndarray) -> None:
        self.bowl, self.loss, self.first, self.second = bowl, loss, first, second

    def gradient(self) -> np.ndarray:
        return self.first

    def hessian(self) -> np.ndarray:
        self.bowl.made.append("all")
        return np.diag(self.second.ravel())

    def rough_hessian(self) -> np.ndarray:
        self.bowl.made.append("some")
        return np.diag(self.second.ravel())

    def hessian_vector_product(self, direction: np.ndarray) -> np.ndarray:
        self.bowl.products += 1
        return self.second * direction

    def class_moments(self) -> ClassMoments:
        self.bowl.made.append("moments")
        return ClassMoments(np.ones(len(self.second)), np.zeros(self.second.shape), self.second)

    def class_blocks(self) -> np.ndarray:
        self.bowl.made.append("blocks")
        return np.stack([np.diag(row) for row in self.second])

    def thinned(self, share: float, rng: np.random.Generator) -> Place:
        self.bowl.shares.append(share)
        return Place(self.bowl, np.nan, self.first, self.bowl.error * self.second)
