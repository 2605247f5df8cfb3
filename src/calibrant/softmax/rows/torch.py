"""Rows on a device: the softmax problem on torch tensors, which stay where they are.

Matrices are row-major, (n, k), as torch's softmax wants them. Tensors of double precision are computed in double
precision, all narrower ones in single precision; either way the loss and the sums over blocks of rows are added up in
double precision, where the device has it. Coefficients are NumPy arrays: solvers never see a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from calibrant.inputs.tensors import widest_dtype
from calibrant.sample import Sample
from calibrant.softmax.inverse_temperature import inverse_temperature_search
from calibrant.softmax.problem import ClassMoments, Point, SoftmaxProblem
from calibrant.softmax.rows.row_source import ArrayRows, BlockFunction, FeatureMap, RowSums
from calibrant.softmax.rows.summed_rows import SummedRows, add_up
from calibrant.softmax.solvers.searches import run
from calibrant.steps import Log, Mix, Steps
from calibrant.steps.torch_modules import from_logs
from calibrant.typing import FloatArray

#: Numbers of a block that are summed in the precision of the matrix; the sums of blocks are added in double precision.
#: Blocks on the processor (the first number) stay in its cache; a device needs larger ones to be busy.
_BLOCK_ELEMENTS, _DEVICE_ELEMENTS = 1 << 17, 1 << 22
#: Least rows of a block, since each block adds a matrix of the size of the coefficients.
_BLOCK_ROWS = 512
#: Numbers handled at a time when the dense Hessian is accumulated (2 MiB), for the cache.
_HESSIAN_ELEMENTS = 1 << 18


def row_blocks(x: Tensor) -> Iterator[slice]:
    """Blocks of the rows of a matrix, as large as its device handles best."""
    elements = _BLOCK_ELEMENTS if x.device.type == "cpu" else _DEVICE_ELEMENTS
    n, k = x.shape
    rows = max(_BLOCK_ROWS, elements // max(k, 1))
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))


def to_numpy(x: Tensor) -> FloatArray:
    """A tensor of the size of the coefficients, as the solvers want it."""
    return np.asarray(x.detach().cpu().numpy(), dtype=np.float64)


class TorchProblem(SoftmaxProblem):
    """`calibrant.softmax.rows.arrays.ArrayProblem` on tensors, whose first axis is that of the rows.

    The precision of the offset (n, k) is that of the matrices; shared features are (n, d), own ones (m, n, k).
    """

    def __init__(
        self,
        y: Tensor,
        offset: Tensor,
        *,
        shared: Tensor | None = None,
        own: Tensor | None = None,
        weight: Tensor | None = None,
        first_free: int = 0,
    ) -> None:
        n, k = offset.shape
        self.n_rows, self.n_classes = n, k
        self.y = y.to(torch.int64)
        self.offset = offset
        self.shared = offset.new_empty((n, 0)) if shared is None else shared
        self.own = offset.new_empty((0, n, k)) if own is None else own
        self.first_free = first_free
        self.n_shared, self.n_own = self.shared.shape[1], len(self.own)
        self.shape = (k - first_free, self.n_shared + self.n_own)
        self.wide = widest_dtype(offset.device)
        self.precision = float(torch.finfo(offset.dtype).eps)
        #: What every row weighs, if they all weigh the same: sums are multiplied by it, not rows.
        self.even_weight = 1.0 / n if weight is None else None
        counts = torch.ones(n, dtype=self.wide, device=offset.device) if weight is None else weight.to(self.wide)
        self.total_weight = float(counts.sum())
        self.share = counts / self.total_weight
        self.row_weight = self.share.to(offset.dtype)

    def blocks(self) -> Iterator[slice]:
        """Blocks of rows whose sums are exact enough in the precision of the matrices."""
        return row_blocks(self.offset)

    def to_device(self, theta: FloatArray) -> Tensor:
        """Coefficients in the precision and on the device of the matrices."""
        return torch.as_tensor(theta).to(self.offset.device, self.offset.dtype)

    @cached_property
    def second_moments(self) -> FloatArray:
        out = np.empty(self.shape)
        out[:, : self.n_shared] = to_numpy(self.row_weight @ self.shared**2)
        for m in range(self.n_own):
            out[:, self.n_shared + m] = to_numpy(self.row_weight @ self.own[m, :, self.first_free :] ** 2)
        return out

    @cached_property
    def target(self) -> FloatArray:
        sums = torch.zeros((self.n_classes, self.shape[1]), dtype=self.wide, device=self.offset.device)
        for rows in self.blocks():
            y, share = self.y[rows], self.share[rows]
            weighted = self.shared[rows].to(self.wide) * share[:, None]
            sums[:, : self.n_shared].index_add_(0, y, weighted)
            for m in range(self.n_own):
                own = self.own[m, rows].gather(1, y[:, None])[:, 0].to(self.wide)
                sums[:, self.n_shared + m].index_add_(0, y, own * share)
        return to_numpy(sums[self.first_free :])

    def logits(self, values: Tensor, rows: slice) -> Tensor:
        """The logits (rows × classes) at coefficients on the device."""
        if not (self.n_own or self.first_free):
            return torch.addmm(self.offset[rows], self.shared[rows], values.T)
        return self.linear(values, rows).add_(self.offset[rows])

    def linear(self, values: Tensor, rows: slice) -> Tensor:
        """The change of the logits (rows × classes) that coefficients on the device make."""
        shared, own = values[:, : self.n_shared], values[:, self.n_shared :]
        free = self.shared[rows] @ shared.T if self.n_shared else torch.zeros_like(self.offset[rows, self.first_free :])
        for m in range(self.n_own):
            free.addcmul_(self.own[m, rows, self.first_free :], own[:, m])
        if not self.first_free:
            return free
        return torch.cat([free.new_zeros((len(free), self.first_free)), free], 1)

    def adjoint(self, residual: Tensor, rows: slice, *, overwrite: bool = False) -> Tensor:
        """Sums over some rows of their weights times residuals (rows × classes) times features."""
        if self.even_weight is None:
            weight = self.row_weight[rows, None]
            residual = residual.mul_(weight) if overwrite else residual * weight
        residual = residual[:, self.first_free :]
        parts = [(self.shared[rows].T @ residual).T] if self.n_shared else []
        for m in range(self.n_own):
            parts.append((residual * self.own[m, rows, self.first_free :]).sum(0)[:, None])
        sums = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return sums if self.even_weight is None else sums.mul_(self.even_weight)

    def largest_change(self, theta: FloatArray) -> float:
        values = self.to_device(theta)
        return max(float(self.linear(values, rows).abs().max()) for rows in self.blocks())

    def at(self, theta: FloatArray, *, reuse: Point | None = None) -> TorchPoint:
        p = reuse.p if isinstance(reuse, TorchPoint) and reuse.p.shape == self.offset.shape else None
        p = torch.empty_like(self.offset) if p is None else p
        moves, values = bool(theta.any()), self.to_device(theta)
        loss = torch.zeros((), dtype=self.wide, device=self.offset.device)
        for rows in self.blocks():
            z = self.logits(values, rows) if moves else self.offset[rows]
            torch.softmax(z, 1, out=p[rows])
            loss += self.share[rows] @ _losses(z, p[rows], self.y[rows, None]).to(self.wide)
        return TorchPoint(self, p, float(loss))

    def scaled(self, alpha: float) -> tuple[float, float, float]:
        sums = torch.zeros(3, dtype=self.wide, device=self.offset.device)
        for rows in self.blocks():
            x, y, share = self.offset[rows], self.y[rows, None], self.share[rows]
            z = alpha * x
            p = torch.softmax(z, 1)
            loss, label = _losses(z, p, y).to(self.wide), x.gather(1, y)[:, 0].to(self.wide)
            mean = torch.linalg.vecdot(p, x).to(self.wide)
            # Where one probability is near one, its logarithm, the mean, is near zero: little cancels.
            second = torch.linalg.vecdot(p.mul_(x), x).to(self.wide) - mean**2
            sums += torch.stack([share @ loss, share @ (mean - label), share @ second])
        loss, slope, bend = sums.tolist()
        return loss, slope, bend

    def always_right(self) -> bool:
        return bool((self.offset.gather(1, self.y[:, None])[:, 0] >= self.offset.amax(1)).all())

    def single_precision(self) -> TorchProblem | None:
        if self.offset.dtype != torch.float64:
            return None
        narrow = copy(self)
        narrow.target = self.target  # sums of the exact features
        narrow.precision = float(torch.finfo(torch.float32).eps)
        for name in ("offset", "shared", "own", "row_weight"):
            setattr(narrow, name, getattr(self, name).to(torch.float32))
        return narrow


def _losses(z: Tensor, p: Tensor, y: Tensor) -> Tensor:
    """Log losses of rows with logits `z`, probabilities `p` and labels `y` (n, 1); no exponential is taken again."""
    chosen = p.gather(1, y)[:, 0]
    if bool((chosen < torch.finfo(p.dtype).tiny).any()):  # a label that was ruled out; the largest is never tiny
        return z.amax(1) - z.gather(1, y)[:, 0] - p.amax(1).log_()
    return chosen.log_().neg_()


class TorchPoint(Point):
    """Mean log loss at certain coefficients, with the probabilities `p` (n, k) of all rows."""

    def __init__(self, problem: TorchProblem, p: Tensor, loss: float) -> None:
        self.problem = problem
        self.p = p
        self.loss = loss

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=self.problem.wide, device=self.p.device)

    def gradient(self) -> FloatArray:
        problem = self.problem
        sums = self._zeros(*problem.shape)
        for rows in problem.blocks():
            sums += problem.adjoint(self.p[rows], rows)
        return to_numpy(sums) - problem.target

    def hessian_vector_product(self, direction: FloatArray) -> FloatArray:
        problem = self.problem
        sums, values = self._zeros(*problem.shape), problem.to_device(direction)
        for rows in problem.blocks():
            p, d = self.p[rows], problem.linear(values, rows)
            d.sub_(torch.linalg.vecdot(p, d)[:, None]).mul_(p)
            sums += problem.adjoint(d, rows, overwrite=True)
        return to_numpy(sums)

    def _class_features(self, rows: slice) -> Tensor:
        """All features that each class with coefficients sees, (rows, r, q)."""
        problem = self.problem
        shared = problem.shared[rows, None].expand(-1, problem.shape[0], -1)
        return torch.cat([shared, problem.own[:, rows, problem.first_free :].permute(1, 2, 0)], 2)

    def _small_blocks(self) -> Iterator[slice]:
        at_once = max(_HESSIAN_ELEMENTS // max(self.problem.n_parameters, 1), 64)
        return (slice(start, start + at_once) for start in range(0, self.problem.n_rows, at_once))

    def hessian(self) -> FloatArray:
        problem = self.problem
        r, q = problem.shape
        out, blocks = self._zeros(r * q, r * q), self._zeros(r, q, q)
        for rows in self._small_blocks():
            f, p = self._class_features(rows), self.p[rows, problem.first_free :]
            a = f * (p * problem.row_weight[rows, None])[:, :, None]
            blocks += torch.einsum("njq,njs->jqs", a, f)
            out -= a.reshape(len(a), -1).T @ (f * p[:, :, None]).reshape(len(a), -1)
        for j in range(r):
            here = slice(j * q, (j + 1) * q)
            out[here, here] += blocks[j]
        return to_numpy(out)

    def class_blocks(self) -> FloatArray:
        problem = self.problem
        blocks = self._zeros(problem.shape[0], problem.shape[1], problem.shape[1])
        for rows in self._small_blocks():
            f, p = self._class_features(rows), self.p[rows, problem.first_free :]
            curvature = p * (1.0 - p) * problem.row_weight[rows, None]
            blocks += torch.einsum("njq,njs->jqs", f * curvature[:, :, None], f)
        return to_numpy(blocks)

    def class_moments(self) -> ClassMoments:
        problem, first = self.problem, self.problem.first_free
        scale = self._zeros(problem.shape[0])
        sums, squares = self._zeros(*problem.shape), self._zeros(*problem.shape)
        d = problem.n_shared
        for rows in problem.blocks():
            p, shared = self.p[rows, first:], problem.shared[rows]
            spread = p * (1.0 - p) * problem.row_weight[rows, None]
            scale += spread.sum(0)
            sums[:, :d] += spread.T @ shared
            squares[:, :d] += spread.T @ shared**2
            for m in range(problem.n_own):
                own = problem.own[m, rows, first:]
                sums[:, d + m] += (spread * own).sum(0)
                squares[:, d + m] += (spread * own**2).sum(0)
        return ClassMoments(to_numpy(scale), to_numpy(sums), to_numpy(squares))

    def dual_value(self, scale: float) -> float:
        problem = self.problem
        value = self._zeros()
        for rows in problem.blocks():
            y, x = problem.y[rows, None], problem.offset[rows].to(problem.wide)
            residual = self.p[rows].to(problem.wide, copy=True)
            residual.scatter_add_(1, y, torch.full_like(residual[:, :1], -1.0)).mul_(scale)
            q = residual.clone().scatter_add_(1, y, torch.ones_like(residual[:, :1]))
            value += problem.share[rows] @ (torch.special.entr(q.clamp_(min=0.0)) + residual * x).sum(1)
        return float(value)

    def thinned(self, share: float, rng: np.random.Generator) -> TorchPoint:
        problem = self.problem
        n = problem.n_rows
        drawn = np.sort(rng.choice(n, max(1, round(share * n)), replace=False))
        rows = torch.as_tensor(drawn, device=self.p.device)
        weight = None if problem.even_weight is not None else problem.share[rows]
        p = self.p.index_select(0, rows)  # several times faster on the processor than an index in brackets
        some = TorchProblem(
            problem.y[rows],
            p,  # the offset, which curvature does not need: it only says how large blocks are
            shared=problem.shared.index_select(0, rows),
            own=problem.own.index_select(1, rows),
            weight=weight,
            first_free=problem.first_free,
        )
        return TorchPoint(some, p, np.nan)


#: Rows copied to the processor to find a place to start from: enough for a temperature.
_SAMPLE = 2048
#: Numbers (32 MiB) copied to the processor at a time for methods that cannot sum on the device.
_COPIED_ELEMENTS = 1 << 22


class TorchRows(SummedRows):
    """Rows in tensors: log-probabilities `x` (n, k), column numbers `y` of the labels, and positive counts."""

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
        at_once = max(1, _COPIED_ELEMENTS // self.n_classes)
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
