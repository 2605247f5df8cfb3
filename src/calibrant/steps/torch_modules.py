"""What a fitted map does to tensors, on their device: the formulas of the steps in torch, and modules of them.

Results follow the precision of the tensors and can be differentiated wherever the step can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant import steps as s
from calibrant.steps.formulas import FORMULAS, Operations
from calibrant.steps.step import NotSupportedError, decides
from calibrant.typing import FloatArray

#: Rows that are handled at a time where a map has trees, the numbers of each that these add at a time, and in how many
#: parts trees are added at most.
TREE_ROWS, _TREE_NUMBERS, _MOST_PARTS = 1024, 128, 64


class TorchOperations(Operations):
    """Rows are tensors (n, columns); `constant` makes a tensor of an array."""

    target = "a torch module"

    def __init__(self, constant: Callable[[Any], Any]) -> None:
        self.constant = constant

    def numbers(self, values: FloatArray | float) -> Any:
        return float(values) if np.ndim(values) == 0 else self.constant(values)

    def each(self, function: str, x: object, *numbers: float) -> Any:
        if function in ("max", "min"):
            return torch.clamp(x, **{"min" if function == "max" else "max": float(numbers[0])})
        return getattr(torch, function)(x)

    def where(self, condition: object, yes: object, no: object) -> Any:
        return torch.where(condition, yes, no)

    def reduced(self, function: str, x: Any) -> Any:
        return getattr(x, {"total": "sum", "largest": "amax", "least": "amin"}[function])(1, keepdim=True)

    def is_top(self, x: Any, width: int) -> Any:
        return x.argmax(1, keepdim=True) == self.constant(np.arange(width))

    def first(self, condition: Any, *rows: Any) -> list[Any]:
        place = condition.to(torch.int64).argmax(1, keepdim=True)
        return [row.gather(1, place) for row in rows]

    def columns(self, x: Any, index: Iterable[int]) -> Any:
        places = np.array([int(j) for j in index])
        if np.array_equal(places, places[0] + np.arange(len(places))):
            return x.narrow(1, int(places[0]), len(places))
        return x.index_select(1, self.constant(places))

    def join(self, rows: Sequence[object], *, single: bool = False) -> Any:
        return torch.cat(list(rows), 1)

    def product(self, x: Any, matrix: FloatArray) -> Any:
        return x @ self.constant(matrix)

    def lookup(self, tables: Sequence[FloatArray], place: Any) -> list[Any]:
        whole = place.reshape(-1).to(torch.int64)
        return [self.constant(table).index_select(0, whole) for table in tables]

    def piecewise(self, x: Any, edges: FloatArray, origins: FloatArray, coefficients: FloatArray) -> Any:
        column = x.reshape(-1).contiguous()
        piece = torch.searchsorted(self.constant(edges), column.detach())
        t = column - self.constant(origins).index_select(0, piece)
        *others, out = (self.constant(values).index_select(0, piece) for values in coefficients.T)
        for part in reversed(others):
            out = out * t + part
        return out.unsqueeze(1)

    def step_softmax(self, step: s.Softmax, x: object, width: int) -> Any:
        return torch.softmax(x, 1)

    def step_sigmoid(self, step: s.Sigmoid, x: Any, width: int) -> Any:
        return torch.cat([torch.sigmoid(-x), torch.sigmoid(x)], 1)

    def step_trees(self, step: s.Trees, x: Any, width: int) -> Any:
        (count, depth), asked = step.features.shape, step.pairs[2]
        # Rows are columns here, so that the same pair of every row is read at once.
        compared = (x @ self.constant(step.differences(width))).t().contiguous()
        leaf: Any = 0
        for level in range(depth):
            answers = compared.index_select(0, self.constant(asked[:, level])) > self.constant(
                step.thresholds[:, level, None]
            )
            leaf = answers.to(torch.int32) * (1 << level) + leaf
        # Some trees at a time: what is added should fit the processor's cache, and the number of operations stay small.
        some, total = max(1, _TREE_NUMBERS // step.width, count // _MOST_PARTS), None
        values, first_leaf = self.constant(step.values.reshape(-1, step.width)), np.arange(count) << depth
        for start in range(0, count, some):
            firsts = first_leaf[start : start + some, None]
            place = leaf.narrow(0, start, len(firsts)).to(torch.int64) + self.constant(firsts)
            steps = values.index_select(0, place.reshape(-1)).reshape(len(firsts), -1, step.width).sum(0)
            total = steps if total is None else total + steps
        return total

    def step_one_vs_rest(self, step: s.OneVsRest, x: Any, width: int) -> Any:
        if not all(map(_of_second, step.parts)):
            return FORMULAS["one-vs-rest"](self, step, x, width)
        columns = x.t().contiguous()
        out = [self.run(part[1:-1], columns[j].unsqueeze(1), 1).squeeze(1) for j, part in enumerate(step.parts)]
        return torch.stack(out).t()


def _of_second(part: s.Steps) -> bool:
    """Whether steps on two columns look at the second alone and make it the second one again."""
    first, last = part[0] if part else None, part[-1] if part else None
    return isinstance(first, s.Columns) and first.index.tolist() == [1] and isinstance(last, s.Complement)


def sequence(steps: s.Steps, width: int) -> nn.Module:
    """A module of a list of steps for rows of `width` columns, in double precision at first; arrays are buffers."""
    graph, root = torch.fx.Graph(), nn.Module()
    tracer = torch.fx.proxy.GraphAppendingTracer(graph)
    known: dict[tuple[str, tuple[int, ...], bytes], object] = {}

    def buffer(values: object) -> Any:
        array = np.array(values, order="C")
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in known:
            name = f"c{len(known)}"
            root.register_buffer(name, torch.as_tensor(array))
            known[key] = torch.fx.Proxy(graph.get_attr(name), tracer)
        return known[key]

    x = torch.fx.Proxy(graph.placeholder("x", type_expr=Tensor), tracer)
    graph.output(TorchOperations(buffer).run(steps, x, width).node)
    return torch.fx.GraphModule(root, graph)


def from_logs(steps: s.Steps, like: Tensor) -> Callable[[Tensor], Tensor]:
    """A function of log-probabilities (n, k) on the device and in the precision of `like`."""
    logs = bool(steps) and steps[0].kind == "log"

    def constant(values: object) -> Tensor:
        tensor = torch.as_tensor(np.array(values, order="C"), device=like.device)
        return tensor.to(like.dtype) if tensor.is_floating_point() else tensor

    operations, given = TorchOperations(constant), steps[1:] if logs else [s.Exp(), *steps]
    return lambda x: operations.run(given, x, like.shape[1])


def predict_from_logs(steps: s.Steps, x: Tensor) -> Tensor:
    """The probabilities that a fitted map makes of log-probabilities `x` (n, k), in the precision of `x`.

    A map that compares values with thresholds is run in double precision, where the device has it. A step that is a
    function of arrays is run on the processor.
    """
    exact = x if x.device.type == "mps" or not decides(steps) else x.to(torch.float64)
    try:
        return from_logs(steps, exact)(exact).to(x.dtype)
    except NotSupportedError:
        rows = x.detach().to("cpu", torch.float64).numpy().copy()
        return torch.as_tensor(s.run_from_logs(steps, rows)).to(x.device, x.dtype)
