"""Reading of XDMF files by meshio, with the arrays of HDF5 and binary files beside them, and of no other files.

meshio (5.3) opens every file that an XDMF file names, also outside of its folder, follows links out of HDF5 files, and
looks for binary files in the working directory of the process.
"""

from copy import copy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import meshio

from skop._optional import import_optional
from skop.data._file_guards import file_beside, hdf5_array

__all__ = ["XdmfSeries", "read_xdmf"]


class _StaysInFolder:
    """Mixin for the readers of meshio: arrays come from files in the folder of the XDMF file, or below."""

    def _read_data_item(self, data_item: ElementTree.Element, *root: Any) -> Any:
        """Read an array."""
        kind, path = data_item.get("Format"), Path(self.filename).resolve()  # type: ignore[attr-defined]
        if "Reference" not in data_item.attrib and kind == "HDF":
            name, _, key = (data_item.text or "").strip().rpartition(":")
            h5py = import_optional("h5py", purpose=f"read {path.name}, which names an HDF5 file")
            with h5py.File(file := file_beside(path, name), "r") as opened:
                array = hdf5_array(opened, key, file)
                if array is None:
                    raise ValueError(f"{file} has no array {key!r}")
                return array[()]
        if kind == "Binary":
            data_item = copy(data_item)
            data_item.text = str(file_beside(path, (data_item.text or "").strip()))
        return super()._read_data_item(data_item, *root)  # type: ignore[misc]


class XdmfSeries(_StaysInFolder, meshio.xdmf.TimeSeriesReader):
    """Reader of the steps of an XDMF file; see `meshio.xdmf.TimeSeriesReader`."""


class _XdmfReader(_StaysInFolder, meshio.xdmf.main.XdmfReader):
    """Reader of an XDMF file with one mesh."""


def read_xdmf(path: Path) -> meshio.Mesh:
    """Read an XDMF file with one mesh.

    Parameters
    ----------
    path : Path
        XDMF file.

    Returns
    -------
    meshio.Mesh
        Points, cells and data.

    Raises
    ------
    FieldDataError
        If the file names a file outside of its folder. A damaged file can raise other errors.
    """
    return _XdmfReader(path).read()
