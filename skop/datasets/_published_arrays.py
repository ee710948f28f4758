"""Common parts of the loaders of NumPy files: reading, checking and splitting."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._published import Subset, _check_selection, described
from skop.exceptions import FieldDataError

#: First bytes of what Git LFS leaves in place of a large file that was not downloaded.
LFS_START = b"version https://git-lfs"
#: Where the four data sets of the paper can be had, and what generates samples like them.
GEO_FNO_SOURCE = (
    "The authors of arXiv:2207.05209 publish the files in "
    "https://drive.google.com/drive/folders/1YBuaoTdOSr_qzaow-G-iwvbUI7fiUzu8 ; "
    "skop.datasets.{} generates samples of the same kind."
)


@dataclass(frozen=True)
class Selection:
    """Which samples to load: the first ones to train; to test, those from `first_test` on, or the last ones.

    Raises ValueError if an option is wrong.
    """

    subset: Subset
    n_train: int
    n_test: int
    return_X_y: bool
    first_test: int | None = None

    def __post_init__(self) -> None:
        _check_selection(self.subset, self.return_X_y, n_train=self.n_train, n_test=self.n_test)

    def slices(self, available: int, file: Path) -> dict[str, slice]:
        """Slices of the subsets asked for.

        Raises FieldDataError if there are too few samples, or if the two subsets would share some.
        """
        start = available - self.n_test if self.first_test is None else self.first_test
        if self.subset != "train" and (start < 0 or start + self.n_test > available):
            place = "" if self.first_test is None else f" from number {start} on"
            raise FieldDataError(
                f"{file} holds {available} samples; {self.n_test} for testing{place} were asked for. Lower n_test."
            )
        if self.n_train > min(max(start, 0), available):
            raise FieldDataError(
                f"{file} holds {available} samples, of which those from number {start} on are for testing; "
                f"{self.n_train} for training were asked for. Lower n_train."
            )
        slices = {"train": slice(0, self.n_train), "test": slice(start, start + self.n_test)}
        return {name: slices[name] for name in slices if self.subset in ("all", name)}

    def read(
        self,
        slices: Mapping[str, slice],
        inputs: Callable[[slice], FieldSet],
        targets: Callable[[slice], FloatArray],
    ) -> Bunch:
        """Read X and y of the subsets by what cuts samples out of the files."""
        data = Bunch()
        for name, samples in slices.items():
            data[f"X_{name}"], data[f"y_{name}"] = inputs(samples), targets(samples)
        return data

    def result(
        self, name: str, data: Bunch, files: Mapping[str, Path], description: str
    ) -> Bunch | tuple[FieldSet, FloatArray]:
        """Return (X, y) of the one subset if asked for, and otherwise everything."""
        if self.return_X_y:
            return data[f"X_{self.subset}"], data[f"y_{self.subset}"]
        return described(name, files, description, **data)


def read_npy(file: Path, n_dims: int) -> np.ndarray[Any, Any]:
    """Open an array of real numbers without reading it whole.

    Raises FieldDataError if the file is damaged, is no such array, or has not `n_dims` axes.
    """
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (MemoryError, PermissionError):
        raise
    # Cut headers, cut data and other files answer with unrelated exceptions, so all others count.
    except Exception as error:
        raise FieldDataError(
            f"{file} ({file.stat().st_size:,} bytes) cannot be read as a NumPy file: {error}. "
            "It is damaged, or its download was interrupted: download it again."
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise FieldDataError(
            f"{file} must hold one array of real numbers, got {getattr(array, 'dtype', 'an archive')}."
        )
    if array.ndim != n_dims:
        raise FieldDataError(f"{file} must hold an array with {n_dims} axes, got the shape {array.shape}.")
    return array


def as_fields(array: np.ndarray[Any, Any], file: Path) -> FloatArray:
    """Copy to float32; raise FieldDataError if a value is not finite."""
    fields = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(fields).all():
        raise FieldDataError(f"{file} holds values that are not finite. Download the file again.")
    return fields


def check_same(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise FieldDataError if files that belong together differ in shape."""
    if len(set(shapes.values())) > 1:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise FieldDataError(f"The files do not belong together: they hold, as samples and points, {found}.")
