"""Implementations of the scans that are compared, all with the arguments of the functions in `skop.ops`.

Notation: b batch, L length, D channels, N states. Letters of the maths: x input, dt step,
A decay rate, B input map, C output map, D skip, y output, h state.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import skop.ops
from benchmarks._kernel_shapes import OPERATIONS, Case, function_name
from skop.ops.selective_scan_2d._naive import oriented

__all__ = ["IMPLEMENTATIONS", "Implementation"]

Scan = Callable[..., Tensor]
_ALL, _S6, _SSD = tuple(OPERATIONS), tuple(OPERATIONS)[:3], tuple(OPERATIONS)[3:]
_EXTRAS = ("R", "initial_state", "reverse")
#: Steps that are taken one after the other for all chunks at once, and tokens that are treated as a matrix.
_CHUNK, _MATRIX = 16, 64


@dataclass(frozen=True)
class Implementation:
    """Implementation of scans.

    Parameters
    ----------
    name : str
        Name in the tables.
    load : callable
        Function that takes the name of a function in `skop.ops` and returns one with the same arguments.
    ops : tuple of str, default all
        Functions of `skop.ops` that it implements.
    extras : tuple of str, default ()
        Optional arguments that it supports, see `Case`.
    devices : tuple of str, default ("cpu", "cuda")
        Devices that it supports.
    package : str or None, default None
        Package that has to be installed.
    compiles : bool, default False
        Whether it is compiled for each shape; such implementations are measured only on request.
    """

    name: str
    load: Callable[[str], Scan]
    ops: tuple[str, ...] = _ALL
    extras: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu", "cuda")
    package: str | None = None
    compiles: bool = False

    def takes(self, case: Case, device: str) -> bool:
        """Whether it can run a case on this machine.

        Parameters
        ----------
        case : Case
            Problem sizes.
        device : str
            ``"cpu"`` or ``"cuda"``.

        Returns
        -------
        bool
            False also if a package or a compiler is missing.
        """
        fits = case.op in self.ops and device in self.devices and set(case.extras) <= set(self.extras)
        installed = self.package is None or find_spec(self.package) is not None
        compiler = not self.compiles or device == "cuda" or any(map(shutil.which, ("c++", "g++", "clang++")))
        return fits and installed and compiler


def _load_ours(backend: str, op: str) -> Scan:
    """The public function with a choice of its implementation."""
    return partial(getattr(skop.ops, function_name(op)), backend=backend)


def _load_compiled(op: str) -> Scan:
    """The chunked form as torch compiles it, once for all paths."""
    compiler = partial(torch.compile, dynamic=False)
    return _ssd_forms(compiler(_ssd_by_chunks))[op] if op in _SSD else _s6_forms(_scan_by_chunks, compiler)[op]


def _load_mambapy(op: str) -> Scan:
    """The parallel scan of mamba.py, between the elementwise products that it leaves to its caller."""
    return _s6_forms(import_module("mambapy.pscan").pscan)[op]


def _load_mamba_s6(name: str, op: str) -> Scan:
    """A function of mamba-ssm, which has the time last."""
    function = getattr(import_module("mamba_ssm.ops.selective_scan_interface"), name)

    def scan(
        x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, *, dt_bias: Tensor, dt_softplus: bool
    ) -> Tensor:
        maps_in, maps_out = (values.permute(0, 2, 3, 1) for values in (B, C))
        return function(x.mT, dt.to(x.dtype).mT, A, maps_in, maps_out, D, None, dt_bias, dt_softplus).mT

    return scan if op == "selective_scan" else partial(_along_paths, scan)


def _load_mamba_ssd(name: str, chunk: int, multiple: int, op: str) -> Scan:
    """A function of mamba-ssm with chunks, which takes lengths that are a multiple of something."""
    function = getattr(import_module("mamba_ssm.ops.triton.ssd_combined"), name)

    def scan(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
        missing = -x.shape[1] % multiple
        padded = (functional.pad(v, (0, 0) * (v.ndim - 2) + (0, missing)) if missing else v for v in (x, dt, B, C))
        u, step, maps_in, maps_out = padded
        return function(u, step, A, maps_in, maps_out, chunk, D)[:, : x.shape[1]]

    return scan if op == "ssd_scan" else partial(_along_paths, scan)


def _s6_forms(scan: Scan, compiler: Callable[[Scan], Scan] | None = None) -> dict[str, Scan]:
    """Forms of the scans with a decay for each state, from one of (b, L, D, N) along L."""
    sequences: Scan = partial(_s6_by, scan)
    grids: Scan = partial(_direction_by, scan)
    if compiler is not None:
        sequences, grids = compiler(sequences), compiler(grids)
    return {
        "selective_scan": sequences,
        "selective_path_scan": partial(_along_paths, sequences),
        "selective_scan_2d": partial(_along_directions, grids),
    }


def _ssd_forms(scan: Scan) -> dict[str, Scan]:
    """Forms of the state-space-dual scans from the one of sequences."""
    return {"ssd_scan": scan, "ssd_path_scan": partial(_along_paths, scan)}


def _along_paths(
    scan: Scan,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    *,
    paths: Tensor,
    dt_bias: Tensor | None = None,
    **settings: Any,
) -> Tensor:
    """Scan every path as a sequence of its own and add the outputs."""
    outputs = []
    for k, path in enumerate(paths):
        own = {} if dt_bias is None else {"dt_bias": dt_bias[k]}
        maps = (values[:, path, k : k + 1] for values in (B, C))
        y = scan(x[:, path], dt[:, path, k], A[k], *maps, D[k], **own, **settings)
        outputs.append(y[:, path.argsort()])
    return torch.stack(outputs).sum(0)


def _s6_by(
    scan: Scan, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, *, dt_bias: Tensor, dt_softplus: bool
) -> Tensor:
    """Scan sequences by forming decays, inputs and states of shape (b, L, D, N)."""
    steps = functional.softplus(dt + dt_bias) if dt_softplus else dt + dt_bias
    decays = torch.exp(steps.unsqueeze(-1) * A)
    states = scan(decays, (steps * x).unsqueeze(-1) * B)
    return ((states * C).sum(-1) + D * x).to(x.dtype)


def _along_directions(
    scan: Scan,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    *,
    directions: Sequence[tuple[int, int]],
    dt_bias: Tensor,
    dt_softplus: bool,
) -> Tensor:
    """Scan every direction as a grid of its own, along rows and then along columns, and add the outputs."""
    biased = dt + dt_bias
    steps = functional.softplus(biased) if dt_softplus else biased
    total = D.sum(0) * x
    for k, direction in enumerate(directions):
        grids = (oriented(values, direction) for values in (x, steps[..., k, :], B[..., k, :], C[..., k, :]))
        y = scan(A[k], *(grid.contiguous() for grid in grids))
        total = total + oriented(y, direction, back=True)
    return total.to(x.dtype)


def _direction_by(scan: Scan, A: Tensor, x: Tensor, dt: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """Scan grids along rows and then along columns by forming states of shape (b, H, W, D, N)."""
    decays = torch.exp(dt.unsqueeze(-1) * A)
    states = (dt * x).unsqueeze(-1) * B.unsqueeze(-2)
    for _ in range(2):
        # Along the second axis of the grid, which changes places with the first after each pass.
        scanned = scan(decays.flatten(0, 1).contiguous(), states.flatten(0, 1).contiguous())
        states, decays = scanned.unflatten(0, decays.shape[:2]).transpose(1, 2), decays.transpose(1, 2)
    return (states * C.unsqueeze(-2)).sum(-1)


def _scan_by_chunks(decays: Tensor, updates: Tensor) -> Tensor:
    """Run h = decay h + update along axis 1: in all chunks at once, then from chunk to chunk in the same way."""
    length = updates.shape[1]
    chunk = min(_CHUNK, length)
    spare = (0, 0) * (updates.ndim - 2) + (0, -length % chunk)
    parts = (functional.pad(values, spare).unflatten(1, (-1, chunk)).unbind(2) for values in (decays, updates))
    products: list[Tensor] = []
    states: list[Tensor] = []
    for decay, update in zip(*parts, strict=True):
        states.append(decay * states[-1] + update if states else update)
        products.append(decay * products[-1] if products else decay)
    within = torch.stack(states, dim=2)
    if length > chunk:
        ends = _scan_by_chunks(products[-1], states[-1])
        entering = torch.cat([torch.zeros_like(ends[:, :1]), ends[:, :-1]], dim=1)
        within = within + torch.stack(products, dim=2) * entering.unsqueeze(2)
    return within.flatten(1, 2)[:, :length]


def _ssd_by_chunks(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """Scan with matrices within chunks and states between them; i, j tokens of a chunk c, h heads, p channels."""
    length, heads = x.shape[1:3]
    missing = -length % _MATRIX
    spare = (0, 0, 0, 0, 0, missing)
    u = functional.pad(x * dt.unsqueeze(-1), spare).unflatten(1, (-1, _MATRIX))
    logs = functional.pad(dt * A, (0, 0, 0, missing)).unflatten(1, (-1, _MATRIX)).cumsum(2)
    repeats = heads // B.shape[2]
    b, c = (functional.pad(v, spare).unflatten(1, (-1, _MATRIX)).repeat_interleave(repeats, 3) for v in (B, C))
    later = torch.ones(_MATRIX, _MATRIX, dtype=torch.bool, device=x.device).triu(1)
    between = logs.movedim(3, 2).unsqueeze(-1) - logs.movedim(3, 2).unsqueeze(-2)
    weights = torch.einsum("zcihn,zcjhn->zchij", c, b) * between.masked_fill(later, -torch.inf).exp()
    ends = torch.einsum("zcjhn,zcjhp->zchpn", b * (logs[:, :, -1:] - logs).exp().unsqueeze(-1), u)
    states = _scan_by_chunks(logs[:, :, -1].exp()[..., None, None], ends)
    entering = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], dim=1)
    y = torch.einsum("zchij,zcjhp->zcihp", weights, u)
    y = y + torch.einsum("zcihn,zchpn->zcihp", c * logs.exp().unsqueeze(-1), entering)
    return (y.flatten(1, 2)[:, :length] + D.unsqueeze(-1) * x).to(x.dtype)


#: In the order of the tables. The first of them that has a case is what the others are compared with.
IMPLEMENTATIONS = (
    Implementation("skop numba", partial(_load_ours, "numba"), extras=_EXTRAS, devices=("cpu",)),
    Implementation("skop triton", partial(_load_ours, "triton"), extras=_EXTRAS, devices=("cuda",)),
    Implementation("skop torch", partial(_load_ours, "torch"), extras=_EXTRAS),
    Implementation("naive loop", partial(_load_ours, "naive"), extras=_EXTRAS),
    Implementation("mambapy pscan", _load_mambapy, ops=_S6, package="mambapy"),
    Implementation("torch.compile of the chunked form", _load_compiled, compiles=True),
    Implementation(
        "mamba_ssm reference",
        partial(_load_mamba_s6, "selective_scan_ref"),
        ops=("selective_scan", "selective_path_scan"),
        package="mamba_ssm",
    ),
    Implementation(
        "mamba_ssm reference",
        partial(_load_mamba_ssd, "ssd_chunk_scan_combined_ref", _MATRIX, _MATRIX),
        ops=_SSD,
        package="mamba_ssm",
    ),
    Implementation(
        "mamba_ssm selective_scan",
        partial(_load_mamba_s6, "selective_scan_fn"),
        ops=("selective_scan", "selective_path_scan"),
        devices=("cuda",),
        package="mamba_ssm",
    ),
    Implementation(
        "mamba_ssm SSD Triton",
        partial(_load_mamba_ssd, "mamba_chunk_scan_combined", 256, 1),
        ops=_SSD,
        devices=("cuda",),
        package="mamba_ssm",
    ),
)
