"""LaMORegressor: the latent Mamba operator as a scikit-learn estimator."""

from math import prod
from numbers import Integral, Real
from typing import Any, Self

from sklearn.utils._param_validation import Interval, StrOptions

from skop._typing import GridShape
from skop.data import DataSpec
from skop.estimators._base import BaseOperatorRegressor
from skop.estimators.presets import preset_parameters
from skop.exceptions import FieldDataError
from skop.modules import ACTIVATIONS, SCANS, token_grid
from skop.networks import LaMOPatchNetwork

__all__ = ["LaMORegressor"]

#: Tokens up to which ``patch_size="auto"`` makes patches smaller.
_AUTOMATIC_TOKENS = 64

#: Parameters that the network takes by the same names.
_NETWORK_PARAMETERS = (
    "width",
    "depth",
    "d_state",
    "expand",
    "n_heads",
    "mlp_ratio",
    "scan",
    "path_weights",
    "kernel_size",
    "activation",
    "decay_range",
    "position",
    "n_frequencies",
    "local_features",
    "dropout",
    "grid_multiple",
    "unit_normal_patches",
)


class LaMORegressor(BaseOperatorRegressor):
    """LaMO, the latent Mamba operator, for fields on regular grids.

    Patches of the grid become tokens, residual blocks mix the tokens by state-space scans along
    several paths over the grid, and every token is expanded back to the points of its patch. Inputs
    may be fields, global parameters, or both; outputs are fields on the points of the input, or a few
    scalars of each sample. The defaults are ours, for a few hundred samples on a laptop;
    `from_preset` gives the published configurations.

    Parameters
    ----------
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
    n_frequencies : int, default=1
        Sines and cosines of each coordinate in ``position="coordinates"``: pi, 2 pi, 4 pi, ...
    local_features : int, default=16
        Features of a convolution over neighbouring points before the patches and of one after them,
        so that points see across patch edges; 0 leaves both out (paper).
    dropout : float, default=0.0
        Dropout in the blocks, in [0, 1).
    grid_multiple : int, default=1
        Pad the grid to a multiple of this many points (public code: 85 points to 88).
    unit_normal_patches : bool, default=False
        Draw patch embedding and expansion from N(0, 1), as the public code does.
    loss : {"auto", "relative_l2", "relative_l2_gradient", "h1", "mse"} or callable, default="auto"
        Training loss, see `skop.losses`. ``"auto"`` is the relative L2 error for fields and the squared
        error for scalars. Relative losses are taken in physical units, the squared error on scaled targets.
    loss_reduction : {"mean", "sum"}, default="mean"
        Over the samples of a batch; the published scripts sum.
    input_scaler, target_scaler : {"channel", "point"} or None, default="channel"
        Standardise each channel, each channel at each point (which ties the model to its training
        grid), or not at all.
    max_iter : int, default=100
        Epochs (paper: 500).
    max_time : float or None, default=None
        Seconds of training at most; the schedule then follows the time, so that the rate has fallen
        when the time is up. Results then depend on the speed of the machine.
    batch_size : int or "auto", default="auto"
        Samples of a step. ``"auto"``: up to 16, less for fewer than 128 samples; up to 200 for
        tables of plain features (paper: 4 for Darcy, 2 for Navier-Stokes).
    learning_rate_init : float, default=0.004
        Peak learning rate of AdamW (paper: 5e-4).
    schedule : {"cosine", "one_cycle", "constant"}, default="cosine"
        Learning rate over the steps, see `skop.training.schedule_at` (paper: one_cycle).
    warmup_fraction : float, default=0.15
        Part of the training in which ``"cosine"`` and ``"constant"`` rise to the peak rate.
    weight_decay : float, default=0.1
        Of AdamW (paper: 1e-5; 0.05 for Navier-Stokes).
    decay_vectors : bool, default=False
        Whether biases, norms and decay rates are decayed too, and not only matrices (public code: all).
    beta_2 : float, default=0.99
        Decay of AdamW's mean of squared gradients, in [0, 1) (public code: 0.999).
    clip_norm : float or None, default=1.0
        Largest norm of the gradient (paper: 0.1 for Darcy, none for Navier-Stokes).
    weight_averaging : float or None, default=0.99
        Decay of a running average of the weights that validates and predicts; None uses the last weights.
    early_stopping : bool, default=False
        Hold out a part of the samples, stop when their error no longer falls, and keep the best weights.
    validation_fraction : float, default=0.1
        Part that is held out, in (0, 1).
    n_iter_no_change : int, default=10
        Epochs without progress of at least `tol` after which training stops early.
    tol : float, default=0.0001
        Fall of the validation error that counts as progress.
    symmetries : sequence of str or None, default=None
        Symmetries that hold for the problem, which training samples are moved by at random; see
        `skop.data.GridSymmetries` for their names.
    domain : array-like of shape (d, 2) or None, default=None
        Ends of the domain about whose centre the symmetries are; None takes the box of the grid.
    average_symmetries : bool, default=False
        Average predictions over all declared symmetries but periodic shifts, which multiplies their
        cost by the order of the group.
    input_vectors, target_vectors : sequence of sequence of int or None, default=None
        Channels that are the components of a vector and must turn with a symmetry.
    refinement : {"average", "interpolate", "native"}, default="average"
        How to predict on a grid that is a whole number of times finer than in training: average
        over readings at the training spacing, interpolate one of them, or feed it as it is.
    warm_start : bool, default=False
        Go on from the weights of the last fit.
    random_state : int, RandomState instance or None, default=None
        Seed of weights, order and augmentation; with an int two fits on one CPU are bit-equal.
    device : str, default="auto"
        ``"auto"`` takes CUDA where there is one, else the CPU; or any torch device.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Precision. ``"auto"``: float64 for tables of plain features, as scikit-learn; float32 for fields.
    autocast : {"bfloat16"} or None, default=None
        Mixed precision of the matrix products in training; the recurrences stay in float32.
    deterministic : bool, default=False
        Ask torch for deterministic algorithms, on a GPU too.
    verbose : bool or int, default=False
        1 shows a progress line on a terminal, 2 prints a line for each epoch.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network.
    loss_curve_ : list of float
        Training loss of each epoch.
    validation_scores_ : list of float
        1 minus the validation error after each epoch, when stopping early.
    n_iter_ : int
        Epochs run.
    best_iter_ : int
        Epoch whose weights were kept.
    stopped_ : str
        Why training ended.
    fit_seconds_ : float
        Time of the training.
    n_features_in_ : int
        Columns of a table X, or channels of fields.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a DataFrame.
    spec_ : skop.data.DataSpec
        Kinds and sizes of X and y in the fit.
    scalers_ : skop.data.Scalers
        Fitted scalers.
    backend_ : str
        Implementation of the scans that was used.
    device_, dtype_ : torch.device, str
        Where and in which precision the network computes.

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
        "n_frequencies": [Interval(Integral, 1, None, closed="left")],
        "local_features": [Interval(Integral, 0, None, closed="left")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "grid_multiple": [Interval(Integral, 1, None, closed="left")],
        "unit_normal_patches": ["boolean"],
    }

    def __init__(
        self,
        *,
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
        n_frequencies: int = 1,
        local_features: int = 16,
        dropout: float = 0.0,
        grid_multiple: int = 1,
        unit_normal_patches: bool = False,
        loss: Any = "auto",
        loss_reduction: str = "mean",
        input_scaler: str | None = "channel",
        target_scaler: str | None = "channel",
        max_iter: int = 100,
        max_time: float | None = None,
        batch_size: int | str = "auto",
        learning_rate_init: float = 4e-3,
        schedule: str = "cosine",
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
        warm_start: bool = False,
        random_state: Any = None,
        device: str = "auto",
        dtype: str = "auto",
        autocast: str | None = None,
        deterministic: bool = False,
        verbose: bool | int = False,
    ) -> None:
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
        self.loss = loss
        self.loss_reduction = loss_reduction
        self.input_scaler = input_scaler
        self.target_scaler = target_scaler
        self.max_iter = max_iter
        self.max_time = max_time
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.schedule = schedule
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
        name : {"darcy", "navier_stokes"}
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

    def _build_network(self, spec: DataSpec) -> LaMOPatchNetwork:
        """Build the patch model for the grid of the data."""
        if spec.grid_shape is None or len(spec.grid_shape) != spec.n_dims:
            raise FieldDataError(
                f"LaMORegressor needs the points of a regular grid in C order, but the {spec.n_dims}-D points of X "
                "form none; sort the points of a grid by skop.data.find_grid(coords)[1], or resample the fields onto "
                "one."
            )
        return LaMOPatchNetwork(
            spec.n_dims,
            spec.n_fields,
            spec.n_params,
            spec.n_outputs,
            spec.grid_shape,
            pooled=spec.scalar_output,
            patch_size=_patch_size(self.patch_size, spec.grid_shape),
            **{name: getattr(self, name) for name in _NETWORK_PARAMETERS},
        )


def _patch_size(patch_size: int | str, grid_shape: GridShape) -> int:
    """The size asked for, or the smallest of at least two points that leaves few enough tokens."""
    if not isinstance(patch_size, str):
        return patch_size
    size = 2
    while prod(token_grid(grid_shape, (size,) * len(grid_shape))) > _AUTOMATIC_TOKENS:
        size += 1
    return size
