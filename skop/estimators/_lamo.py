"""LaMORegressor: the latent Mamba operator as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

from skop._sklearn_compat import Interval, StrOptions
from skop.data import DataSpec
from skop.estimators._base import OperatorRegressor
from skop.estimators._options import Options
from skop.estimators._patches import automatic_patch_size
from skop.estimators.presets import lamo
from skop.modules import ACTIVATIONS, SCAN_DIRECTIONS
from skop.networks import LaMOPatchNetwork, LaMOPointNetwork, OperatorNetwork

__all__ = ["LaMOArchitecture", "LaMORegressor"]

#: Frequencies of coordinates by default.
_AUTOMATIC_FREQUENCIES = {"grid": 1, "structured": 4, "points": 4}
_GRID, _POINTS = ("grid",), ("structured", "points")


@dataclass(kw_only=True, eq=False, repr=False)
class LaMOArchitecture(Options):
    """Parts of LaMO's networks that few users change; the published configurations do.

    Some have an effect on grids only, some on other points only, as their text says; a fit warns where one that was
    changed has none.

    Parameters
    ----------
    expand : int, default=2
        Inner width of a block as a multiple of the token width (paper: 2; public code: 1 for the airfoil).
    mlp_ratio : float, default=2.0
        Hidden size of the feed-forward part as a multiple of the token width (public code: 4 on grids, 1 or 2 on
        other points).
    scan_directions : {"forward", "bidirectional", "cross", "row_corners", "corners", "all"}, default="cross"
        Directions in which the token grid is scanned, see `skop.modules.direction_set`; on grids. (The unidirectional
        and bidirectional rows of the paper's Table 7 are other networks: the public switch keeps four paths with
        weights of their own.)
    path_weights : {"own", "own_steps", "shared"}, default="own_steps"
        Weights that each path has for itself: all of them (public code), its steps and decays, or none; on grids.
    kernel_size : int, default=3
        Points of the depthwise convolution before the scans, along each axis; 1 leaves it out; on grids.
    activation : {"gelu", "silu"}, default="gelu"
        Activation of the convolution and of the gate (public code: GELU; the paper names SiLU); on grids.
    decay_range : sequence of two floats, default=(0.05, 1.0)
        Decay rates per step that the heads of a path start from, slowest and fastest (public code: all 1); on grids.
    positional_encoding : {"learned", "coordinates"} or None, default="coordinates"
        Positional encoding of the tokens: a learned table, which ties the model to its training grid (public code; the
        paper has no positional encoding), a network of the coordinates, or none beyond the coordinates among the input
        channels; on grids.
    n_frequencies : int or "auto", default="auto"
        Sines and cosines of each coordinate, pi, 2 pi, 4 pi, ...: in the position code of a grid, and among
        the inputs of points (public code: none). ``"auto"`` is 1 for grids and 4 for points.
    conv_channels : int, default=16
        Channels of two convolutions over neighbouring points: one before the patches, which lets features cross patch
        edges, and one after them, which reads the output of the blocks and the input grid itself, so that local
        detail of the input also has a path around all blocks. 0 leaves both out (paper); on grids.
    pad_to_multiple : int, default=1
        Number of points to a multiple of which the grid is padded (public code: 85 points to 88); on grids.
    patch_init : {"default", "normal"}, default="default"
        Initial weights of patch embedding and unembedding: PyTorch's, or N(0, 1) (public code); on grids.
    n_latent_heads : int, default=4
        Heads of the map from points to latent tokens; must divide the width (public code: 8); on points.
    n_centred_heads : int, default=2
        Heads of these, at most all, whose latent tokens also have centres in space, so that they differ from the
        start (public code: none); needs ``scaling__coords="box"``. Latent tokens that look at features alone start
        as nearly the same mean of all points, and maps in which every output depends on every input then start
        slowly; on points.
    weight_init : {"default", "trunc_normal"}, default="default"
        Initial weights: PyTorch's, or a normal distribution of standard deviation 0.02 (public code); on points.
    mixer : {"hydra", "mamba2"}, default="hydra"
        Bidirectional scan over the latent tokens: quasi-separable (paper: elasticity, airfoil), or two Mamba-2
        scans that are averaged (plasticity, pipe); on points.
    shared_projections : bool, default=True
        Whether all blocks map points to latent tokens by the same weights (paper, Table 7: elasticity, airfoil); on
        points.
    temperature : float, default=0.5
        Temperature of the softmax over latent tokens at the start of the training, learned for each head (public
        code: 0.5); on points.
    normalize_latents : bool, default=True
        Whether each latent token is divided by the weights of its points, as the public code does and Eq. 10 does
        not; on points.
    decoder : {"encoder_weights", "own_softmax"}, default="encoder_weights"
        Weights by which points read the latent tokens: those that made them (public code), or a softmax of
        their own (Eq. 14 and 15); on points.
    parameter_embedding : {"channels", "sinusoidal"}, default="channels"
        Embedding of global parameters: further input channels, or sines and cosines through a small network,
        added to the features of every point (public code, for the time of plasticity); on points.

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
        "expand": [Interval(Integral, 1, None, closed="left")],
        "mlp_ratio": [Interval(Real, 0, None, closed="neither")],
        "scan_directions": [StrOptions(set(SCAN_DIRECTIONS))],
        "path_weights": [StrOptions({"own", "own_steps", "shared"})],
        "kernel_size": [Interval(Integral, 1, None, closed="left")],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "decay_range": ["array-like"],
        "positional_encoding": [StrOptions({"learned", "coordinates"}), None],
        "n_frequencies": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "conv_channels": [Interval(Integral, 0, None, closed="left")],
        "pad_to_multiple": [Interval(Integral, 1, None, closed="left")],
        "patch_init": [StrOptions({"default", "normal"})],
        "n_latent_heads": [Interval(Integral, 1, None, closed="left")],
        "n_centred_heads": [Interval(Integral, 0, None, closed="left")],
        "weight_init": [StrOptions({"default", "trunc_normal"})],
        "mixer": [StrOptions({"hydra", "mamba2"})],
        "shared_projections": ["boolean"],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "normalize_latents": ["boolean"],
        "decoder": [StrOptions({"encoder_weights", "own_softmax"})],
        "parameter_embedding": [StrOptions({"channels", "sinusoidal"})],
    }


@dataclass(kw_only=True, eq=False, repr=False)
class LaMORegressor(OperatorRegressor):
    """LaMO, the latent Mamba operator, for fields on grids, meshes and point clouds.

    On a regular grid, patches become tokens, residual blocks mix the tokens by state-space scans along
    several paths over the grid, and every token is expanded back to the points of its patch. On other
    points, soft groups of the points become latent tokens, a bidirectional scan mixes them, and every point
    reads back the latent tokens that it belongs to; samples may then differ in their points. Inputs may be
    fields, global parameters, the geometry alone, or all of them; outputs are fields on the points of the
    input, a few scalars of each sample, or both. The defaults are ours, for a few hundred samples on a
    laptop; `from_preset` gives the published configurations.

    Parameters
    ----------
    width : int, default=64
        Size of a token (paper: 64 for Darcy, 256 for Navier-Stokes).
    depth : int, default=4
        Number of blocks (paper: 8).
    patch_size : int or "auto", default="auto"
        Points of a patch along each axis of a grid (paper: 2). Cost falls with its power of the dimension.
        ``"auto"`` is the smallest of at least 2 that leaves at most 64 tokens, which a CPU still
        trains in minutes; on a GPU, or with patience, smaller patches resolve more.
    n_latents : int, default=32
        Number of latent tokens of points and bent grids (paper: 64).
    d_state : int, default=16
        States of a scan head (paper: 64).
    n_heads : int or None, default=None
        Heads of each scan path; must divide the inner width. None gives ceil(width / 16) on grids; on other points
        one for each 64 inner channels with the mixer ``"hydra"``, and for each 32 with ``"mamba2"``.
    dropout : float, default=0.0
        Dropout in the blocks, in [0, 1).
    subsample_points : int or None, default=None
        Number of random points of each sample in a training step, drawn anew each time, for points that form no
        grid. It saves time and memory on large point sets, since fields vary little between neighbours.
    architecture : LaMOArchitecture or None, default=None
        Further parts of the network; None takes the defaults of `skop.LaMOArchitecture`.

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
    depth: int = 4
    patch_size: int | str = "auto"
    n_latents: int = 32
    d_state: int = 16
    n_heads: int | None = None
    dropout: float = 0.0
    subsample_points: int | None = None
    architecture: LaMOArchitecture | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OperatorRegressor._parameter_constraints,
        "width": [Interval(Integral, 1, None, closed="left")],
        "depth": [Interval(Integral, 1, None, closed="left")],
        "patch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "n_latents": [Interval(Integral, 1, None, closed="left")],
        "d_state": [Interval(Integral, 1, None, closed="left")],
        "n_heads": [Interval(Integral, 1, None, closed="left"), None],
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
        self._check_centres(geometry)
        options = self._network_options(spec, geometry)
        if options["n_frequencies"] == "auto":
            options["n_frequencies"] = _AUTOMATIC_FREQUENCIES[geometry]
        options |= {name: getattr(self, name) for name in ("width", "depth", "d_state", "n_heads", "dropout")}
        if geometry != "grid":
            return LaMOPointNetwork(structured=geometry == "structured", n_latents=self.n_latents, **options)
        grid_shape = spec.grid_shape or ()
        patch_size = automatic_patch_size(self.patch_size, grid_shape)
        return LaMOPatchNetwork(grid_shape=grid_shape, patch_size=patch_size, **options)

    def _check_centres(self, geometry: str) -> None:
        """Raise if latent tokens have centres in a box that coordinates are not brought to."""
        n_centred, coords = self._options("architecture").n_centred_heads, self._options("scaling").coords
        if geometry != "grid" and n_centred and coords != "box":
            raise ValueError(
                f"architecture__n_centred_heads={n_centred} has centres in the box of the training points, which "
                f"scaling__coords={coords!r} does not bring to them; set scaling__coords='box' or "
                "architecture__n_centred_heads=0."
            )
