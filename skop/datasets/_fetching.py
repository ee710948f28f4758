"""Download of published data sets whose files have addresses."""

from collections.abc import Callable
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import Any

from sklearn.datasets import get_data_home

from skop._files import write_in_one_step
from skop._optional import import_optional
from skop._typing import PathOrStr
from skop.datasets._brusselator_files import load_brusselator
from skop.datasets._navier_stokes_files import load_navier_stokes
from skop.datasets._pdebench import (
    load_pdebench_darcy,
    load_pdebench_diffusion_reaction,
    load_pdebench_shallow_water,
)
from skop.datasets._published import load_darcy
from skop.datasets._solid_files import load_elasticity, load_plasticity
from skop.datasets._structured import load_airfoil, load_pipe
from skop.datasets._tissue import load_tissue
from skop.exceptions import FieldDataError

_LOADERS: dict[str, Callable[..., Any]] = {
    "airfoil": load_airfoil,
    "brusselator": load_brusselator,
    "darcy": load_darcy,
    "elasticity": load_elasticity,
    "navier_stokes": load_navier_stokes,
    "pdebench_darcy": load_pdebench_darcy,
    "pdebench_diffusion_reaction": load_pdebench_diffusion_reaction,
    "pdebench_shallow_water": load_pdebench_shallow_water,
    "pipe": load_pipe,
    "plasticity": load_plasticity,
    "tissue": load_tissue,
}
_DARUS = "https://darus.uni-stuttgart.de/api/access/datafile/"
#: Name, address and SHA-256 of the file of each set that has an address. Of none of them a SHA-256 is published.
_FILES: dict[str, tuple[str, str, str | None]] = {
    "pdebench_darcy": ("2D_DarcyFlow_beta1.0_Train.hdf5", f"{_DARUS}133219", None),
    "pdebench_diffusion_reaction": ("2D_diff-react_NA_NA.h5", f"{_DARUS}133017", None),
    "pdebench_shallow_water": ("2D_rdb_NA_NA.h5", f"{_DARUS}133021", None),
}
#: Seconds without an answer after which a server counts as unreachable, and bytes that are written at a time.
_TIMEOUT, _CHUNK = 30, 2**16


def fetch_published(
    name: str, *, data_home: PathOrStr | None = None, download_if_missing: bool = True, **options: Any
) -> Any:
    """Load a published data set, and download its file first if it is not there.

    Three sets have files with addresses: ``"pdebench_darcy"``, ``"pdebench_shallow_water"`` (6.2 GB) and
    ``"pdebench_diffusion_reaction"`` (13 GB). The others are in folders of Google Drive, whose files have none:
    download these by hand into the folder that the error names, or generate samples of the same kind. A download needs
    the package pooch, which the extra ``data`` installs.

    Parameters
    ----------
    name : str
        Name of the loader without ``load_``, such as ``"pdebench_darcy"``.
    data_home : path, default=None
        Folder for data sets, of which the subfolder ``skop/<name>`` is used. None: that of scikit-learn,
        :func:`sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=True
        Whether to download a file that is not there. False raises an error in that case.
    **options : dict
        Parameters of the loader, such as `subset` or `return_X_y`.

    Returns
    -------
    data or (X, y) : as of the loader
        What ``load_<name>`` returns.

    Raises
    ------
    ValueError
        If there is no loader of this name, or an option of it is outside its range.
    FileNotFoundError
        If files are not there, and cannot or may not be downloaded; the message says why, where to put them, and what
        generates samples of the same kind.
    FieldDataError
        If a file has another SHA-256 than it should have, or the loader refuses it.
    OptionalDependencyError
        If pooch is needed and not installed.

    See Also
    --------
    load_pdebench_darcy : Read a file that is already there.
    make_darcy : Generate samples without any file.

    Notes
    -----
    A file gets its name when it is complete. What a download that was interrupted has left is in ``<file>.part``, and
    the next call goes on there if the server can. The SHA-256 of a file is checked on each call. Where none is
    published, that of the first download is written to ``<file>.sha256``, and later files and downloads must have the
    same.

    Examples
    --------
    A file in its place is not downloaded; here one of the same layout with 3 samples of 8 x 8 cells:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import h5py
    >>> from skop.datasets import fetch_published, make_darcy
    >>> (coords, a), u = make_darcy(3, variant="pdebench", resolution=8, random_state=0, return_coords=True)
    >>> with TemporaryDirectory() as home:
    ...     folder = Path(home) / "skop" / "pdebench_darcy"
    ...     folder.mkdir(parents=True)
    ...     with h5py.File(folder / "2D_DarcyFlow_beta1.0_Train.hdf5", "w") as file:
    ...         file["nu"], file["tensor"] = a[..., 0], u[:, None, ..., 0]
    ...         file["x-coordinate"], file["y-coordinate"] = coords[:, 0, 0], coords[0, :, 1]
    ...     data = fetch_published("pdebench_darcy", data_home=home, n_train=2, n_test=1)
    ...     print(data.X_train)
    FieldSet(2 samples, 16 points in 2-D, grid 4x4, 1 channels)
    """
    if name not in _LOADERS:
        raise ValueError(f"name must be one of {', '.join(_LOADERS)}, got {name!r}.")
    folder = Path(get_data_home(None if data_home is None else str(data_home))) / "skop" / name
    why_not = "the files are in a folder of Google Drive, where they have no addresses of their own"
    if name in _FILES:
        why_not = _download(folder, *_FILES[name]) if download_if_missing else "download_if_missing is False"
    try:
        return _LOADERS[name](folder, **options)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{name} was not downloaded: {why_not}. Put what is missing there by hand, or generate it: {error}"
        ) from error


def _download(folder: Path, file_name: str, address: str, sha256: str | None) -> str:
    """Bring a file to a folder unless it is there, and check it; return why that could not be done, or nothing.

    Raises FieldDataError if the file is not the one that it should be.
    """
    file, record = folder / file_name, folder / f"{file_name}.sha256"
    if sha256 is None and record.exists():
        sha256 = record.read_text().strip()
    if not file.exists():
        pooch = import_optional("pooch", purpose="download data sets, for which the extra 'data' installs it,")
        requests = import_optional("requests", purpose="download data sets")
        part = folder / f"{file_name}.part"
        try:
            pooch.retrieve(address, sha256, fname=file_name, path=folder, downloader=partial(_resume, requests, part))
        except ValueError as error:
            raise FieldDataError(f"{address} gave another file than expected: {error}") from error
        except requests.exceptions.RequestException as error:
            kept = f"; {part.stat().st_size:,} bytes are kept, the same call goes on there" if part.exists() else ""
            return f"{address} cannot be read ({error}){kept}"
    with file.open("rb") as stream:
        found = file_digest(stream, "sha256").hexdigest()
    if sha256 is None:
        write_in_one_step(record, found.encode())
    elif found != sha256:
        raise FieldDataError(
            f"{file} has the SHA-256 {found}, expected {sha256}: it is damaged, or another file. Remove it, and "
            f"{address} is downloaded again."
        )
    return ""


def _resume(requests: Any, part: Path, address: str, output: str, _pooch: Any) -> None:
    """Download to `part` what is missing there, and rename it to `output` when it is complete."""
    start = part.stat().st_size if part.exists() else 0
    # Compressed on its way, a file could not be cut at a byte of its own.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with requests.get(address, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        sent = response.headers.get("Content-Range", "")
        if start and response.status_code == requests.codes.requested_range_not_satisfiable:
            if sent != f"bytes */{start}":
                # What is there is longer than the file, and so of another one.
                part.unlink()
                _resume(requests, part, address, output, None)
                return
        else:
            response.raise_for_status()
            goes_on = response.status_code == requests.codes.partial_content and sent.startswith(f"bytes {start}-")
            with part.open("ab" if goes_on else "wb") as file:
                for chunk in response.iter_content(_CHUNK):
                    file.write(chunk)
    part.replace(output)
