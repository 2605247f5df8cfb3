"""Labelled log-probabilities in torch tensors, which stay on their device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from calibrant.sample import Sample
from calibrant.softmax.inverse_temperature import inverse_temperature_search
from calibrant.softmax.rows.memory import ArrayRows
from calibrant.softmax.rows.row_source import BlockFunction, FeatureMap, RowSums
from calibrant.softmax.rows.summed_rows import SummedRows, add_up
from calibrant.softmax.rows.torch import TorchProblem, row_blocks, to_numpy
from calibrant.softmax.together import run
from calibrant.steps import Log, Mix, Steps
from calibrant.steps.torch_modules import from_logs
from calibrant.typing import FloatArray

#: Rows copied to the processor to find a place to start from: enough for a temperature.
_SAMPLE = 2048
#: Numbers (32 MiB) copied to the processor at a time for methods that cannot sum on the device.
_BLOCK_ELEMENTS = 1 << 22


class TorchRows(SummedRows):
    """Rows in tensors.

    Parameters
    ----------
    x : Tensor of shape (n, k)
        Log-probabilities, in single or double precision.
    y : Tensor of shape (n,)
        Column numbers of the labels.
    weight : Tensor of shape (n,), default=None
        Positive weights, as counts.

    Examples
    --------
    >>> rows = TorchRows(torch.log(torch.tensor([[0.9, 0.1], [0.4, 0.6]])), torch.tensor([0, 0]))
    >>> rows.class_weights
    array([2., 0.])
    """

    def __init__(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> None:
        self.x = x
        self.y = y
        self.weight = weight
        self.n_rows, self.n_classes = x.shape
        self.total_weight = float(self.n_rows) if weight is None else float(weight.sum(dtype=torch.float64))

    @cached_property
    def class_weights(self) -> FloatArray:  # type: ignore[override]
        return to_numpy(torch.bincount(self.y, self.weight, minlength=self.n_classes))

    @property
    def always_right(self) -> bool:
        return TorchProblem(self.y, self.x).always_right()

    def mapped(self, steps: Steps) -> TorchRows:
        run = from_logs(steps, self.x)
        out = torch.empty_like(self.x)
        for rows in row_blocks(self.x):
            out[rows] = run(self.x[rows])
        return TorchRows(out, self.y, self.weight)

    def problem(self, features: FeatureMap, *, first_free: int = 0) -> TorchProblem:  # type: ignore[override]
        offset, shared, own = (_row_major(part) for part in features(self.x))
        assert offset is not None
        return TorchProblem(self.y, offset, shared=shared, own=own, weight=self.weight, first_free=first_free)

    def inverse_temperatures(self, mixtures: Sequence[float], prior: float = 0.0) -> list[tuple[float, float]]:
        starts = [alpha for alpha, _ in self.sample().inverse_temperatures(mixtures, prior)]
        found = []
        for u, start in zip(mixtures, starts):
            mixed = self.mapped([Mix(u), Log()]) if u else self
            problem = TorchProblem(mixed.y, mixed.x, weight=mixed.weight)
            search = inverse_temperature_search(start, problem.always_right, prior / self.total_weight)
            found.append(run(search, problem.scaled)[:2])
        return found

    def sums(self, function: BlockFunction) -> RowSums:
        """The sums over blocks that are copied to the processor one after the other."""
        at_once = max(1, _BLOCK_ELEMENTS // self.n_classes)
        return add_up(
            function(self._on_processor(slice(start, start + at_once))) for start in range(0, self.n_rows, at_once)
        )

    @cached_property
    def _sample(self) -> ArrayRows:  # type: ignore[override]
        if self.n_rows <= _SAMPLE:
            return ArrayRows(self._on_processor(slice(None)))
        drawn = np.sort(np.random.default_rng(0).choice(self.n_rows, _SAMPLE, replace=False))
        return ArrayRows(self._on_processor(torch.as_tensor(drawn, device=self.x.device)))

    def _on_processor(self, rows: slice | Tensor) -> Sample:
        weight = None if self.weight is None else to_numpy(self.weight[rows])
        return Sample(to_numpy(self.x[rows]), self.y[rows].cpu().numpy(), weight, logs=True)


def _row_major(part: Tensor | None) -> Tensor | None:
    """Features of class-major tensors, rows first; all classes of a row are neighbours."""
    rows = None if part is None else part.transpose(-1, -2)
    return rows if rows is None or rows.stride(-1) == 1 else rows.contiguous()
