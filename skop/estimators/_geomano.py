"""GeoMaNORegressor: the geometric Mamba neural operator as a scikit-learn estimator."""

from inspect import signature
from numbers import Integral, Real
from typing import Any, Self

from sklearn.utils._param_validation import Interval, StrOptions

from skop.data import DataSpec
from skop.estimators._grid_regressor import GridOperatorRegressor, seen_by_network
from skop.estimators._patches import automatic_patch_size
from skop.estimators._shared_docs import share_documentation
from skop.estimators.presets import preset_parameters
from skop.exceptions import FieldDataError
from skop.modules import ACTIVATIONS, CORRECTION_PLACES, CROSSINGS, DIRECTION_ORDERS, RECURRENCES
from skop.networks import GeoMaNONetwork

__all__ = ["GeoMaNORegressor"]

_NETWORK_PARAMETERS = frozenset(signature(GeoMaNONetwork).parameters)


@share_documentation
class GeoMaNORegressor(GridOperatorRegressor):
    """GeoMaNO, the geometric Mamba neural operator, for fields on regular grids, and on points by way of one.

    Patches of the grid become tokens; residual blocks mix them by selective state-space scans that cross
    the grid in several directions, along its axes or flattened, and take off what the directions count
    twice; every token is expanded back to the points of its patch. Grids have one to three axes of any
    length. Inputs may be fields, global parameters, the geometry alone, or all of them; outputs are fields
    on the points of the input, a few scalars of each sample, or both. The defaults are ours, for a few
    hundred samples on a laptop; `from_preset` gives the published configurations.

    Parameters
    ----------
    grid : tuple of int, "auto" or None, default=None
        Grid for samples whose points form none: points along each axis of the box of all training points, or about
        as many cells as the mean sample has points. Fields go to the grid and predictions back by linear
        interpolation; training and validation errors are those on the grid. Samples with points of their own get
        one more input channel, see `skop.data.GridResampler`. Data on a grid are used as they are.
    width : int, default=64
        Size of a token (paper: 64 for Darcy, 256 for Navier-Stokes).
    depth : int, default=4
        Number of blocks (paper: 8).
    patch_size : int or "auto", default="auto"
        Points of a patch along each axis (paper: not stated; LaMO uses 2). Cost falls with its power of
        the dimension. ``"auto"`` is the smallest of at least 2 that leaves at most 64 tokens, which a CPU
        still trains in minutes; on a GPU, or with patience, smaller patches resolve more.
    d_state : int, default=2
        States of a channel (paper: 16); the cost of the scans grows with it.
    expand : int, default=2
        Inner width of a block as a multiple of `width` (paper: not stated; LaMO and VMamba use 2).
    dt_rank : int or None, default=None
        Rank of the projection to the steps; None is ceil(width / 16), as in VMamba.
    recurrence : {"sequence", "grid"}, default="sequence"
        ``"grid"`` runs along one axis of the grid after the other, so that neighbours in any direction
        stay neighbours (paper: Darcy); ``"sequence"`` runs along the flattened grid (Navier-Stokes), which is faster
        on a CPU.
    crossing : {"cross", "corners", "all"}, default="cross"
        Directions, see `skop.modules.scan_directions`: from two opposite corners (paper), once from every
        corner, or from every corner with each axis in turn the fastest.
    direction_order : {"reverses_last", "reverses_next"}, default="reverses_last"
        Which direction a digit of `correction` stands for: rows, columns, reversed rows, reversed columns,
        as VMamba stacks them, or each followed by its reverse, as the paper lists them.
    correction : {"learnable"}, str of digits, or None, default="learnable"
        What is taken off the sum of the directions, which holds the own token of a cell once for each:
        nothing, a learned share of each direction, channel and state, or all of it in the directions
        whose digit is 1, such as ``"0011"`` (paper: ``"0011"`` for Darcy, learnable for Navier-Stokes).
    correction_place : {"state", "output", "input"}, default="state"
        Where it is taken off, see `skop.modules.GeometricScanMixer`: at the state, or as one of the two
        printed formulas reads.
    kernel_size : int, default=3
        Points of the depthwise convolution before the scans, along each axis; 1 leaves it out.
    activation : {"silu", "gelu"}, default="gelu"
        Of the convolution, the gate and, if it is activated, the output (paper: not stated).
    own_gate : bool, default=True
        Whether the gate has a projection of its own, as in VMamba, or is the stream that is scanned
        (paper).
    activate_output : bool, default=False
        Whether the normalised output of the scans is activated before it is gated (paper: yes; VMamba: no).
    step_range : sequence of two floats, default=(0.5, 1.0)
        Steps that the channels start from, smallest and largest (Mamba: 0.001 to 0.1).
    decay_range : sequence of two floats or None, default=(0.05, 1.0)
        Decay rates that the states of a channel start from, slowest and fastest; None is 1 to `d_state`, as in
        Mamba. A state forgets by the exponential of -rate x step from token to token.
    mlp_ratio : float, default=2.0
        Hidden size of the feed-forward part as a multiple of `width`.
    position : {"learned", "coordinates"} or None, default=None
        Position code of the tokens: a table that ties the model to its training grid, a network of the
        coordinates, or none beside `coordinate_channels` (paper: none for Darcy, one for Navier-Stokes).
    n_frequencies : int, default=1
        Sines and cosines of each coordinate in the position code ``"coordinates"``: pi, 2 pi, 4 pi, ...
    coordinate_channels : bool, default=True
        Whether coordinates are input channels beside fields and parameters.
    lift : int, default=0
        Size to which a feed-forward network lifts every point before the patches (paper: `width`);
        0 leaves it out.
    local_features : int, default=16
        Features of a convolution over neighbouring points before the patches and of one after them,
        so that points see across patch edges; 0 leaves both out (paper).
    dropout : float, default=0.0
        Dropout in the blocks, in [0, 1).
    <training parameters>

    Attributes
    ----------
    resampling_error_ : float or None
        Mean relative L2 error of the training targets after their way from points to the grid and back, by which
        even a network without errors on the grid is off; None without such a way. A fit warns above 0.02.
    <fitted attributes>

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

    _parameter_constraints = {
        **GridOperatorRegressor._parameter_constraints,
        "width": [Interval(Integral, 1, None, closed="left")],
        "depth": [Interval(Integral, 1, None, closed="left")],
        "patch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "d_state": [Interval(Integral, 1, None, closed="left")],
        "expand": [Interval(Integral, 1, None, closed="left")],
        "dt_rank": [Interval(Integral, 1, None, closed="left"), None],
        "recurrence": [StrOptions(set(RECURRENCES))],
        "crossing": [StrOptions(set(CROSSINGS))],
        "direction_order": [StrOptions(set(DIRECTION_ORDERS))],
        "correction": [str, None],
        "correction_place": [StrOptions(set(CORRECTION_PLACES))],
        "kernel_size": [Interval(Integral, 1, None, closed="left")],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "own_gate": ["boolean"],
        "activate_output": ["boolean"],
        "step_range": ["array-like"],
        "decay_range": ["array-like", None],
        "mlp_ratio": [Interval(Real, 0, None, closed="neither")],
        "position": [StrOptions({"learned", "coordinates"}), None],
        "n_frequencies": [Interval(Integral, 0, None, closed="left")],
        "coordinate_channels": ["boolean"],
        "lift": [Interval(Integral, 0, None, closed="left")],
        "local_features": [Interval(Integral, 0, None, closed="left")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        *,
        grid: Any = None,
        width: int = 64,
        depth: int = 4,
        patch_size: int | str = "auto",
        d_state: int = 2,
        expand: int = 2,
        dt_rank: int | None = None,
        recurrence: str = "sequence",
        crossing: str = "cross",
        direction_order: str = "reverses_last",
        correction: str | None = "learnable",
        correction_place: str = "state",
        kernel_size: int = 3,
        activation: str = "gelu",
        own_gate: bool = True,
        activate_output: bool = False,
        step_range: tuple[float, float] = (0.5, 1.0),
        decay_range: tuple[float, float] | None = (0.05, 1.0),
        mlp_ratio: float = 2.0,
        position: str | None = None,
        n_frequencies: int = 1,
        coordinate_channels: bool = True,
        lift: int = 0,
        local_features: int = 16,
        dropout: float = 0.0,
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
        self.grid = grid
        self.width = width
        self.depth = depth
        self.patch_size = patch_size
        self.d_state = d_state
        self.expand = expand
        self.dt_rank = dt_rank
        self.recurrence = recurrence
        self.crossing = crossing
        self.direction_order = direction_order
        self.correction = correction
        self.correction_place = correction_place
        self.kernel_size = kernel_size
        self.activation = activation
        self.own_gate = own_gate
        self.activate_output = activate_output
        self.step_range = step_range
        self.decay_range = decay_range
        self.mlp_ratio = mlp_ratio
        self.position = position
        self.n_frequencies = n_frequencies
        self.coordinate_channels = coordinate_channels
        self.lift = lift
        self.local_features = local_features
        self.dropout = dropout
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
        name : {"darcy", "navier_stokes"}
            Benchmark of the paper. What the paper does not state is that of LaMO's and 2DMamba's public code.
        **changes
            Parameters to set differently.

        Returns
        -------
        GeoMaNORegressor
            Unfitted.

        Raises
        ------
        ValueError
            If there is no such preset.

        Examples
        --------
        >>> from skop import GeoMaNORegressor
        >>> GeoMaNORegressor.from_preset("darcy").correction
        '0011'
        """
        return cls(**(preset_parameters("geomano", name) | changes))

    def _choose_geometry(self, spec: DataSpec) -> str:
        """A grid, straight or bent; its scans have nothing to cross on other points."""
        spec = seen_by_network(spec)
        if spec.layout == "points":
            raise FieldDataError(
                f"GeoMaNORegressor scans regular grids, but the {spec.n_dims}-D points of X form none; set "
                "grid='auto' or a shape such as grid=(64, 64) to resample them, use LaMORegressor, which takes point "
                "clouds and meshes as AMORegressor will, or sort the points of a grid by "
                "skop.data.find_grid(coords)[1]."
            )
        return spec.layout

    def _build_network(self, spec: DataSpec, geometry: str) -> GeoMaNONetwork:
        """Build the network for the data."""
        spec = seen_by_network(spec)
        options = {name: value for name, value in self.get_params(deep=False).items() if name in _NETWORK_PARAMETERS}
        options |= {name: getattr(spec, name) for name in ("n_dims", "n_fields", "n_params", "n_outputs", "n_scalars")}
        grid_shape = spec.grid_shape or ()
        options["patch_size"] = automatic_patch_size(self.patch_size, grid_shape)
        return GeoMaNONetwork(grid_shape=grid_shape, **options)
