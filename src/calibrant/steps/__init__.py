"""The steps of a fitted map: what each holds and what it does to a block of rows, in NumPy alone."""

from calibrant.steps.branches import Join, KeepTop, OneVsOne, OneVsRest, Sum
from calibrant.steps.features import Curves, Kernel, Levels, Linear, Trees
from calibrant.steps.lines import Line, Spline, StepFunction
from calibrant.steps.simple import (
    Clip,
    Columns,
    Complement,
    Exp,
    Lead,
    Log,
    LogOdds,
    Mix,
    Normalize,
    Polynomial,
    Scale,
    Sigmoid,
    Softmax,
)
from calibrant.steps.step import Function, Step, Steps, check_steps, decode, encode, run, run_from_logs, widest

__all__ = [
    "Clip",
    "Columns",
    "Complement",
    "Curves",
    "Exp",
    "Function",
    "Join",
    "KeepTop",
    "Kernel",
    "Lead",
    "Levels",
    "Line",
    "Linear",
    "Log",
    "LogOdds",
    "Mix",
    "Normalize",
    "OneVsOne",
    "OneVsRest",
    "Polynomial",
    "Scale",
    "Sigmoid",
    "Softmax",
    "Spline",
    "Step",
    "StepFunction",
    "Steps",
    "Sum",
    "Trees",
    "check_steps",
    "decode",
    "encode",
    "run",
    "run_from_logs",
    "widest",
]
