"""LaMORegressor: the latent Mamba operator as a scikit-learn estimator."""

from inspect import signature
from numbers import Integral, Real
from typing import Any, Self

from sklearn.utils._param_validation import Interval, StrOptions

from skop.data import DataSpec
from skop.estimators._base import BaseOperatorRegressor
from skop.estimators._patches import automatic_patch_size
from skop.estimators._shared_docs import share_documentation
from skop.estimators.presets import preset_parameters
from skop.exceptions import FieldDataError
from skop.modules import ACTIVATIONS, SCANS
from skop.networks import LaMOPatchNetwork, LaMOSliceNetwork

__all__ = ["LaMORegressor"]

#: Frequencies of coordinates by default.
_AUTOMATIC_FREQUENCIES = {"grid": 1, "structured": 4, "points": 4}

#: Parameters that the networks take by the same names.
_PATCH_PARAMETERS = frozenset(signature(LaMOPatchNetwork).parameters)
_SLICE_PARAMETERS = frozenset(signature(LaMOSliceNetwork).parameters)


@share_documentation
class LaMORegressor(BaseOperatorRegressor):
    """LaMO, the latent Mamba operator, for fields on grids, meshes and point clouds.

    On a regular grid, patches become tokens, residual blocks mix the tokens by state-space scans along
    several paths over the grid, and every token is expanded back to the points of its patch. On other
    points, soft slices of the points become tokens, a bidirectional scan mixes them, and every point
    reads back the slices that it belongs to; samples may then differ in their points. Inputs may be
    fields, global parameters, the geometry alone, or all of them; outputs are fields on the points of the
    input, a few scalars of each sample, or both. The defaults are ours, for a few hundred samples on a
    laptop; `from_preset` gives the published configurations.

    Parameters
    ----------
    geometry : {"auto", "grid", "structured", "points"}, default="auto"
        How points are read. ``"grid"``: patches of a grid. ``"structured"``: slices whose projections are
        3x3 convolutions along the lines of a bent grid. ``"points"``: slices of points in any order.
        ``"auto"`` takes the first that fits: a rectilinear grid that all samples share, a grid that is
        bent or each sample's own, points.
    width : int, default=64
        Size of a token (paper: 64 for Darcy, 256 for Navier-Stokes).
    depth : int, default=4
        Number of blocks (paper: 8).
    patch_size : int or "auto", default="auto"
        Points of a patch along each axis (paper: 2). Cost falls with its power of the dimension.
        ``"auto"`` is the smallest of at least 2 that leaves at most 64 tokens, which a CPU still
        trains in minutes; on a GPU, or with patience, smaller patches resolve more.
    d_state : int, default=16
        States of a scan head (paper: 64).
    expand : int, default=2
        Inner width of a block as a multiple of `width` (paper: 2).
    n_heads : int or None, default=None
        Heads of each scan path; must divide ``expand * width``. None gives ceil(width / 16).
    mlp_ratio : float, default=2.0
        Hidden size of the feed-forward part as a multiple of `width` (paper: 4).
    scan : {"unidirectional", "bidirectional", "multidirectional", "corner"}, default="multidirectional"
        Paths over the token grid, see `skop.modules.scan_paths` (paper, Table 7).
    path_weights : {"own", "own_steps", "shared"}, default="own_steps"
        What each path has for itself: everything (public code), its steps and decays, or nothing.
    kernel_size : int, default=3
        Points of the depthwise convolution before the scans, along each axis; 1 leaves it out.
    activation : {"gelu", "silu"}, default="gelu"
        Of the convolution and the gate. The public code uses GELU, the paper names SiLU.
    decay_range : sequence of two floats, default=(0.05, 1.0)
        Decay rates per step that the heads of a path start from, slowest and fastest (public code: all 1).
    position : {"learned", "coordinates"} or None, default="coordinates"
        Position code of the tokens: a table that ties the model to its training grid (paper), a
        network of the coordinates, or none beyond the coordinates among the input channels.
    n_frequencies : int or "auto", default="auto"
        Sines and cosines of each coordinate, pi, 2 pi, 4 pi, ...: in the position code of a grid, and among
        the inputs of points (public code: none). ``"auto"`` is 1 for grids and 4 for points.
    local_features : int, default=16
        Features of a convolution over neighbouring points before the patches and of one after them,
        so that points see across patch edges; 0 leaves both out (paper).
    dropout : float, default=0.0
        Dropout in the blocks, in [0, 1).
    grid_multiple : int, default=1
        Pad the grid to a multiple of this many points (public code: 85 points to 88).
    unit_normal_patches : bool, default=False
        Draw patch embedding and expansion from N(0, 1), as the public code does.
    n_latents : int, default=32
        Slices, which are the tokens of a point set (paper: 64).
    n_slice_heads : int, default=4
        Heads of the slicing; must divide `width` (public code: 8).
    n_local_heads : int, default=2
        Heads of these, at most all, whose slices also have centres in space, so that they differ from the
        start (public code: none); needs ``coord_scaler="box"``. Slices that look at features alone start as
        nearly the same mean of all points, and where every output depends on every input, training stalls.
    small_weights : bool, default=False
        Draw weights from N(0, 0.02), as the public code, and not by PyTorch's default.
    mixer : {"hydra", "mamba2"}, default="hydra"
        Bidirectional scan over the slices: quasi-separable (paper: elasticity, airfoil), or two Mamba-2
        scans that are averaged (plasticity, pipe).
    shared_projections : bool, default=True
        Whether all blocks slice by the same projections (paper, Table 7: elasticity, airfoil).
    temperature : float, default=0.5
        Of the softmax over slices at the start of the training, learned for each head (public code: 0.5).
    normalize_slices : bool, default=True
        Divide each slice by the weights of its points, as the public code does and Eq. 10 does not.
    decoder : {"encoder_weights", "own_softmax"}, default="encoder_weights"
        Whether points read the slices by the weights that made them (public code), or by a softmax of
        their own (Eq. 14 and 15).
    parameter_embedding : {"channels", "sinusoidal"}, default="channels"
        Global parameters as further input channels, or as sines and cosines through a small network,
        added to the features of every point (public code, for the time of plasticity).
    <training parameters>

    Attributes
    ----------
    <fitted attributes>

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

    _parameter_constraints = {
        **BaseOperatorRegressor._parameter_constraints,
        "geometry": [StrOptions({"auto", "grid", "structured", "points"})],
        "width": [Interval(Integral, 1, None, closed="left")],
        "depth": [Interval(Integral, 1, None, closed="left")],
        "patch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "d_state": [Interval(Integral, 1, None, closed="left")],
        "expand": [Interval(Integral, 1, None, closed="left")],
        "n_heads": [Interval(Integral, 1, None, closed="left"), None],
        "mlp_ratio": [Interval(Real, 0, None, closed="neither")],
        "scan": [StrOptions(set(SCANS))],
        "path_weights": [StrOptions({"own", "own_steps", "shared"})],
        "kernel_size": [Interval(Integral, 1, None, closed="left")],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "decay_range": ["array-like"],
        "position": [StrOptions({"learned", "coordinates"}), None],
        "n_frequencies": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "local_features": [Interval(Integral, 0, None, closed="left")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "grid_multiple": [Interval(Integral, 1, None, closed="left")],
        "unit_normal_patches": ["boolean"],
        "n_latents": [Interval(Integral, 1, None, closed="left")],
        "n_slice_heads": [Interval(Integral, 1, None, closed="left")],
        "n_local_heads": [Interval(Integral, 0, None, closed="left")],
        "small_weights": ["boolean"],
        "mixer": [StrOptions({"hydra", "mamba2"})],
        "shared_projections": ["boolean"],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "normalize_slices": ["boolean"],
        "decoder": [StrOptions({"encoder_weights", "own_softmax"})],
        "parameter_embedding": [StrOptions({"channels", "sinusoidal"})],
    }

    def __init__(
        self,
        *,
        geometry: str = "auto",
        width: int = 64,
        depth: int = 4,
        patch_size: int | str = "auto",
        d_state: int = 16,
        expand: int = 2,
        n_heads: int | None = None,
        mlp_ratio: float = 2.0,
        scan: str = "multidirectional",
        path_weights: str = "own_steps",
        kernel_size: int = 3,
        activation: str = "gelu",
        decay_range: tuple[float, float] = (0.05, 1.0),
        position: str | None = "coordinates",
        n_frequencies: int | str = "auto",
        local_features: int = 16,
        dropout: float = 0.0,
        grid_multiple: int = 1,
        unit_normal_patches: bool = False,
        n_latents: int = 32,
        n_slice_heads: int = 4,
        n_local_heads: int = 2,
        small_weights: bool = False,
        mixer: str = "hydra",
        shared_projections: bool = True,
        temperature: float = 0.5,
        normalize_slices: bool = True,
        decoder: str = "encoder_weights",
        parameter_embedding: str = "channels",
        loss: Any = "auto",
        loss_reduction: str = "mean",
        scalar_weight: float = 1.0,
        input_scaler: str | None = "channel",
        target_scaler: str | None = "channel",
        coord_scaler: str | None = "box",
        param_scaler: str | None = "channel",
        max_iter: int = 100,
        max_time: float | None = None,
        batch_size: int | str = "auto",
        learning_rate_init: float = 4e-3,
        schedule: str = "cosine",
        schedule_interval: str = "step",
        warmup_fraction: float = 0.15,
        weight_decay: float = 0.1,
        decay_vectors: bool = False,
        beta_2: float = 0.99,
        clip_norm: float | None = 1.0,
        weight_averaging: float | None = 0.99,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        symmetries: Any = None,
        domain: Any = None,
        average_symmetries: bool = False,
        input_vectors: Any = None,
        target_vectors: Any = None,
        refinement: str = "average",
        draw_points: int | None = None,
        input_fields: Any = None,
        target_fields: Any = None,
        cell_data: str = "refuse",
        warm_start: bool = False,
        random_state: Any = None,
        device: str = "auto",
        dtype: str = "auto",
        autocast: str | None = None,
        deterministic: bool = False,
        verbose: bool | int = False,
    ) -> None:
        self.geometry = geometry
        self.width = width
        self.depth = depth
        self.patch_size = patch_size
        self.d_state = d_state
        self.expand = expand
        self.n_heads = n_heads
        self.mlp_ratio = mlp_ratio
        self.scan = scan
        self.path_weights = path_weights
        self.kernel_size = kernel_size
        self.activation = activation
        self.decay_range = decay_range
        self.position = position
        self.n_frequencies = n_frequencies
        self.local_features = local_features
        self.dropout = dropout
        self.grid_multiple = grid_multiple
        self.unit_normal_patches = unit_normal_patches
        self.n_latents = n_latents
        self.n_slice_heads = n_slice_heads
        self.n_local_heads = n_local_heads
        self.small_weights = small_weights
        self.mixer = mixer
        self.shared_projections = shared_projections
        self.temperature = temperature
        self.normalize_slices = normalize_slices
        self.decoder = decoder
        self.parameter_embedding = parameter_embedding
        self.loss = loss
        self.loss_reduction = loss_reduction
        self.scalar_weight = scalar_weight
        self.input_scaler = input_scaler
        self.target_scaler = target_scaler
        self.coord_scaler = coord_scaler
        self.param_scaler = param_scaler
        self.max_iter = max_iter
        self.max_time = max_time
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.schedule = schedule
        self.schedule_interval = schedule_interval
        self.warmup_fraction = warmup_fraction
        self.weight_decay = weight_decay
        self.decay_vectors = decay_vectors
        self.beta_2 = beta_2
        self.clip_norm = clip_norm
        self.weight_averaging = weight_averaging
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.symmetries = symmetries
        self.domain = domain
        self.average_symmetries = average_symmetries
        self.input_vectors = input_vectors
        self.target_vectors = target_vectors
        self.refinement = refinement
        self.draw_points = draw_points
        self.input_fields = input_fields
        self.target_fields = target_fields
        self.cell_data = cell_data
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.autocast = autocast
        self.deterministic = deterministic
        self.verbose = verbose

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return an estimator with a published configuration.

        Parameters
        ----------
        name : {"darcy", "navier_stokes", "elasticity", "plasticity", "airfoil", "pipe"}
            Benchmark of the paper; network and training protocol are those of the public scripts.
        **changes
            Parameters to set differently.

        Returns
        -------
        LaMORegressor
            Unfitted.

        Raises
        ------
        ValueError
            If there is no such preset.

        Examples
        --------
        >>> from skop import LaMORegressor
        >>> LaMORegressor.from_preset("darcy", max_iter=10).width
        64
        """
        return cls(**(preset_parameters("lamo", name) | changes))

    def _choose_geometry(self, spec: DataSpec) -> str:
        """The geometry asked for, where the points have it, or the first that fits."""
        if self.geometry == "auto":
            return spec.layout
        if self.geometry != "points" and (spec.grid_shape is None or len(spec.grid_shape) != spec.n_dims):
            raise FieldDataError(
                f"geometry={self.geometry!r} needs the points of a regular grid in C order, but the {spec.n_dims}-D "
                "points of X form none; use geometry='auto', sort the points of a grid by "
                "skop.data.find_grid(coords)[1], or state grid_shape in a FieldSet."
            )
        return self.geometry

    def _build_network(self, spec: DataSpec, geometry: str) -> LaMOPatchNetwork | LaMOSliceNetwork:
        """Build the patch model or the slice model for the data."""
        self._check_centres(geometry)
        known = _PATCH_PARAMETERS if geometry == "grid" else _SLICE_PARAMETERS
        options = {name: value for name, value in self.get_params(deep=False).items() if name in known}
        if self.n_frequencies == "auto":
            options["n_frequencies"] = _AUTOMATIC_FREQUENCIES[geometry]
        options |= {name: getattr(spec, name) for name in ("n_dims", "n_fields", "n_params", "n_outputs", "n_scalars")}
        if geometry != "grid":
            return LaMOSliceNetwork(structured=geometry == "structured", **options)
        options["patch_size"] = automatic_patch_size(self.patch_size, spec.grid_shape or ())
        return LaMOPatchNetwork(grid_shape=spec.grid_shape or (), **options)

    def _check_centres(self, geometry: str) -> None:
        """Raise if slices have centres in a box that coordinates are not brought to."""
        if geometry != "grid" and self.n_local_heads and self.coord_scaler != "box":
            raise ValueError(
                f"n_local_heads={self.n_local_heads} has centres in the box of the training points, which "
                f"coord_scaler={self.coord_scaler!r} does not bring to them; set coord_scaler='box' or n_local_heads=0."
            )
