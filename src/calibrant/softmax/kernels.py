"""Fused row kernels of the softmax problem, compiled by numba and cached on disk.

All matrices are class-major, shape (k, n): the loops over rows are then contiguous and vectorise, which a loop over a
handful of classes does not. Rows are processed in chunks that stay in the first-level cache, so that the maximum, the
exponentials, the sum and the result cost one pass through memory.

Compiling is what the first fit of an environment waits for, so kernels are kept cheap to compile: arrays are made by
the Python functions that call them, and the exponential and the logarithm are emitted as instructions, not as code that
numba would have to type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from calibrant.compiling import compiled
from calibrant.typing import AnyArray, FloatArray, IntArray

#: Rows handled at a time. Indices are unsigned: of signed ones numba has to ask whether they count from the end, which
#: hinders vectors; slices, which would help as well, take twice as long to compile.
_CHUNK = np.uint64(256)
_ZERO = np.uint64(0)
_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has trailing zeros, so that n * ln 2 is exact for the exponents that occur.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
#: Added to a number of moderate size, it rounds it to an integer that then stands in the low bits.
_ROUNDING = 1.5 * 2.0**52
# Polynomials, highest power first, are those that agree with the function at the Chebyshev nodes of its range: fewer
# terms than Taylor's for the same accuracy, here 2e-17. exp(r) for |r| <= ln 2 / 2:
_EXP = [2.5110049204818658e-08, 2.763265472252779e-07, 2.755724088722987e-06, 2.4801485441561313e-05,
        1.9841269890076403e-04, 1.3888888952352863e-03, 8.333333333319589e-03, 4.166666666648795e-02,
        1.666666666666668e-01, 0.5000000000000019, 1.0, 1.0]  # fmt: skip
# The same for float32, with the polynomial of the Cephes library, which is the best of its degree.
_LN2_SINGLE = (0.693359375, -2.12194440e-4)
_EXP_SINGLE = [1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5, 1.0, 1.0]
# 2 artanh(u) / u in u², for u = (m - 1) / (m + 1) and m from sqrt(1/2) to sqrt(2).
_LOG = [0.14809857144897, 0.153125141119238, 0.18183632204378253, 0.22222197047088985, 0.2857142876073187,
        0.3999999999930194, 0.6666666666666765, 2.0]  # fmt: skip
#: The bits of sqrt(1/2), cut off, and of one.
_ROOT, _ONE = 0x3FE6A09E << 32, 1023 << 52
_FAST = ("contract", "reassoc", "nsz", "arcp")
_EXACT = ("contract",)


def jit(**options: object) -> Callable[[Callable[..., Any]], Any]:
    """Compile loops over arrays that are given: none is made, so that none has to be counted, nor called from C."""
    fixed = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True, "_nrt": False}
    return compiled(**{**fixed, "fastmath": set(_FAST), **options})


def _polynomial(builder: Any, x: Any, coefficients: list[float]) -> Any:
    """Estrin's scheme, highest power first: neighbours are joined at once, where Horner's waits for every product."""
    terms, power = [ir.Constant(x.type, c) for c in reversed(coefficients)], x
    while True:
        pairs = zip(terms[::2], terms[1::2])
        joined = [builder.fadd(builder.fmul(high, power, flags=_FAST), low, flags=_FAST) for low, high in pairs]
        terms = joined + terms[2 * len(joined) :]
        if len(terms) == 1:
            return terms[0]
        power = builder.fmul(power, power, flags=_FAST)


@intrinsic
def larger(typingctx, x, y):  # type: ignore[no-untyped-def]
    """The larger of two floats of one type. Python's `max` becomes stores by masks, slow on some processors."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        number = args[0].type
        kind = ir.FunctionType(number, [number, number])
        return builder.call(builder.module.declare_intrinsic("llvm.maxnum", [number], kind), args)

    return x(x, x), codegen


@intrinsic
def log(typingctx, x):  # type: ignore[no-untyped-def]
    """log(x) for normal x > 0 to within two units in the last place, in a form the compiler can vectorise.

    With ``x = 2ⁿ m``, ``m`` in [√½, √2), it is ``n ln 2 + 2 artanh((m − 1) / (m + 1))``.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        double, integer = ir.DoubleType(), ir.IntType(64)
        bits = builder.bitcast(args[0], integer)
        above = builder.add(bits, integer(_ONE - _ROOT))  # n and what m is above the root, in its bits
        exponent = builder.lshr(above, integer(52))
        # 2⁵² + exponent, by its bits: vectors of integers are slow to convert.
        shifted = builder.bitcast(builder.or_(exponent, integer(0x433 << 52)), double)
        n = builder.fsub(shifted, double(2.0**52 + 1023.0), flags=_EXACT)
        m = builder.bitcast(builder.add(builder.and_(above, integer((1 << 52) - 1)), integer(_ROOT)), double)
        u = builder.fdiv(
            builder.fsub(m, double(1.0), flags=_EXACT), builder.fadd(m, double(1.0), flags=_EXACT), flags=_FAST
        )
        series = builder.fmul(u, _polynomial(builder, builder.fmul(u, u, flags=_FAST), _LOG), flags=_FAST)
        low = builder.fadd(builder.fmul(n, double(_LN2_LOW), flags=_FAST), series, flags=_FAST)
        return builder.fadd(builder.fmul(n, double(_LN2_HIGH), flags=_FAST), low, flags=_FAST)

    return types.float64(types.float64), codegen


@intrinsic
def exp(typingctx, x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0 to within two units in the last place; a form the compiler can vectorise (libm's is not).

    Of float32 it is float32: half the digits need half the polynomial, and twice as many fit into a register.
    """
    single = x == types.float32
    number = ir.FloatType() if single else ir.DoubleType()
    integer = ir.IntType(32 if single else 64)
    least, rounding, mantissa, bias = (-87.0, 1.5 * 2.0**23, 23, 127) if single else (-708.0, _ROUNDING, 52, 1023)
    high, low = _LN2_SINGLE if single else (_LN2_HIGH, _LN2_LOW)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x = builder.select(builder.fcmp_ordered("<", args[0], number(least)), number(least), args[0])
        # x = n ln 2 + r. These roundings are meant: no rule of algebra may remove them, as numba would allow for
        # instructions without flags of their own.
        shifted = builder.fadd(builder.fmul(x, number(_LOG2_E), flags=_EXACT), number(rounding), flags=_EXACT)
        n = builder.fsub(shifted, number(rounding), flags=_EXACT)
        r = builder.fsub(x, builder.fmul(n, number(high), flags=_EXACT), flags=_EXACT)
        r = builder.fsub(r, builder.fmul(n, number(low), flags=_EXACT), flags=_EXACT)
        exponent = builder.shl(builder.add(builder.bitcast(shifted, integer), integer(bias)), integer(mantissa))
        value = _polynomial(builder, r, _EXP_SINGLE if single else _EXP)
        return builder.fmul(value, builder.bitcast(exponent, number), flags=_FAST)

    kind = types.float32 if single else types.float64
    return kind(kind), codegen


def _chunks(count: int, dtype: Any = np.float64) -> AnyArray:
    """Work space of a kernel, (count, rows of a chunk)."""
    return np.empty((count, _CHUNK), dtype=dtype)


@jit()
def take_logs(x, least):  # type: ignore[no-untyped-def]
    """Overwrite the numbers `x` (n,) by their logarithms, or by `least` where those are less."""
    for i in range(np.uint64(x.shape[0])):
        x[i] = larger(log(larger(x[i], 1e-300)), least)


def softmax_loss(z: AnyArray, y: IntArray, weight: AnyArray) -> float:
    """Overwrite logits `z` (k, n) by probabilities; return the weighted sum of the log losses at labels `y`."""
    return _softmax_loss(z, y, weight, _chunks(3, z.dtype))


@jit()
def _softmax_loss(z, y, weight, buffer):  # type: ignore[no-untyped-def]
    k, n = z.shape[0], np.uint64(z.shape[1])
    top, total, at_label = buffer[0], buffer[1], buffer[2]
    loss = 0.0
    for start in range(_ZERO, n, _CHUNK):
        m = min(_CHUNK, n - start)
        for i in range(m):
            top[i] = z[0, start + i]
            at_label[i] = z[y[start + i], start + i]
            total[i] = 0.0
        for j in range(1, k):
            for i in range(m):
                top[i] = larger(top[i], z[j, start + i])
        for j in range(k):
            for i in range(m):
                e = exp(z[j, start + i] - top[i])
                z[j, start + i] = e
                total[i] += e
        for i in range(m):
            loss += weight[start + i] * (log(total[i]) + top[i] - at_label[i])
            total[i] = 1.0 / total[i]
        for j in range(k):
            for i in range(m):
                z[j, start + i] *= total[i]
    return loss


def apply_curvature(p: AnyArray, d: AnyArray, weight: AnyArray) -> None:
    """Overwrite directions `d` (k, n) by `weight (diag(p) - p pᵀ) d` of each row."""
    _apply_curvature(p, d, weight, np.empty(_CHUNK, dtype=p.dtype))


@jit()
def _apply_curvature(p, d, weight, mean):  # type: ignore[no-untyped-def]
    k, n = p.shape[0], np.uint64(p.shape[1])
    for start in range(_ZERO, n, _CHUNK):
        m = min(_CHUNK, n - start)
        for i in range(m):
            mean[i] = 0.0
        for j in range(k):
            for i in range(m):
                mean[i] += p[j, start + i] * d[j, start + i]
        for j in range(k):
            for i in range(m):
                d[j, start + i] = weight[start + i] * p[j, start + i] * (d[j, start + i] - mean[i])


@jit()
def add_features(z, line, slope, own, theta):  # type: ignore[no-untyped-def]
    """Add to `z` (k, n) the feature `line` (n,) times `slope` (k,) and own-class features (m, k, n) times `theta`."""
    k, n = z.shape
    for j in range(k):
        for m in range(own.shape[0]):
            once = slope[j] if m == 0 else slope[j] * 0
            for i in range(n):
                z[j, i] += once * line[i] + theta[j, m] * own[m, j, i]


def own_curvature(p: AnyArray, shared: AnyArray, own: AnyArray, theta: AnyArray, weight: AnyArray) -> FloatArray:
    """Hessian-vector product with at most one shared feature beside own-class ones, in one pass over the data.

    `p` (k, n) and `own` (m, k, n) of the classes that have coefficients, `theta` (k, d + m), `shared` (d, n).
    """
    out = np.zeros(theta.shape)
    _own_curvature(p, shared, own, theta, weight, _chunks(len(p) + 1, p.dtype), out)
    return out


@jit()
def _own_curvature(p, shared, own, theta, weight, moved, out):  # type: ignore[no-untyped-def]
    k, n = p.shape[0], np.uint64(p.shape[1])
    d = shared.shape[0]
    mean = moved[k]
    for start in range(_ZERO, n, _CHUNK):
        m = min(_CHUNK, n - start)
        for i in range(m):
            mean[i] = 0.0
        for j in range(k):
            for i in range(m):
                moved[j, i] = theta[j, 0] * shared[0, start + i] if d else 0.0
            for q in range(own.shape[0]):
                for i in range(m):
                    moved[j, i] += theta[j, d + q] * own[q, j, start + i]
            for i in range(m):
                mean[i] += p[j, start + i] * moved[j, i]
        for j in range(k):
            for i in range(m):
                moved[j, i] = weight[start + i] * p[j, start + i] * (moved[j, i] - mean[i])
            for q in range(d + own.shape[0]):
                total = 0.0
                if q < d:
                    for i in range(m):
                        total += moved[j, i] * shared[q, start + i]
                else:
                    for i in range(m):
                        total += moved[j, i] * own[q - d, j, start + i]
                out[j, q] += total


@jit()
def own_sums(residual, own, out):  # type: ignore[no-untyped-def]
    """Sums over rows of residuals (k, n) times own-class features (m, k, n), into `out` (k, m)."""
    k, n = residual.shape
    for j in range(k):
        for m in range(own.shape[0]):
            total = 0.0
            for i in range(n):
                total += residual[j, i] * own[m, j, i]
            out[j, m] = total


def logistic_derivatives(
    offset: FloatArray | None, features: FloatArray, theta: FloatArray, y: IntArray, weight: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Loss sum, gradient and Hessian of the log-odds ``offset + theta · features``, for labels 0 and 1.

    Only what needs an exponential is compiled: sums over a handful of features BLAS does as well.
    """
    d, n = features.shape
    z = theta @ features
    if offset is not None:
        z += offset
    curvature, factors = np.empty(n), np.empty((d + 1, n))
    loss = _logistic_rows(z, y, weight, factors[d], curvature)
    np.multiply(features, curvature, out=factors[:d])
    sums = factors @ features.T  # one product for both is faster than two
    return loss, sums[d], sums[:d]


@jit()
def _logistic_rows(z, y, weight, residual, curvature):  # type: ignore[no-untyped-def]
    loss = 0.0
    for i in range(np.uint64(z.shape[0])):
        small = exp(-abs(z[i]))
        lesser = small / (1.0 + small)
        w = weight[i]
        residual[i] = w * ((1.0 - lesser if z[i] > 0.0 else lesser) - y[i])
        curvature[i] = w * lesser * (1.0 - lesser)
        margin = -z[i] if y[i] == 1 else z[i]
        loss += w * (max(margin, 0.0) + (log(1.0 + small) if small > 1e-8 else small))
    return loss


def scaled_dual_value(p: AnyArray, x: AnyArray, y: IntArray, weight: AnyArray, scale: float) -> float:
    """Sum of ``w (H(q) + (q − onehot(y)) · x)`` at ``q = onehot(y) + scale (p − onehot(y))``; see `duality_gap`."""
    return _scaled_dual_value(p, x, y, weight, scale, np.empty(_CHUNK))


@jit()
def _scaled_dual_value(p, x, y, weight, scale, value):  # type: ignore[no-untyped-def]
    k, n = p.shape[0], np.uint64(p.shape[1])
    total = 0.0
    for start in range(_ZERO, n, _CHUNK):
        m = min(_CHUNK, n - start)
        for i in range(m):
            value[i] = 0.0
        for j in range(k):
            for i in range(m):
                q = scale * p[j, start + i]
                value[i] += q * (x[j, start + i] - log(max(q, 1e-300)))
        for i in range(m):
            label = y[start + i]
            x_label = x[label, start + i]
            without = scale * p[label, start + i]
            q = without + (1.0 - scale)
            value[i] -= without * (x_label - log(max(without, 1e-300)))
            value[i] += q * (x_label - log(max(q, 1e-300))) - x_label
            total += weight[start + i] * value[i]
    return total


def scaled_derivatives(
    x: AnyArray, top: AnyArray, at_label: AnyArray, alpha: float, weight: AnyArray
) -> tuple[float, float, float]:
    """Loss sum at the logits `alpha x` (k, n), for positive `alpha`, and its first two derivatives in `alpha`.

    `top` and `at_label` are each row's largest number and that of its label.
    """
    return _scaled_derivatives(x, top, at_label, alpha, weight, _chunks(3))


@jit()
def _scaled_derivatives(x, top, at_label, alpha, weight, buffer):  # type: ignore[no-untyped-def]
    k, n = x.shape[0], np.uint64(x.shape[1])
    total, first, second = buffer[0], buffer[1], buffer[2]
    loss = slope = curvature = 0.0
    for start in range(_ZERO, n, _CHUNK):
        m = min(_CHUNK, n - start)
        for i in range(m):
            total[i] = first[i] = second[i] = 0.0
        for j in range(k):
            for i in range(m):
                e = exp(alpha * (x[j, start + i] - top[start + i]))
                total[i] += e
                first[i] += e * x[j, start + i]
                second[i] += e * x[j, start + i] * x[j, start + i]
        for i in range(m):
            mean = first[i] / total[i]
            loss += weight[start + i] * (log(total[i]) + alpha * (top[start + i] - at_label[start + i]))
            slope += weight[start + i] * (mean - at_label[start + i])
            curvature += weight[start + i] * max(second[i] / total[i] - mean * mean, 0.0)
    return loss, slope, curvature
