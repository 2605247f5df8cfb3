"""The types of arrays and labels, once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
#: Labels, or numbers of any type.
AnyArray = NDArray[Any]
#: Floating-point numbers of any precision: metrics keep float32 predictions in float32.
AnyFloatArray = NDArray[np.floating[Any]]
#: Whole numbers of any width, such as column numbers.
AnyIntArray = NDArray[np.integer[Any]]
#: The name of a class, an action or a column: a text, a number, a truth value.
Label = Hashable
#: The labels of columns, in their order.
Labels = Sequence[Hashable] | AnyArray
#: Columns with a value for each row: a data frame, a mapping of names to columns, or an array.
TableLike = ArrayLike | Mapping[str, ArrayLike]
