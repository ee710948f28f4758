"""GeoMaNORegressor: the geometric Mamba neural operator as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

from skop._sklearn_compat import Interval, StrOptions
from skop.data import DataSpec
from skop.estimators._base import OperatorRegressor
from skop.estimators._options import Options
from skop.estimators._patches import automatic_patch_size
from skop.estimators.presets import geomano
from skop.exceptions import FieldDataError
from skop.modules import ACTIVATIONS, CORRECTION_PLACES, DIRECTION_ORDERS, RECURRENCES, SCAN_DIRECTIONS
from skop.networks import GeoMaNONetwork, OperatorNetwork

__all__ = ["GeoMaNOArchitecture", "GeoMaNORegressor"]


@dataclass(kw_only=True, eq=False, repr=False)
class GeoMaNOArchitecture(Options):
    """Parts of GeoMaNO's network that few users change; the published configurations do.

    Parameters
    ----------
    expand : int, default=2
        Inner width of a block as a multiple of the token width (paper: the shapes of its Algorithm 1 read as 1, the
        memory in its Table 2 supports 2).
    mlp_ratio : float, default=2.0
        Hidden size of the feed-forward part as a multiple of the token width (paper: not stated).
    dt_rank : int or None, default=None
        Rank of the projection to the steps; None is ceil(width / 16), as in VMamba.
    scan_directions : {"forward", "bidirectional", "cross", "row_corners", "corners", "all"}, default="cross"
        Directions of the scans, see `skop.modules.direction_set`: from two opposite corners (paper: cross), once
        from every corner, or from every corner with each axis in turn the fastest, among others.
    direction_order : {"paper", "vmamba"}, default="paper"
        Direction that a digit of `correction` stands for: rows, reversed rows, columns, reversed columns, as the
        paper numbers them in sections 4.2 and 4.3; or rows, columns, reversed rows, reversed columns, as VMamba
        stacks them.
    correction_at : {"state", "output", "input"}, default="state"
        Place where the correction is taken off, see `skop.modules.GeometricScanMixer`: at the state, as the argument of
        section 4.3 asks and no formula of the paper prints; at the output, as Eqs. 9 and 10 print it; or at the input,
        as line 24 of Algorithm 2 prints it.
    kernel_size : int, default=3
        Points of the depthwise convolution before the scans, along each axis; 1 leaves it out.
    activation : {"silu", "gelu"}, default="gelu"
        Activation of the convolution, the gate and, if it is activated, the output (paper: not stated).
    separate_gate : bool, default=True
        Whether the gate has a projection of its own, as in VMamba, or is the stream that is scanned (paper).
    activate_output : bool, default=False
        Whether the normalised output of the scans is activated before it is gated (paper: yes; VMamba: no).
    step_range : sequence of two floats, default=(0.5, 1.0)
        Steps that the channels start from, smallest and largest (Mamba: 0.001 to 0.1).
    decay_range : sequence of two floats or None, default=(0.05, 1.0)
        Decay rates that the states of a channel start from, slowest and fastest; None is 1 to `d_state`, as in
        Mamba. A state forgets by the exponential of -rate x step from token to token.
    positional_encoding : {"learned", "coordinates"} or None, default=None
        Position code of the tokens: a table that ties the model to its training grid, a network of the
        coordinates, or none beside `coordinate_channels` (paper: none for Darcy, one for Navier-Stokes).
    n_frequencies : int, default=1
        Sines and cosines of each coordinate in the position code ``"coordinates"``: pi, 2 pi, 4 pi, ...
    coordinate_channels : bool, default=True
        Whether coordinates are input channels beside fields and parameters.
    lifting_width : int, default=0
        Size to which a feed-forward network lifts every point before the patches (paper: the token width);
        0 leaves it out.
    conv_channels : int, default=16
        Channels of two convolutions over neighbouring points: one before the patches, which lets features cross patch
        edges, and one after them, which reads the output of the blocks and the input grid itself. 0 leaves both out
        (paper).

    Examples
    --------
    >>> from skop import GeoMaNOArchitecture, GeoMaNORegressor
    >>> GeoMaNORegressor(architecture=GeoMaNOArchitecture(expand=1)).architecture.direction_order
    'paper'
    """

    expand: int = 2
    mlp_ratio: float = 2.0
    dt_rank: int | None = None
    scan_directions: str = "cross"
    direction_order: str = "paper"
    correction_at: str = "state"
    kernel_size: int = 3
    activation: str = "gelu"
    separate_gate: bool = True
    activate_output: bool = False
    step_range: Any = (0.5, 1.0)
    decay_range: Any = (0.05, 1.0)
    positional_encoding: str | None = None
    n_frequencies: int = 1
    coordinate_channels: bool = True
    lifting_width: int = 0
    conv_channels: int = 16

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "expand": [Interval(Integral, 1, None, closed="left")],
        "mlp_ratio": [Interval(Real, 0, None, closed="neither")],
        "dt_rank": [Interval(Integral, 1, None, closed="left"), None],
        "scan_directions": [StrOptions(set(SCAN_DIRECTIONS))],
        "direction_order": [StrOptions(set(DIRECTION_ORDERS))],
        "correction_at": [StrOptions(set(CORRECTION_PLACES))],
        "kernel_size": [Interval(Integral, 1, None, closed="left")],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "separate_gate": ["boolean"],
        "activate_output": ["boolean"],
        "step_range": ["array-like"],
        "decay_range": ["array-like", None],
        "positional_encoding": [StrOptions({"learned", "coordinates"}), None],
        "n_frequencies": [Interval(Integral, 0, None, closed="left")],
        "coordinate_channels": ["boolean"],
        "lifting_width": [Interval(Integral, 0, None, closed="left")],
        "conv_channels": [Interval(Integral, 0, None, closed="left")],
    }


@dataclass(kw_only=True, eq=False, repr=False)
class GeoMaNORegressor(OperatorRegressor):
    """GeoMaNO, the geometric Mamba neural operator, for fields on regular grids, and on points by way of one.

    Patches of the grid become tokens; residual blocks mix them by selective state-space scans that cross
    the grid in several directions, along its axes or flattened, and take off what the directions count
    twice; every token is expanded back to the points of its patch. Grids have one to three axes of any
    length. Inputs may be fields, global parameters, the geometry alone, or all of them; outputs are fields
    on the points of the input, a few scalars of each sample, or both. The defaults are ours, for a few
    hundred samples on a laptop; `from_preset` gives the published configurations.

    Parameters
    ----------
    geometry : {"auto", "grid", "structured"}, default="auto"
        Reading of the points of a grid: as a rectilinear grid, on which finer grids are predicted through the
        training spacing, or as one that is bent; ``"auto"`` finds out.
    width : int, default=64
        Size of a token (paper: 64 for Darcy, 256 for Navier-Stokes).
    depth : int, default=4
        Number of blocks (paper: 8).
    patch_size : int or "auto", default="auto"
        Points of a patch along each axis (paper: not stated). Cost falls with its power of
        the dimension. ``"auto"`` is the smallest of at least 2 that leaves at most 64 tokens, which a CPU
        still trains in minutes; on a GPU, or with patience, smaller patches resolve more.
    d_state : int, default=2
        States of a channel (paper: 16); the cost of the scans grows with it.
    recurrence : {"sequence", "grid"}, default="sequence"
        Recurrence of the scans. ``"grid"`` runs along one axis of the grid after the other, so that neighbours in
        any direction stay neighbours (paper: Darcy); ``"sequence"`` runs along the flattened grid (Navier-Stokes),
        which is faster on a CPU.
    correction : {"learnable"}, str of digits, or None, default="learnable"
        Part that is taken off the sum of the directions, which holds the own token of a cell once for each:
        nothing, a learned share of each direction, channel and state, or all of it in the directions
        whose digit is 1, such as ``"0011"`` (paper: ``"0011"`` for Darcy, learnable for Navier-Stokes).
    dropout : float, default=0.0
        Dropout in the blocks, in [0, 1).
    architecture : GeoMaNOArchitecture or None, default=None
        Further parts of the network; None takes the defaults of `skop.GeoMaNOArchitecture`.

    See Also
    --------
    skop.LaMORegressor : For meshes and point clouds too.
    skop.load : Load a saved estimator.
    skop.metrics.neg_relative_l2_scorer : Scorer for searches.

    Notes
    -----
    Time and memory grow linearly with the number of points. A prediction does not depend on the other
    samples of its batch. On a bent grid, whose points form lines but no rectangle, the scans follow the
    lines and the coordinates are input channels.

    References
    ----------
    X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for partial
    differential equations", 2025.

    Examples
    --------
    >>> from skop import GeoMaNORegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> model = GeoMaNORegressor(width=16, depth=1, max_iter=20, random_state=0).fit(X[:20], y[:20])
    >>> model.predict(X[20:]).shape
    (4, 16, 16, 1)
    """

    width: int = 64
    depth: int = 4
    patch_size: int | str = "auto"
    d_state: int = 2
    recurrence: str = "sequence"
    correction: str | None = "learnable"
    dropout: float = 0.0
    architecture: GeoMaNOArchitecture | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OperatorRegressor._parameter_constraints,
        "geometry": [StrOptions({"auto", "grid", "structured"})],
        "width": [Interval(Integral, 1, None, closed="left")],
        "depth": [Interval(Integral, 1, None, closed="left")],
        "patch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "d_state": [Interval(Integral, 1, None, closed="left")],
        "recurrence": [StrOptions(set(RECURRENCES))],
        "correction": [str, None],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "architecture": [GeoMaNOArchitecture, None],
    }
    _presets = geomano.PRESETS
    _option_types = {**OperatorRegressor._option_types, "architecture": GeoMaNOArchitecture}

    def _choose_geometry(self, spec: DataSpec) -> str:
        """A grid, straight or bent; its scans have nothing to cross on other points."""
        if spec.geometry == "points":
            raise FieldDataError(
                f"GeoMaNORegressor scans regular grids, but the {spec.n_dims}-D points of X form none; set "
                "grid='auto' or a shape such as grid=(64, 64) to resample them, use LaMORegressor, which takes point "
                "clouds and meshes, or sort the points of a grid by skop.data.find_grid(coords)[1]."
            )
        return super()._choose_geometry(spec)

    def _build_network(self, spec: DataSpec, geometry: str) -> OperatorNetwork:
        """Build the network for the data."""
        options = self._network_options(spec, geometry)
        options |= {
            name: getattr(self, name) for name in ("width", "depth", "d_state", "recurrence", "correction", "dropout")
        }
        grid_shape = spec.grid_shape or ()
        patch_size = automatic_patch_size(self.patch_size, grid_shape)
        return GeoMaNONetwork(grid_shape=grid_shape, patch_size=patch_size, **options)
