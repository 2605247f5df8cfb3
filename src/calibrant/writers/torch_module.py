"""A torch module of a fitted map: one submodule per step, numbers as buffers, so that it moves with its network.

It follows the precision of its buffers (double at first), runs on any device, under `torch.export` and
`torch.jit.script`, and can be differentiated wherever the map can.
"""

# Annotations are no texts here: TorchScript reads them.
import io
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.inputs.rows import ROUNDING
from calibrant.inputs.segments import LARGEST, MISSING
from calibrant.runtime import Map
from calibrant.simplex import FLOOR
from calibrant.steps import Trees
from calibrant.steps.actions import TIE, CostTable
from calibrant.steps.step import all_steps, decides
from calibrant.steps.torch_modules import TREE_ROWS, sequence
from calibrant.typing import FloatArray
from calibrant.writers.common import Segments, arrays_beside, check_precision, facts, names_of_all

#: Numbers handled at a time on the processor, so that they stay in its cache.
_BLOCK = 1 << 17


class CalibrationModule(nn.Module):
    """Calibrated probabilities (n, k) of probabilities or logits (n, k), NaN for rows that are not predictions.

    For two classes a single column, that of the second class, is enough.
    A map that takes segments has a second argument (n, c), in double precision: the place of a row's level among those
    in `facts`, -1 for another one, or the number itself, NaN for a missing one.
    """

    def __init__(self, fitted: Map, notes: Iterable[str] = ()) -> None:
        super().__init__()
        self.classes = [str(label) for label in fitted.classes]
        self.names = names_of_all(fitted)
        self.facts = facts(fitted, notes)
        self.logits = fitted.logits
        self.scaling = sequence([] if fitted.scaling is None else [fitted.scaling], fitted.k)
        self.renormalize = fitted.renormalize
        self.single: bool = False
        self.ordered: bool = decides(fitted.steps)
        self.floor: float = FLOOR
        self.rounding: float = ROUNDING
        self.k: int = fitted.k
        self.reorder: bool = fitted.columns is not None
        order = np.arange(fitted.k) if fitted.columns is None else fitted.columns
        self.register_buffer("columns", torch.as_tensor(np.array(order, dtype=np.int64)))
        self.n_segments: int = len(fitted.segments)
        self.largest: float = LARGEST
        self.missing: float = MISSING
        self.rows: int = max(1, _BLOCK // fitted.k)
        if any(isinstance(step, Trees) for step in all_steps(fitted.steps)):
            self.rows = TREE_ROWS
        self.steps = sequence(fitted.steps, fitted.k + self.n_segments)
        self.register_buffer("precision", torch.zeros((), dtype=torch.float64))

    columns: Tensor
    precision: Tensor

    def forward(self, x: Tensor, segments: Tensor | None = None) -> Tensor:
        """Calibrated probabilities, in the precision of the module."""
        if torch.jit.is_scripting():
            return self._calibrate(x, segments)
        return self._in_blocks(x, segments)

    @torch.jit.unused
    def _in_blocks(self, x: Tensor, segments: Tensor | None) -> Tensor:
        """Many rows in parts that fit the processor's cache: larger ones would wait for memory."""
        if torch.compiler.is_compiling() or x.device.type != "cpu" or x.size(0) <= self.rows:
            return self._calibrate(x, segments)
        if segments is None:
            return torch.cat([self._calibrate(rows, None) for rows in x.split(self.rows)])
        parts = zip(x.split(self.rows), segments.split(self.rows), strict=True)
        return torch.cat([self._calibrate(rows, beside) for rows, beside in parts])

    def _calibrate(self, x: Tensor, segments: Tensor | None) -> Tensor:
        x = x.to(self.precision.dtype)
        reorder = self.reorder
        if x.size(1) == 1 and self.k == 2:
            x, reorder = self._both(x), False
        if x.size(1) != self.k:
            raise ValueError(f"The predictions have {x.size(1)} columns, this map needs one per class.")
        if self.logits:
            x = torch.softmax(self.scaling(x), 1)
            valid = x.sum(1, keepdim=True) > 0.0  # NaN and infinity spread over the row
        else:
            valid = x.amin(1, keepdim=True) >= 0.0
            if self.renormalize:
                top = x.amax(1, keepdim=True)
                x = x / torch.where(top > 2.0, top, torch.ones_like(top))
            # Between two points that lie close together a map may be so steep that the sum's last bit matters.
            total = torch.cumsum(x, 1)[:, -1:] if self.ordered else x.sum(1, keepdim=True)
            valid = valid & (total > 0.0 if self.renormalize else torch.abs(total - 1.0) <= self.rounding)
            x = x / total
        x = torch.clamp(x, min=self.floor)
        x = x[:, self.columns] if reorder else x
        if self.n_segments > 0:
            if segments is None:
                raise ValueError("This map also needs segments: pass their numbers as the second argument.")
            within = torch.clamp(segments, -self.largest, self.largest)
            beside = torch.where(torch.isfinite(segments), within, torch.full_like(segments, self.missing))
            x = torch.cat([x, beside.to(x.dtype)], 1)
        out = self.steps(x)
        out = torch.where(valid, out, torch.full((), float("nan"), dtype=out.dtype, device=out.device))
        return out.to(torch.float32) if self.single else out

    def _both(self, second: Tensor) -> Tensor:
        """The columns of two classes, from that of the second."""
        if self.logits:
            return torch.cat([torch.zeros_like(second), second], 1)
        known = torch.where(second <= 1.0 + self.rounding, second, torch.full_like(second, float("nan")))
        return torch.cat([1.0 - torch.clamp(known, max=1.0), torch.clamp(known, max=1.0)], 1)


class DecisionModule(nn.Module):
    """Calibrated probabilities (n, k), and the number of the cheapest action (n,), -1 for what is not a prediction.

    It takes what `calibration` takes, and the amounts (n, m) that the costs name, if there are any.
    """

    def __init__(self, calibration: CalibrationModule, rule: CostTable) -> None:
        super().__init__()
        self.calibration, self.facts, self.single = calibration, calibration.facts, calibration.single
        self.k, self.n_segments, self.n_amounts = calibration.k, calibration.n_segments, len(rule.amounts)
        self.tie: float = TIE
        places = np.array([rule.numbers, *rule.amounts.values()]).transpose(0, 2, 1)
        self.register_buffer("costs", torch.as_tensor(np.ascontiguousarray(places)))

    costs: Tensor

    def forward(
        self, x: Tensor, segments: Tensor | None = None, amounts: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Probabilities and numbers of actions."""
        p = self.calibration(x, segments)
        q = p.to(self.costs.dtype)
        expected, valid = q @ self.costs[0], ~torch.isnan(q[:, 0])
        if self.n_amounts > 0:
            if amounts is None:
                raise ValueError("The costs depend on amounts: pass those of each row.")
            valid = valid & ((amounts >= 0.0) & torch.isfinite(amounts)).all(1)
            for number in range(self.n_amounts):
                expected = expected + amounts[:, number : number + 1].to(q.dtype) * (q @ self.costs[number + 1])
        cheap = expected <= expected.amin(1, keepdim=True) * (1.0 + self.tie)
        action = cheap.to(torch.int64).argmax(1)
        return p, torch.where(valid, action, torch.full_like(action, -1))


class CalibratedNetwork(nn.Module):
    """A network and its calibrator as one module: what the network takes goes in, calibrated probabilities come out.

    Parameters
    ----------
    network : torch.nn.Module
        Gives one column per class, or a single one for two classes.
    calibrator : fitted calibrator or Map
        Fitted to the network's probabilities or logits of held-out rows.
    output : {"logits", "probabilities"}, default="logits"
        What the network gives; a calibrator of scores takes what it gives as such.

    Examples
    --------
    >>> import calibrant
    >>> ts = calibrant.get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], [0, 0, 1, 1])
    >>> network = CalibratedNetwork(nn.Linear(4, 2), ts)
    >>> network(torch.zeros(5, 4)).shape
    torch.Size([5, 2])
    """

    def __init__(self, network: nn.Module, calibrator: Any, output: str = "logits") -> None:
        super().__init__()
        if output not in ("logits", "probabilities"):
            raise ValueError(f'output={output!r} is neither "logits" nor "probabilities".')
        fitted = calibrator if isinstance(calibrator, Map) else calibrator.to_map()
        if fitted.segments:
            raise ValueError("This calibrator takes segments, which a network does not provide: use its calibrator_.")
        self.network = network
        self.calibration = CalibrationModule(fitted)
        # Softmax of logits and rescaled probabilities are the same to the steps.
        self.calibration.logits = output == "logits" or fitted.scaling is not None

    def forward(self, x: Tensor) -> Tensor:
        """Calibrated probabilities (n, k), in the precision of what the network gives."""
        given = self.network(x)
        return self.calibration(given if given.dim() == 2 else given.unsqueeze(1)).to(given.dtype)


def write(
    fitted: Map, notes: Iterable[str] = (), *, dtype: object = np.float64, inside: object = None
) -> CalibrationModule | DecisionModule:
    """The module of a map, with decisions if it has a rule.

    In single precision what goes in and comes out is single; a map that compares values with thresholds
    stays double inside, where a rounded value might get the other answer.
    """
    outside, precision = check_precision(fitted.steps, dtype, inside)
    module = CalibrationModule(fitted, notes).eval()
    module.single = outside == np.float32
    module = module.float() if precision == np.float32 else module
    return module if fitted.rule is None else DecisionModule(module, fitted.rule).eval()


def to_bytes(written: CalibrationModule | DecisionModule) -> bytes:
    """A file for `torch.export.load`, which needs no calibrant; for any number of rows.

    Its extra file ``calibrant.json`` holds classes, method, version and parity.
    """
    buffer = io.BytesIO()
    precision = torch.float32 if written.single else torch.float64
    rows = torch.full((3, written.k), 1.0 / written.k, dtype=precision)
    batch = torch.export.Dim("batch", min=1)
    given, named = {"x": rows}, {}
    if written.n_segments:
        given["segments"] = torch.zeros((3, written.n_segments), dtype=torch.float64)
    if isinstance(written, DecisionModule) and written.n_amounts:
        named["amounts"] = torch.zeros((3, written.n_amounts), dtype=torch.float64)
    shapes = {name: {0: batch} for name in (*given, *named)}
    program = torch.export.export(written, tuple(given.values()), named, dynamic_shapes=shapes)
    torch.export.save(program, buffer, extra_files={"calibrant.json": json.dumps(written.facts)})
    return buffer.getvalue()


def run(
    written: CalibrationModule | DecisionModule,
    fitted: Map,
    rows: FloatArray,
    segments: Segments | None = None,
    amounts: Segments | None = None,
    **options: object,
) -> FloatArray:
    """Predictions of the module, and the numbers of its actions."""
    beside = arrays_beside(fitted, len(rows), segments, amounts)
    with torch.no_grad():
        found = written(torch.as_tensor(rows), **{name: torch.as_tensor(values) for name, values in beside.items()})
    parts = [found] if fitted.rule is None else found
    return np.column_stack([np.asarray(part.numpy(), dtype=np.float64) for part in parts])
