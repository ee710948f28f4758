"""Type aliases for arrays and tensors, whose names state the shape.

Notation: n samples, P points of a sample, d space dimensions, c channels,
q scalars, B samples of a batch.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]

PathOrStr = str | PathLike[str]
GridShape = tuple[int, ...]

#: Fields of a batch, channels last: (B, P, c).
FieldTensor = Tensor
#: 1 where a point is real and 0 where it is padding: (B, P).
MaskTensor = Tensor

ArrayOrList = npt.NDArray[Any] | Sequence[Any]
