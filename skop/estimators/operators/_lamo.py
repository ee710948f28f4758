"""LaMORegressor: the latent Mamba operator as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

from skop._sklearn_compat import Interval, SequenceOf, StrOptions
from skop.data import DataSpec
from skop.estimators._options import Options
from skop.estimators.operators._base import OperatorRegressor
from skop.estimators.operators._tokens import AUTOMATIC_FREQUENCIES, check_centres
from skop.estimators.operators.presets import lamo
from skop.modules import ACTIVATIONS, SCAN_DIRECTIONS, automatic_patch_size
from skop.networks import LaMOPatchNetwork, LaMOPointNetwork, OperatorNetwork

__all__ = ["LaMOArchitecture", "LaMORegressor"]

_GRID, _POINTS = ("grid",), ("structured", "points")


@dataclass(kw_only=True, eq=False, repr=False)
class LaMOArchitecture(Options):
    """Details of LaMO's networks, which mainly the published configurations change.

    Some parameters have an effect only for data of certain geometries, see `skop.LaMORegressor`. "Grids only" means the
    geometry ``"grid"``, and "points only" the geometries ``"points"`` and ``"structured"``. A fit warns if a parameter
    that was changed has no effect.

    Parameters
    ----------
    expand : int, default=2
        Inner width of a block as a multiple of `width` (paper: 2; public code: 1 for the airfoil).
    mlp_ratio : float, default=2.0
        Number of hidden units of the feed-forward networks, as a multiple of `width` (public code: 4 on grids, 1 or 2
        on points).
    scan_directions : {"forward", "bidirectional", "cross", "row_corners", "corners", "all"}, default="cross"
        Directions in which the token grid is scanned, see `skop.modules.direction_set`. Grids only. The unidirectional
        and bidirectional rows of the paper's Table 7 are not reproduced by this parameter, because the public code
        keeps four paths with separate weights for them.
    path_weights : {"own", "own_steps", "shared"}, default="own_steps"
        Weights that each path has for itself: all (public code), steps and decays, or none. Grids only.
    kernel_size : int, default=3
        Size of the depthwise convolution before the scans along each axis, odd; 1 omits it. Grids only.
    activation : {"gelu", "silu"}, default="gelu"
        Activation of the convolution and of the gate (public code: GELU; paper: SiLU). Grids only.
    decay_range : sequence of two floats, default=(0.05, 1.0)
        Slowest and fastest initial decay rate of the heads of a path (public code: all 1). Grids only.
    positional_encoding : {"learned", "coordinates"} or None, default="coordinates"
        Positional encoding of the tokens: a learned table, with which the model can be used on its training grid only
        (public code; the paper mentions no positional encoding); a function of the coordinates; or none, except for the
        coordinates among the input channels. Grids only.
    n_frequencies : int or "auto", default="auto"
        Number of frequencies pi, 2 pi, 4 pi, ... of the sines and cosines of the coordinates, in the positional
        encoding of a grid and among the input channels of points (public code: 0). ``"auto"`` is 1 for grids and 4 for
        points.
    conv_channels : int, default=16
        Number of channels of two convolutions over neighbouring points: one before the patch embedding, and one after
        the unembedding, which also reads the input grid. They combine points across the edges of patches, and pass
        local detail of the input around the blocks; 0 omits both (paper). Grids only.
    pad_to_multiple : int, default=1
        Divisor of the number of points along each axis after padding (public code: 85 points are padded to 88). Grids
        only.
    patch_init : {"default", "normal"}, default="default"
        Initial weights of patch embedding and unembedding: PyTorch's default, or N(0, 1) (public code). Grids only.
    n_latent_heads : int, default=4
        Number of heads of the map from points to latent tokens, a divisor of `width` (public code: 8). Points only.
    n_centred_heads : int, default=2
        Number of these heads whose latent tokens also have centres in space (public code: 0). Without centres, all
        latent tokens are initially nearly the same mean of all points, and training starts slowly for operators in
        which every output depends on every input. Needs ``scaling__coords="box"``. Points only.
    weight_init : {"default", "trunc_normal"}, default="default"
        Initial weights: PyTorch's default, or a truncated normal distribution of standard deviation 0.02 (public code).
        Points only.
    mixer : {"hydra", "mamba2"} or str, default="hydra"
        Mixer of the latent tokens: the quasi-separable mixer Hydra (paper: elasticity, airfoil), the mean of a
        forward and a backward Mamba-2 scan (plasticity, pipe), or another of `skop.modules.MIXERS`. Points only.
    shared_projections : bool, default=True
        Whether all blocks use the same weights for mapping points to latent tokens (paper, Table 7: elasticity,
        airfoil). Points only.
    temperature : float, default=0.5
        Initial temperature of the softmax over latent tokens, which is learned for each head (public code: 0.5). Points
        only.
    normalize_latents : bool, default=True
        Whether each latent token is divided by the sum of its weights, as in the public code but not in Eq. 10. Points
        only.
    decoder : {"encoder_weights", "own_softmax"}, default="encoder_weights"
        Weights of the decoder from latent tokens to points: those of the encoder (public code), or a separate softmax
        (Eq. 14 and 15). Points only.
    parameter_embedding : {"channels", "sinusoidal"}, default="channels"
        Embedding of global parameters: as further input channels, or as sines and cosines that pass through a small
        network and are added to the features of every point (public code, for the time of plasticity). Points only.

    Examples
    --------
    >>> from skop import LaMOArchitecture, LaMORegressor
    >>> LaMORegressor(architecture=LaMOArchitecture(mixer="mamba2")).get_params()["architecture__mixer"]
    'mamba2'
    """

    expand: int = 2
    mlp_ratio: float = 2.0
    scan_directions: str = "cross"
    path_weights: str = "own_steps"
    kernel_size: int = 3
    activation: str = "gelu"
    decay_range: Any = (0.05, 1.0)
    positional_encoding: str | None = "coordinates"
    n_frequencies: int | str = "auto"
    conv_channels: int = 16
    pad_to_multiple: int = 1
    patch_init: str = "default"
    n_latent_heads: int = 4
    n_centred_heads: int = 2
    weight_init: str = "default"
    mixer: str = "hydra"
    shared_projections: bool = True
    temperature: float = 0.5
    normalize_latents: bool = True
    decoder: str = "encoder_weights"
    parameter_embedding: str = "channels"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "expand": [Interval(Integral, 1, 64, closed="both")],
        "mlp_ratio": [Interval(Real, 0, 1024, closed="right")],
        "scan_directions": [StrOptions(set(SCAN_DIRECTIONS))],
        "path_weights": [StrOptions({"own", "own_steps", "shared"})],
        "kernel_size": [Interval(Integral, 1, 1025, closed="both")],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "decay_range": [SequenceOf(Real, 2)],
        "positional_encoding": [StrOptions({"learned", "coordinates"}), None],
        "n_frequencies": [StrOptions({"auto"}), Interval(Integral, 0, 64, closed="both")],
        "conv_channels": [Interval(Integral, 0, 16384, closed="both")],
        "pad_to_multiple": [Interval(Integral, 1, 1024, closed="both")],
        "patch_init": [StrOptions({"default", "normal"})],
        "n_latent_heads": [Interval(Integral, 1, 1024, closed="both")],
        "n_centred_heads": [Interval(Integral, 0, 1024, closed="both")],
        "weight_init": [StrOptions({"default", "trunc_normal"})],
        "mixer": [str],
        "shared_projections": ["boolean"],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "normalize_latents": ["boolean"],
        "decoder": [StrOptions({"encoder_weights", "own_softmax"})],
        "parameter_embedding": [StrOptions({"channels", "sinusoidal"})],
    }


@dataclass(kw_only=True, eq=False, repr=False)
class LaMORegressor(OperatorRegressor):
    """LaMO, the latent Mamba operator, for fields on grids, meshes and point clouds.

    On a regular grid, patches become tokens, residual blocks mix the tokens by state-space scans along several paths
    over the grid, and every token is expanded to the points of its patch. On other points, each block pools the points
    into latent tokens with learned weights, mixes these by a bidirectional scan, and updates every point with a
    combination of them; samples may then differ in their points. Inputs can be fields, global parameters, the geometry
    alone, or all of them. Outputs are fields on the points of the input, scalars of each sample, or both. The default
    values are chosen for a few hundred samples on a laptop; `from_preset` gives the published configurations.

    Parameters
    ----------
    width : int, default=64
        Size of a token (paper: 64 for Darcy, 256 for Navier-Stokes).
    depth : int, default=2
        Number of blocks (paper: 8).
    patch_size : int or "auto", default="auto"
        Number of points of a patch along each axis of a grid (paper: 2). The number of tokens, and with it the cost, is
        inversely proportional to the number of points of a patch. ``"auto"`` is the smallest size of at least 2 that
        gives at most 64 tokens, so that a CPU can train in minutes. Smaller patches resolve more detail.
    n_latents : int, default=32
        Number of latent tokens, for points and for curvilinear grids (paper: 64).
    d_state : int, default=16
        Number of states of each channel (paper: 64).
    n_heads : int or None, default=None
        Number of heads of each scan, a divisor of the inner width. None gives ceil(width / 16) on grids; on points one
        head for about 64 inner channels with the mixer ``"hydra"``, and for about 32 with ``"mamba2"``.
    dropout : float, default=0.0
        Dropout probability in the blocks, in [0, 1).
    subsample_points : int or None, default=None
        Number of points drawn at random from each sample in every training step, for points that form no grid; None
        uses all. It saves time and memory on large point sets, where fields vary little between neighbouring points.
    architecture : LaMOArchitecture or None, default=None
        Further details of the network; None takes the defaults of `skop.LaMOArchitecture`.

    See Also
    --------
    skop.load : Load a saved estimator.
    skop.metrics.neg_relative_l2_scorer : Scorer for searches.

    Notes
    -----
    Time and memory grow linearly with the number of points. A prediction does not depend on the other
    samples of its batch.

    References
    ----------
    K. Tiwari, N. Dutta, N. M. A. Krishnan, A. P. Prathosh, "Latent Mamba Operator for Partial
    Differential Equations", ICML 2025.

    Examples
    --------
    >>> from skop import LaMORegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> model = LaMORegressor(width=16, depth=1, max_iter=20, random_state=0).fit(X[:20], y[:20])
    >>> model.predict(X[20:]).shape
    (4, 16, 16, 1)
    """

    width: int = 64
    depth: int = 2
    patch_size: int | str = "auto"
    n_latents: int = 32
    d_state: int = 16
    n_heads: int | None = None
    dropout: float = 0.0
    subsample_points: int | None = None
    architecture: LaMOArchitecture | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OperatorRegressor._parameter_constraints,
        "width": [Interval(Integral, 1, 65536, closed="both")],
        "depth": [Interval(Integral, 1, 256, closed="both")],
        "patch_size": [StrOptions({"auto"}), Interval(Integral, 1, 16384, closed="both")],
        "n_latents": [Interval(Integral, 1, 65536, closed="both")],
        "d_state": [Interval(Integral, 1, 4096, closed="both")],
        "n_heads": [Interval(Integral, 1, 4096, closed="both"), None],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "subsample_points": [Interval(Integral, 1, None, closed="left"), None],
        "architecture": [LaMOArchitecture, None],
    }
    _presets = lamo.PRESETS
    _option_types = {**OperatorRegressor._option_types, "architecture": LaMOArchitecture}
    _effective_on = {
        **OperatorRegressor._effective_on,
        "patch_size": _GRID,
        "n_latents": _POINTS,
        **{f"architecture__{name}": _GRID for name in (
            "scan_directions", "path_weights", "kernel_size", "activation", "decay_range", "positional_encoding",
            "conv_channels", "pad_to_multiple", "patch_init",
        )},
        **{f"architecture__{name}": _POINTS for name in (
            "n_latent_heads", "n_centred_heads", "weight_init", "mixer", "shared_projections", "temperature",
            "normalize_latents", "decoder", "parameter_embedding",
        )},
    }  # fmt: skip

    def _build_network(self, spec: DataSpec, geometry: str) -> OperatorNetwork:
        """Build the patch network or the point network for the data."""
        if geometry != "grid":
            check_centres(self._options("architecture").n_centred_heads, self._options("scaling").coords)
        options = self._network_options(spec, geometry)
        if options["n_frequencies"] == "auto":
            options["n_frequencies"] = AUTOMATIC_FREQUENCIES[geometry]
        options |= {name: getattr(self, name) for name in ("width", "depth", "d_state", "n_heads", "dropout")}
        if geometry != "grid":
            return LaMOPointNetwork(structured=geometry == "structured", n_latents=self.n_latents, **options)
        grid_shape = spec.grid_shape or ()
        patch_size = automatic_patch_size(self.patch_size, grid_shape)
        return LaMOPatchNetwork(grid_shape=grid_shape, patch_size=patch_size, **options)
