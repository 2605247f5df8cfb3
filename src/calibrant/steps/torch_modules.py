"""A torch module for each step, numbers as buffers: what a fitted map does to tensors, on their device.

Modules follow the precision of their buffers (double at first) and can be differentiated wherever the step can.
"""

# Annotations are no texts here: TorchScript reads them.
from collections.abc import Iterable
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant import steps as s
from calibrant.simplex import FLOOR, LOG_FLOOR
from calibrant.steps.base import NotSupportedError
from calibrant.steps.branches import TIE
from calibrant.steps.decisions import decides
from calibrant.steps.lines import pieces


class _Step(nn.Module):
    """A module whose buffers are the arrays it is given."""

    def __init__(self, **arrays: Any) -> None:
        super().__init__()
        for name, value in arrays.items():
            self.register_buffer(name, torch.as_tensor(np.array(value, order="C")))


class _Exp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(x)


class _Log(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.floor: float = FLOOR
        self.log_floor: float = LOG_FLOOR

    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(torch.log(torch.clamp(x, min=self.floor)), min=self.log_floor)


class _Clip(nn.Module):
    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        self.low, self.high = low, high

    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(x, self.low, self.high)


class _Scale(_Step):
    factor: Tensor
    shift: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor + self.shift


class _Polynomial(_Step):
    coefficients: Tensor

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for coefficient in torch.flip(self.coefficients, [0]):
            out = out * x + coefficient
        return out


class _Normalize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = x.sum(1, keepdim=True)
        safe = torch.where(total > 0.0, total, torch.ones_like(total))
        return torch.where(total > 0.0, x / safe, torch.full_like(x, 1.0 / x.shape[1]))


class _Columns(_Step):
    index: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.index]


class _Column(nn.Module):
    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place

    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.place : self.place + 1]


class _LogOdds(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, 1:] - x[:, :1]


class _Lead(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        two = torch.topk(x, 2, 1)[0]
        return torch.stack([two[:, 0], two[:, 0] - two[:, 1]], 1)


class _Sigmoid(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.sigmoid(-x), torch.sigmoid(x)], 1)


class _Complement(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([1.0 - x, x], 1)


class _Linear(_Step):
    matrix: Tensor
    shift: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.matrix + self.shift


class _Curves(_Step):
    coefficients: Tensor

    def forward(self, x: Tensor) -> Tensor:
        u = self.coefficients
        q = torch.exp(x)
        rest = torch.clamp(torch.log1p(-torch.clamp(q, max=1.0 - 1e-12)), min=-20.0)
        return u[0] * (x * (x / 5.0)) + u[1] * rest + u[2] * q


class _Kernel(_Step):
    landmarks: Tensor
    spread: Tensor
    weight: Tensor
    bandwidth: Tensor

    def forward(self, x: Tensor) -> Tensor:
        z = torch.cat([(x - x.mean(1, keepdim=True)) / self.spread, self.weight * torch.exp(x)], 1)
        squares = (z * z).sum(1, keepdim=True) + (self.landmarks * self.landmarks).sum(1)
        distance = torch.clamp(squares - 2.0 * (z @ self.landmarks.T), min=0.0)
        return torch.exp(-distance / self.bandwidth)


class _Trees(_Step):
    differences: Tensor
    thresholds: Tensor
    values: Tensor
    bits: Tensor
    first: Tensor

    def forward(self, x: Tensor) -> Tensor:
        answers = (x @ self.differences > self.thresholds).reshape(-1, self.first.size(0), self.bits.size(0))
        leaf = (answers.to(self.bits.dtype) @ self.bits).to(self.first.dtype) + self.first
        steps = self.values.index_select(0, leaf.reshape(-1))
        return steps.reshape(-1, self.first.size(0), self.values.size(1)).sum(1)


class _Levels(_Step):
    intercept: Tensor
    slope: Tensor

    def forward(self, x: Tensor) -> Tensor:
        level, count = x[:, -1], self.intercept.size(0) - 1  # the last row is that of no level
        known = (level >= 0.0) & (level < count)
        place = torch.where(known, level, torch.full_like(level, count)).to(torch.int64)
        return self.slope.index_select(0, place) * x[:, :-1] + self.intercept.index_select(0, place)


class _Piecewise(_Step):
    edges: Tensor
    origins: Tensor
    coefficients: Tensor

    def forward(self, x: Tensor) -> Tensor:
        column = x.reshape(-1).contiguous()
        piece = torch.searchsorted(self.edges, column.detach())
        t = column - self.origins.index_select(0, piece)
        out = self.coefficients[-1].index_select(0, piece)
        for d in range(self.coefficients.size(0) - 2, -1, -1):
            out = out * t + self.coefficients[d].index_select(0, piece)
        return out.unsqueeze(1)


class _Parts(nn.Module):
    def __init__(self, parts: Iterable[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)


class _Sum(_Parts):
    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for number, part in enumerate(self.parts):
            out = part(x) if number == 0 else out + part(x)
        return out


class _Join(_Parts):
    def forward(self, x: Tensor) -> Tensor:
        out = []
        for part in self.parts:
            out.append(part(x))
        return torch.cat(out, 1)


class _KeepTop(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part
        self.tie: float = TIE

    def forward(self, x: Tensor) -> Tensor:
        z = self.part(x)
        top = (x >= x.amax(1, keepdim=True) - self.tie).to(torch.int64).argmax(1, keepdim=True)
        lead = x.gather(1, top) - x
        lead = torch.where(lead < self.tie, torch.zeros_like(lead), lead)
        change = (z.gather(1, top) - z) - lead
        falls = change < 0.0
        ratio = -lead / torch.where(falls, change, -torch.ones_like(change))
        share = torch.where(falls, ratio, torch.full_like(ratio, 2.0)).amin(1, keepdim=True)
        return x + torch.clamp(share * (1.0 - 1e-9), max=1.0) * (z - x)


class _OneVsRest(_Parts):
    def __init__(self, parts: Iterable[nn.Module]) -> None:
        super().__init__(parts)
        self.floor: float = FLOOR

    def forward(self, x: Tensor) -> Tensor:
        top = x.argmax(1, keepdim=True)
        largest = x.gather(1, top)
        others = x.scatter(1, top, torch.zeros_like(largest)).sum(1, keepdim=True)
        rest = torch.clamp(((others + largest) - x).scatter(1, top, others), min=self.floor)
        out = []
        for j, part in enumerate(self.parts):
            out.append(part(torch.stack([rest[:, j], x[:, j]], 1))[:, 1])
        return torch.stack(out, 1)


class _ColumnByColumn(_Parts):
    def forward(self, x: Tensor) -> Tensor:
        columns = x.t().contiguous()
        out = []
        for j, part in enumerate(self.parts):
            out.append(part(columns[j].unsqueeze(1))[:, 0])
        return torch.stack(out).t()


class _OneVsOne(_Parts):
    def __init__(self, parts: Iterable[nn.Module], width: int) -> None:
        super().__init__(parts)
        self.floor: float = FLOOR
        self.width = width
        self.pairs = [(i, j) for i in range(width) for j in range(i + 1, width)]

    def forward(self, x: Tensor) -> Tensor:
        inverse = [torch.zeros_like(x[:, 0]) for _ in range(self.width)]
        for number, part in enumerate(self.parts):
            i, j = self.pairs[number]
            two = torch.stack([x[:, i], x[:, j]], 1)
            r = 1.0 / part(torch.clamp(two / two.sum(1, keepdim=True), min=self.floor))
            inverse[i] = inverse[i] + r[:, 0]
            inverse[j] = inverse[j] + r[:, 1]
        return 1.0 / torch.clamp(torch.stack(inverse, 1) - (self.width - 2), min=1.0)


@singledispatch
def _module(step: s.Step, width: int) -> nn.Module:
    """The module of a step."""
    raise NotSupportedError(f"A step of the kind {step.kind or 'function'!r} cannot be written as a torch module.")


def sequence(steps: s.Steps, width: int) -> nn.Module:
    """The modules of a list of steps for rows of `width` columns, one after the other."""
    modules = []
    for step in steps:
        modules.append(_module(step, width))
        width = step.check(width)
    return nn.Sequential(*modules)


for _kind, _class in (
    (s.Exp, _Exp),
    (s.Log, _Log),
    (s.Normalize, _Normalize),
    (s.LogOdds, _LogOdds),
    (s.Lead, _Lead),
    (s.Sigmoid, _Sigmoid),
    (s.Complement, _Complement),
):
    _module.register(_kind, lambda step, width, made=_class: made())
_module.register(s.Sum, lambda step, width: _Sum(sequence(part, width) for part in step.parts))
_module.register(s.Join, lambda step, width: _Join(sequence(part, width) for part in step.parts))
_module.register(s.Softmax, lambda step, width: nn.Softmax(1))
_module.register(s.Clip, lambda step, width: _Clip(step.low, step.high))
_module.register(s.Mix, lambda step, width: _Scale(factor=1.0 - step.weight, shift=step.weight / width))
_module.register(s.Scale, lambda step, width: _Scale(factor=step.factor, shift=step.shift))
_module.register(s.Polynomial, lambda step, width: _Polynomial(coefficients=step.coefficients))
_module.register(s.Linear, lambda step, width: _Linear(matrix=step.matrix, shift=step.shift))
_module.register(s.Curves, lambda step, width: _Curves(coefficients=step.coefficients))
_module.register(s.KeepTop, lambda step, width: _KeepTop(sequence(step.parts[0], width)))
_module.register(s.OneVsOne, lambda step, width: _OneVsOne((sequence(part, 2) for part in step.parts), width))


@_module.register
def _(step: s.Columns, width: int) -> nn.Module:
    return _Columns(index=step.index) if len(step.index) > 1 else _Column(int(step.index[0]))


@_module.register
def _(step: s.OneVsRest, width: int) -> nn.Module:
    if all(map(_of_second, step.parts)):
        return _ColumnByColumn(sequence(part[1:-1], 1) for part in step.parts)
    return _OneVsRest(sequence(part, 2) for part in step.parts)


def _of_second(part: s.Steps) -> bool:
    """Whether steps on two columns look at the second alone and make it the second one again."""
    first, last = part[0] if part else None, part[-1] if part else None
    return isinstance(first, s.Columns) and first.index.tolist() == [1] and isinstance(last, s.Complement)


@_module.register
def _(step: s.Kernel, width: int) -> nn.Module:
    return _Kernel(landmarks=step.landmarks, spread=step.spread, weight=step.weight, bandwidth=step.bandwidth)


@_module.register
def _(step: s.Trees, width: int) -> nn.Module:
    count, depth = step.features.shape
    return _Trees(
        differences=step.differences(width),
        thresholds=step.thresholds.ravel(),
        values=step.values.reshape(-1, step.values.shape[2]),
        bits=2.0 ** np.arange(depth),
        first=np.arange(count) << depth,
    )


@_module.register
def _(step: s.Levels, width: int) -> nn.Module:
    none = np.zeros((1, width - 1))
    return _Levels(intercept=np.vstack([step.intercept, none]), slope=np.vstack([step.slope, none]))


@_module.register(s.StepFunction)
@_module.register(s.Line)
@_module.register(s.Spline)
def _(step: Any, width: int) -> nn.Module:
    edges, origins, coefficients = pieces(step)
    return _Piecewise(edges=edges, origins=origins, coefficients=np.ascontiguousarray(coefficients.T))


def from_logs(steps: s.Steps, like: Tensor) -> nn.Module:
    """A module of `steps` for log-probabilities (n, k) on the device and in the precision of `like`."""
    logs = bool(steps) and steps[0].kind == "log"
    return sequence(steps[1:] if logs else [s.Exp(), *steps], like.shape[1]).to(like.device, like.dtype)


def predict_from_logs(steps: s.Steps, x: Tensor) -> Tensor:
    """The probabilities that a fitted map makes of log-probabilities `x` (n, k), in the precision of `x`.

    A map that decides on which side of a number a value lies is run in double precision, where the device has it. A
    step that is a function of arrays is run on the processor.
    """
    exact = x if x.device.type == "mps" or not decides(steps) else x.to(torch.float64)
    try:
        out: Tensor = from_logs(steps, exact)(exact)
        return out.to(x.dtype)
    except NotSupportedError:
        rows = x.detach().to("cpu", torch.float64).numpy().copy()
        return torch.as_tensor(s.run_from_logs(steps, rows)).to(x.device, x.dtype)
