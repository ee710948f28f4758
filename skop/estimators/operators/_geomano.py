"""GeoMaNORegressor: the geometric Mamba neural operator as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

from skop._sklearn_compat import Interval, SequenceOf, StrOptions
from skop.data import DataSpec
from skop.estimators._options import Options
from skop.estimators.operators._base import OperatorRegressor
from skop.estimators.operators._tokens import refuse_scattered_points
from skop.estimators.operators.presets import geomano
from skop.modules import (
    ACTIVATIONS,
    CORRECTION_PLACES,
    DIRECTION_ORDERS,
    RECURRENCES,
    SCAN_DIRECTIONS,
    automatic_patch_size,
)
from skop.networks import GeoMaNONetwork, OperatorNetwork

__all__ = ["GeoMaNOArchitecture", "GeoMaNORegressor"]


@dataclass(kw_only=True, eq=False, repr=False)
class GeoMaNOArchitecture(Options):
    """Details of GeoMaNO's network, which mainly the published configurations change.

    Parameters
    ----------
    expand : int, default=2
        Inner width of a block as a multiple of `width` (paper: 1 according to the shapes in Algorithm 1, but the memory
        in Table 2 suggests 2).
    mlp_ratio : float, default=2.0
        Number of hidden units of the feed-forward networks, as a multiple of `width` (paper: not stated).
    dt_rank : int or None, default=None
        Rank of the projection to the steps; None gives ceil(width / 16), as in VMamba.
    scan_directions : {"forward", "bidirectional", "cross", "row_corners", "corners", "all"}, default="cross"
        Directions of the scans, see `skop.modules.direction_set` (paper: ``"cross"``).
    direction_order : {"paper", "vmamba"}, default="paper"
        Order of the directions, to which the digits of `correction` refer. ``"paper"``: rows, reversed rows, columns,
        reversed columns, as in sections 4.2 and 4.3. ``"vmamba"``: rows, columns, reversed rows, reversed columns.
    correction_at : {"state", "output", "input"}, default="state"
        Quantity that the correction is subtracted from, see `skop.modules.GeometricScanMixer`. ``"state"``: as section
        4.3 argues, although no formula prints it. ``"output"``: as Eqs. 9 and 10 print it. ``"input"``: as line 24 of
        Algorithm 2 prints it.
    kernel_size : int, default=3
        Size of the depthwise convolution before the scans along each axis, odd; 1 omits it.
    activation : {"silu", "gelu"}, default="gelu"
        Activation of the convolution, of the gate and, with `activate_output`, of the output (paper: not stated).
    separate_gate : bool, default=True
        Whether the gate has its own projection, as in VMamba, or shares that of the scanned signal (paper).
    activate_output : bool, default=False
        Whether the normalised output of the scans is activated before it is multiplied by the gate (paper: yes; VMamba:
        no).
    step_range : sequence of two floats, default=(0.5, 1.0)
        Smallest and largest initial step of the channels (Mamba: 0.001 to 0.1).
    decay_range : sequence of two floats or None, default=(0.05, 1.0)
        Slowest and fastest initial decay rate of a channel's states; None gives 1 to `d_state`, as in Mamba. From one
        token to the next a state is multiplied by exp(-rate * step).
    positional_encoding : {"learned", "coordinates"} or None, default=None
        Positional encoding of the tokens: a learned table, with which the model can be used on its training grid only;
        a function of the coordinates; or none, except for `coordinate_channels` (paper: none for Darcy, an encoding for
        Navier-Stokes).
    n_frequencies : int, default=1
        Number of frequencies pi, 2 pi, 4 pi, ... of the sines and cosines in the encoding ``"coordinates"``.
    coordinate_channels : bool, default=True
        Whether coordinates are input channels beside fields and global parameters.
    lifting_width : int, default=0
        Number of channels to which a feed-forward network lifts every point before the patch embedding (paper:
        `width`); 0 omits it.
    conv_channels : int, default=16
        Number of channels of two convolutions over neighbouring points: one before the patch embedding, and one after
        the unembedding, which also reads the input grid. They combine points across the edges of patches; 0 omits both
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
        "expand": [Interval(Integral, 1, 64, closed="both")],
        "mlp_ratio": [Interval(Real, 0, 1024, closed="right")],
        "dt_rank": [Interval(Integral, 1, 16384, closed="both"), None],
        "scan_directions": [StrOptions(set(SCAN_DIRECTIONS))],
        "direction_order": [StrOptions(set(DIRECTION_ORDERS))],
        "correction_at": [StrOptions(set(CORRECTION_PLACES))],
        "kernel_size": [Interval(Integral, 1, 1025, closed="both")],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "separate_gate": ["boolean"],
        "activate_output": ["boolean"],
        "step_range": [SequenceOf(Real, 2)],
        "decay_range": [SequenceOf(Real, 2), None],
        "positional_encoding": [StrOptions({"learned", "coordinates"}), None],
        "n_frequencies": [Interval(Integral, 0, 64, closed="both")],
        "coordinate_channels": ["boolean"],
        "lifting_width": [Interval(Integral, 0, 65536, closed="both")],
        "conv_channels": [Interval(Integral, 0, 16384, closed="both")],
    }


@dataclass(kw_only=True, eq=False, repr=False)
class GeoMaNORegressor(OperatorRegressor):
    """GeoMaNO, the geometric Mamba neural operator, for fields on regular grids, and on points by resampling to a grid.

    Patches of the grid become tokens. Residual blocks mix the tokens by selective state-space scans in several
    directions, along the axes of the grid or along the flattened grid, with a correction for counting tokens several
    times. Every token is then expanded to the points of its patch. Grids have one to three axes of any length. Inputs
    can be fields, global parameters, the geometry alone, or all of them. Outputs are fields on the points of the input,
    scalars of each sample, or both. The default values are chosen for a few hundred samples on a laptop; `from_preset`
    gives the published configurations.

    Parameters
    ----------
    geometry : {"auto", "grid", "structured"}, default="auto"
        Arrangement of the points of a grid. ``"grid"``: rectilinear, where predictions on finer grids are possible by
        `refinement`. ``"structured"``: curvilinear. ``"auto"`` detects which of them it is.
    width : int, default=64
        Size of a token (paper: 64 for Darcy, 256 for Navier-Stokes).
    depth : int, default=2
        Number of blocks (paper: 8).
    patch_size : int or "auto", default="auto"
        Number of points of a patch along each axis (paper: not stated). The number of tokens, and with it the cost, is
        inversely proportional to the number of points of a patch. ``"auto"`` is the smallest size of at least 2 that
        gives at most 64 tokens, so that a CPU can train in minutes. Smaller patches resolve more detail.
    d_state : int, default=2
        Number of states of a channel (paper: 16); the cost of the scans is proportional to it.
    recurrence : {"sequence", "grid"}, default="sequence"
        Order of the recurrence. ``"grid"``: along one axis of the grid after the other, so that neighbouring cells stay
        neighbours (paper: Darcy). ``"sequence"``: along the flattened grid, which is faster on a CPU (paper:
        Navier-Stokes).
    correction : {"learnable"}, str of digits, or None, default="learnable"
        Correction of the sum over the directions, in which the own token of a cell is counted once for each direction.
        None: no correction. ``"learnable"``: a learned share is removed for each direction, channel and state. Digits,
        one for each direction: the own token is removed where the digit is 1, as in ``"0011"`` (paper: ``"0011"`` for
        Darcy, learnable for Navier-Stokes).
    dropout : float, default=0.0
        Dropout probability in the blocks, in [0, 1).
    architecture : GeoMaNOArchitecture or None, default=None
        Further details of the network; None takes the defaults of `skop.GeoMaNOArchitecture`.

    See Also
    --------
    skop.LaMORegressor : For meshes and point clouds too.
    skop.load : Load a saved estimator.
    skop.metrics.neg_relative_l2_scorer : Scorer for searches.

    Notes
    -----
    Time and memory grow linearly with the number of points. A prediction does not depend on the other samples of its
    batch. On a curvilinear grid the scans follow the grid lines, and the coordinates are input channels.

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
    depth: int = 2
    patch_size: int | str = "auto"
    d_state: int = 2
    recurrence: str = "sequence"
    correction: str | None = "learnable"
    dropout: float = 0.0
    architecture: GeoMaNOArchitecture | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OperatorRegressor._parameter_constraints,
        "geometry": [StrOptions({"auto", "grid", "structured"})],
        "width": [Interval(Integral, 1, 65536, closed="both")],
        "depth": [Interval(Integral, 1, 256, closed="both")],
        "patch_size": [StrOptions({"auto"}), Interval(Integral, 1, 16384, closed="both")],
        "d_state": [Interval(Integral, 1, 4096, closed="both")],
        "recurrence": [StrOptions(set(RECURRENCES))],
        "correction": [str, None],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "architecture": [GeoMaNOArchitecture, None],
    }
    _presets = geomano.PRESETS
    _option_types = {**OperatorRegressor._option_types, "architecture": GeoMaNOArchitecture}

    def _choose_geometry(self, spec: DataSpec) -> str:
        """Return ``"grid"`` or ``"structured"``; raise an error for points without a grid."""
        refuse_scattered_points(spec, "GeoMaNORegressor scans")
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
