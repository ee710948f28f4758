"""AMORegressor: the adaptive Mamba neural operator as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from numbers import Integral, Real
from typing import Any, ClassVar

from skop._sklearn_compat import Interval, StrOptions
from skop._typing import GridShape
from skop.data import DataSpec
from skop.estimators._options import Options
from skop.estimators.operators._base import OperatorRegressor
from skop.estimators.operators._tokens import AUTOMATIC_FREQUENCIES, check_centres
from skop.estimators.operators.presets import amo
from skop.exceptions import SkopWarning, warn
from skop.modules import SCAN_DIRECTIONS, TRANSFORMS, automatic_patch_size, token_grid
from skop.networks import AMOPatchNetwork, AMOPointNetwork, OperatorNetwork

__all__ = ["AMOArchitecture", "AMORegressor"]

_GRID, _POINTS = ("grid",), ("structured", "points")
_POINT_PARTS = ("latents", "aggregation", "n_latent_heads", "n_centred_heads", "decoder", "position_network")
#: Choices with which a parameter has an effect; all have to hold.
_ACTS_WITH: dict[str, dict[str, tuple[str, ...]]] = {
    "n_poles": {"transform": TRANSFORMS},
    **{
        f"architecture__{name}": {"transform": TRANSFORMS}
        for name in ("expand", "kernel_size", "scan_directions", "n_pole_heads")
    },
    "architecture__d_state": {"transform": ("coefficients",)},
    "architecture__aggregation": {"latents": ("once",), "transform": TRANSFORMS},
}


@dataclass(kw_only=True, eq=False, repr=False)
class AMOArchitecture(Options):
    """Details of AMO's networks, which mainly the published configurations and ablations change.

    "Grids only" means the geometry ``"grid"``, and "points only" the geometries ``"points"`` and ``"structured"``. A
    fit warns if a parameter that was changed has no effect.

    Parameters
    ----------
    expand : int, default=2
        Inner width of a block as a multiple of `width` (paper: 2).
    mlp_ratio : float, default=2.0
        Number of hidden units of the feed-forward networks, as a multiple of `width` (paper: not stated).
    d_state : int, default=16
        Rank of the map between the channels of each coefficient (paper: a "state size" of 16, whose place is not
        stated); 0 leaves every channel by itself.
    kernel_size : int, default=3
        Size of the depthwise convolution of tokens along each axis; 1 omits it (paper: 4).
    scan_directions : {"forward", "bidirectional", "cross", "row_corners", "corners", "all"}, default="bidirectional"
        Directions in which the tokens are read, each with poles of its own, see `skop.modules.direction_set` (paper,
        Figure 2: unidirectional, bidirectional, multidirectional). Along more than one axis the latent tokens of points
        are arranged as a grid.
    n_pole_heads : int, default=1
        Sets of poles in each direction, each for its share of the channels, a divisor of the inner width.
    adaptive_poles : bool, default=True
        Whether the poles are computed from the tokens of the sample (paper), or fixed random ones (its Table 4).
    orthogonal : bool, default=True
        Whether the functions are orthogonal (Eq. 6), or plain normalised kernels (Eq. 5, the paper's ablation).
    transform : {"coefficients", "filter", "literal"}, default="coefficients"
        Use of the functions: coefficients of the tokens, weighted and added up again (Eq. 11); a filter along the
        tokens (Eq. 9); or the paper's equations as printed, which add one function in each block and learn little.
        ``"literal"`` is for points only.
    max_radius : float, default=0.95
        Largest modulus of a pole, in (0, 1) (paper: below 1).
    latents : {"each_block", "once"}, default="each_block"
        Exchange of points and latent tokens: in each block, by weighted pooling as in LaMO, or once before and once
        after all blocks, by attention (paper), which is cheaper and learns more slowly. Points only.
    aggregation : {"last", "sum"}, default="last"
        What the points read: the latent tokens after the last block, or the sum of those before the first and after
        each block. Points only, with ``latents="once"``.
    n_latent_heads : int, default=4
        Number of heads of the attention between points and latent tokens, a divisor of `width` (paper: not stated).
        Points only.
    n_centred_heads : int, default=2
        Number of these heads whose latent tokens also have centres in space (paper: none). Needs
        ``scaling__coords="box"``. Points only.
    decoder : {"encoder_weights", "own_softmax"}, default="encoder_weights"
        Logits by which points read the latent tokens: those by which these read the points, or those of a second
        attention (paper). Points only.
    n_frequencies : int or "auto", default="auto"
        Number of frequencies pi, 2 pi, 4 pi, ... of the sines and cosines of the coordinates, in the positional
        encoding of a grid and among the input channels of points. ``"auto"`` is 1 for grids and 4 for points.
    position_network : bool, default=False
        Whether the coordinates pass through a network of their own, to which a linear map of the other inputs is added
        (paper, Eq. 3); otherwise all inputs of a point pass through one network. Points only.
    positional_encoding : {"learned", "coordinates"} or None, default="coordinates"
        Positional encoding of the tokens of a grid, see `skop.LaMOArchitecture`. Grids only.
    conv_channels : int, default=16
        Number of channels of two convolutions over neighbouring points, one before the patch embedding, and one after
        the unembedding; 0 omits both. Grids only.

    Examples
    --------
    >>> from skop import AMOArchitecture, AMORegressor
    >>> AMORegressor(architecture=AMOArchitecture(orthogonal=False)).get_params()["architecture__orthogonal"]
    False
    """

    expand: int = 2
    mlp_ratio: float = 2.0
    d_state: int = 16
    kernel_size: int = 3
    scan_directions: str = "bidirectional"
    n_pole_heads: int = 1
    adaptive_poles: bool = True
    orthogonal: bool = True
    transform: str = "coefficients"
    max_radius: float = 0.95
    latents: str = "each_block"
    aggregation: str = "last"
    n_latent_heads: int = 4
    n_centred_heads: int = 2
    decoder: str = "encoder_weights"
    n_frequencies: int | str = "auto"
    position_network: bool = False
    positional_encoding: str | None = "coordinates"
    conv_channels: int = 16

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "expand": [Interval(Integral, 1, 64, closed="both")],
        "mlp_ratio": [Interval(Real, 0, 1024, closed="right")],
        "d_state": [Interval(Integral, 0, 4096, closed="both")],
        "kernel_size": [Interval(Integral, 1, 1025, closed="both")],
        "scan_directions": [StrOptions(set(SCAN_DIRECTIONS))],
        "n_pole_heads": [Interval(Integral, 1, 1024, closed="both")],
        "adaptive_poles": ["boolean"],
        "orthogonal": ["boolean"],
        "transform": [StrOptions({*TRANSFORMS, "literal"})],
        "max_radius": [Interval(Real, 0, 1, closed="neither")],
        "latents": [StrOptions({"each_block", "once"})],
        "aggregation": [StrOptions({"last", "sum"})],
        "n_latent_heads": [Interval(Integral, 1, 1024, closed="both")],
        "n_centred_heads": [Interval(Integral, 0, 1024, closed="both")],
        "decoder": [StrOptions({"encoder_weights", "own_softmax"})],
        "n_frequencies": [StrOptions({"auto"}), Interval(Integral, 0, 64, closed="both")],
        "position_network": ["boolean"],
        "positional_encoding": [StrOptions({"learned", "coordinates"}), None],
        "conv_channels": [Interval(Integral, 0, 16384, closed="both")],
    }


@dataclass(kw_only=True, eq=False, repr=False)
class AMORegressor(OperatorRegressor):
    """AMO, the adaptive Mamba neural operator, for fields on grids, meshes and point clouds.

    Blocks expand tokens in Takenaka-Malmquist systems: orthogonal functions on the unit circle, whose poles are
    computed from the tokens themselves, as in an adaptive Fourier decomposition. On a regular grid the tokens are
    patches. On other points they are latent tokens, which read all points and are read by them, in each block or once
    (``architecture__latents``); samples may then differ in their points. Inputs can be fields, global parameters, the
    geometry alone, or all of them. Outputs are fields on the points of the input or other points, scalars of each
    sample, or both. The default values are chosen for a few hundred samples on a laptop; `from_preset` gives the
    published configuration.

    Parameters
    ----------
    width : int, default=64
        Size of a token (paper: 128).
    depth : int, default=2
        Number of blocks (paper: 4).
    patch_size : int or "auto", default="auto"
        Number of points of a patch along each axis of a grid. ``"auto"`` is the smallest size of at least 2 that gives
        at most 64 tokens, so that a CPU can train in minutes. Smaller patches resolve more detail.
    n_latents : int, default=32
        Number of latent tokens, for points and for curvilinear grids (paper: 64).
    n_poles : int, default=16
        Number of poles of each expansion (paper: 32). More than half of the number of tokens give nothing new; patches
        have at most as many poles as there are patches, with a warning if more are asked for; tables, which are one
        token, have one.
    dropout : float, default=0.0
        Dropout probability in the blocks, in [0, 1).
    subsample_points : int or None, default=None
        Number of points drawn at random from each sample in every training step, for points that form no grid; None
        uses all. It saves time and memory on large point sets, where fields vary little between neighbouring points.
    architecture : AMOArchitecture or None, default=None
        Further details of the network; None takes the defaults of `skop.AMOArchitecture`.

    See Also
    --------
    skop.LaMORegressor : Scans over patches or latent tokens.
    skop.inspection.PoleDisplay : The learned poles in the unit disk.
    skop.load : Load a saved estimator.
    skop.metrics.neg_relative_l2_scorer : Scorer for searches.

    Notes
    -----
    Time and memory grow linearly with the number of points. A prediction does not depend on the other
    samples of its batch.

    References
    ----------
    Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025.

    Examples
    --------
    >>> from skop import AMORegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> model = AMORegressor(width=16, depth=1, max_iter=20, random_state=0).fit(X[:20], y[:20])
    >>> model.predict(X[20:]).shape
    (4, 16, 16, 1)
    """

    width: int = 64
    depth: int = 2
    patch_size: int | str = "auto"
    n_latents: int = 32
    n_poles: int = 16
    dropout: float = 0.0
    subsample_points: int | None = None
    architecture: AMOArchitecture | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OperatorRegressor._parameter_constraints,
        "width": [Interval(Integral, 1, 65536, closed="both")],
        "depth": [Interval(Integral, 1, 256, closed="both")],
        "patch_size": [StrOptions({"auto"}), Interval(Integral, 1, 16384, closed="both")],
        "n_latents": [Interval(Integral, 1, 65536, closed="both")],
        "n_poles": [Interval(Integral, 1, 4096, closed="both")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "subsample_points": [Interval(Integral, 1, None, closed="left"), None],
        "architecture": [AMOArchitecture, None],
    }
    _presets = amo.PRESETS
    _option_types = {**OperatorRegressor._option_types, "architecture": AMOArchitecture}
    _effective_on = {
        **OperatorRegressor._effective_on,
        "patch_size": _GRID,
        "n_latents": _POINTS,
        **{f"architecture__{name}": _GRID for name in ("positional_encoding", "conv_channels")},
        **{f"architecture__{name}": _POINTS for name in _POINT_PARTS},
    }

    def _build_network(self, spec: DataSpec, geometry: str) -> OperatorNetwork:
        """Build the patch network or the point network for the data."""
        architecture = self._options("architecture")
        if architecture.transform == "literal" and (geometry == "grid" or architecture.latents != "once"):
            raise ValueError(
                "architecture__transform='literal' needs latent tokens that read the points once, but the points are "
                f"read as geometry {geometry!r} with architecture__latents={architecture.latents!r}; set "
                "geometry='points' and architecture__latents='once'."
            )
        if geometry != "grid":
            check_centres(architecture.n_centred_heads, self._options("scaling").coords)
        options = self._network_options(spec, geometry)
        if options["n_frequencies"] == "auto":
            options["n_frequencies"] = AUTOMATIC_FREQUENCIES[geometry]
        options |= {name: getattr(self, name) for name in ("width", "depth", "n_poles", "dropout")}
        if geometry != "grid":
            return AMOPointNetwork(structured=geometry == "structured", n_latents=self.n_latents, **options)
        grid_shape, patch_size, n_tokens = self._patches(spec)
        options["n_poles"] = min(self.n_poles, n_tokens)
        return AMOPatchNetwork(grid_shape=grid_shape, patch_size=patch_size, **options)

    def _patches(self, spec: DataSpec) -> tuple[GridShape, int, int]:
        """Return the shape of the grid, the points of a patch along an axis, and the number of patches."""
        grid_shape = spec.grid_shape or ()
        patch_size = automatic_patch_size(self.patch_size, grid_shape)
        return grid_shape, patch_size, prod(token_grid(grid_shape, (patch_size,) * len(grid_shape)))

    def _check_options(self, spec: DataSpec, geometry: str) -> None:
        """Warn of parameters that have no effect on these data and this geometry, or with the other choices."""
        super()._check_options(spec, geometry)
        architecture = self._options("architecture")
        acts_with = dict(_ACTS_WITH)
        if geometry == "grid":
            acts_with["architecture__n_frequencies"] = {"positional_encoding": ("coordinates",)}
        for name, value in self._changed(acts_with).items():
            able = acts_with[name]
            unmet = [part for part in able if getattr(architecture, part) not in able[part]]
            if unmet and geometry in self._effective_on.get(name, (geometry,)):
                chosen = " and ".join(f"architecture__{part}={getattr(architecture, part)!r}" for part in unmet)
                needed = " and ".join(f"architecture__{part}={' or '.join(map(repr, able[part]))}" for part in unmet)
                warn(f"{name}={value!r} has no effect with {chosen}; it acts with {needed}.", SkopWarning)
        if geometry == "grid":
            grid_shape, _, n_tokens = self._patches(spec)
            if 1 < n_tokens < self.n_poles and self._changed(["n_poles"]):
                warn(
                    f"n_poles={self.n_poles} is more than the {n_tokens} patches of the grid {grid_shape}, so that "
                    f"there are {n_tokens} poles; lower n_poles or patch_size.",
                    SkopWarning,
                )
