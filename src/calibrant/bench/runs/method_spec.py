"""Which method to run: a name of the registry or `package.module:Class`, with parameters and version.

On the command line a method is written `sms`, `sms(rho=0.5)`, `package.module:Class(alpha=2)` or, to name it in
the results, `mine=sms(rho=0.5)`. Its fingerprint changes with class, parameters and version, which is when its
results are recomputed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import json
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any

from calibrant import __version__
from calibrant.calibrators.registry import BASELINE, calibrator_info, get_calibrator, list_calibrators
from calibrant.optional import require


@dataclass(frozen=True)
class MethodSpec:
    """A method as the runner sees it."""

    label: str
    """Name in results."""
    target: str
    """Name in the registry, or `package.module:Class`."""
    params: dict[str, object] = field(default_factory=dict)
    version: str = ""
    """Package and version it comes from; a class outside of any installed package has a digest of its file."""
    binary: bool = True
    """Whether it can be fitted to experiments with two classes, and with more (`multiclass`)."""
    multiclass: bool = True

    @property
    def fingerprint(self) -> str:
        text = json.dumps([self.target, self.params, self.version], sort_keys=True, default=repr)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def module(self) -> str:
        """Module that the class comes from; empty for methods of the registry."""
        return self.target.partition(":")[0] if ":" in self.target else ""

    def supports(self, n_classes: int) -> bool:
        """Whether the method can be fitted to this many classes."""
        return self.binary if n_classes == 2 else self.multiclass

    def make(self) -> Any:
        """An unfitted calibrator."""
        if ":" in self.target:
            return _imported(self.target)(**self.params)
        return get_calibrator(self.target, **self.params)


def parse_method(text: str) -> MethodSpec:
    """Read one method as it is written on the command line."""
    match = re.fullmatch(r"(?:([\w.+-]+)=)?([\w.-]+(?::\w+)?)(\(.*\))?", text.strip(), flags=re.DOTALL)
    if match is None:
        raise ValueError(f"cannot read the method {text!r}: expected name, name(parameter=value) or label=name")
    label, target, arguments = match.groups()
    if label is None and arguments:
        label = text.strip()
    return make_spec(target, _arguments(arguments or "()", text), label)


def parse_methods(text: str) -> list[MethodSpec]:
    """Read a comma-separated list; `all` stands for every method of this package without optional packages."""
    specs = []
    for item in re.split(r",(?![^()]*\))", text):
        specs += native_methods() if item.strip() == "all" else [parse_method(item)]
    return with_baseline(specs)


def with_baseline(specs: Iterable[MethodSpec]) -> list[MethodSpec]:
    """Each method once, `none` first: every change of loss is measured against it."""
    unique: dict[str, MethodSpec] = {}
    for spec in (make_spec(BASELINE), *specs):
        if spec.label in unique and spec.fingerprint != unique[spec.label].fingerprint:
            raise ValueError(f"two different methods are called {spec.label!r}: name them apart, as in a=..., b=...")
        unique[spec.label] = spec
    return list(unique.values())


def native_methods() -> list[MethodSpec]:
    """Every method of the registry that needs no optional package."""
    return [make_spec(info.name) for info in list_calibrators() if info.extra is None]


def make_spec(target: str, params: Mapping[str, object] | None = None, label: str | None = None) -> MethodSpec:
    """Describe a method after checking that it exists; its label is `target` unless given."""
    params = dict(params or {})
    if ":" in target:
        return MethodSpec(label or target, target, params, _version_of(_imported(target)))
    info = calibrator_info(target)
    version_text = f"calibrant {__version__}"
    return MethodSpec(label or info.name, info.name, params, version_text, info.binary, info.multiclass)


def _arguments(text: str, method: str) -> dict[str, object]:
    try:
        call = ast.parse(f"f{text}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(k.arg is None for k in call.keywords):
            raise ValueError("expected name=value pairs")
        return {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"cannot read the parameters of {method!r}: {error}") from error


def _imported(target: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise ValueError(f"cannot import {module!r} for the method {target!r}: {error}") from error
    except AttributeError as error:
        raise ValueError(f"the module {module!r} has no class {attribute!r}") from error


class ClassShipping:
    """Gives what a process on another machine calls to make a method without the user's files.

    A class of no installed package is sent by value, with what it uses of its own files; packages must be installed
    there.
    """

    def __init__(self) -> None:
        self._prepared: dict[str, Callable[[], object]] = {}

    def __call__(self, spec: MethodSpec) -> Callable[[], object]:
        if not spec.version.startswith("file "):
            return spec.make
        if spec.target not in self._prepared:
            cloudpickle = require("cloudpickle", extra="dask")
            cls = _imported(spec.target)
            files = sys.modules[cls.__module__.partition(".")[0]]
            cloudpickle.register_pickle_by_value(files)
            try:
                self._prepared[spec.target] = partial(_define, spec.target, cloudpickle.dumps(cls))
            finally:
                cloudpickle.unregister_pickle_by_value(files)
        return self._prepared[spec.target]


def _define(target: str, pickled: bytes) -> None:
    """Make a class importable that was sent by value."""
    name, _, attribute = target.partition(":")
    module = sys.modules.setdefault(name, ModuleType(name))
    setattr(module, attribute, pickle.loads(pickled))


_distributions = lru_cache(1)(packages_distributions)


def _version_of(cls: type) -> str:
    top = cls.__module__.partition(".")[0]
    try:
        return f"{top} {version(top)}"
    except PackageNotFoundError:
        # The package has another name than its module; looking that up reads every installed package.
        for distribution in _distributions().get(top, ()):
            return f"{distribution} {version(distribution)}"
    try:
        return f"file {hashlib.sha256(Path(inspect.getfile(cls)).read_bytes()).hexdigest()[:12]}"
    except (TypeError, OSError):
        return ""
