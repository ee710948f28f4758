"""LaMORegressor: the latent Mamba operator as a scikit-learn estimator."""

from numbers import Integral, Real
from typing import Any, Self

from sklearn.utils._param_validation import Interval, StrOptions

from skop.data import DataSpec
from skop.estimators._base import BaseOperatorRegressor
from skop.estimators.presets import preset_parameters
from skop.exceptions import FieldDataError
from skop.modules import ACTIVATIONS, SCANS
from skop.networks import LaMOPatchNetwork

__all__ = ["LaMORegressor"]


class LaMORegressor(BaseOperatorRegressor):
    """PLACEHOLDER"""

    _parameter_constraints = {
        **BaseOperatorRegressor._parameter_constraints,
        "width": [Interval(Integral, 1, None, closed="left")],
        "depth": [Interval(Integral, 1, None, closed="left")],
        "patch_size": [Interval(Integral, 1, None, closed="left")],
        "d_state": [Interval(Integral, 1, None, closed="left")],
        "expand": [Interval(Integral, 1, None, closed="left")],
        "n_heads": [Interval(Integral, 1, None, closed="left"), None],
        "mlp_ratio": [Interval(Real, 0, None, closed="neither")],
        "scan": [StrOptions(set(SCANS))],
        "share_paths": ["boolean"],
        "kernel_size": [Interval(Integral, 1, None, closed="left")],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "position": [StrOptions({"learned", "coordinates"}), None],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "grid_multiple": [Interval(Integral, 1, None, closed="left")],
        "unit_normal_patches": ["boolean"],
    }

    def __init__(
        self,
        *,
        width: int = 64,
        depth: int = 4,
        patch_size: int = 2,
        d_state: int = 16,
        expand: int = 2,
        n_heads: int | None = None,
        mlp_ratio: float = 2.0,
        scan: str = "multidirectional",
        share_paths: bool = False,
        kernel_size: int = 3,
        activation: str = "gelu",
        position: str | None = "coordinates",
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
        learning_rate_init: float = 2e-3,
        schedule: str = "cosine",
        warmup_fraction: float = 0.05,
        weight_decay: float = 1e-2,
        clip_norm: float | None = 1.0,
        weight_averaging: float | None = 0.99,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        symmetries: Any = None,
        input_vectors: Any = None,
        target_vectors: Any = None,
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
        self.share_paths = share_paths
        self.kernel_size = kernel_size
        self.activation = activation
        self.position = position
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
        self.clip_norm = clip_norm
        self.weight_averaging = weight_averaging
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.symmetries = symmetries
        self.input_vectors = input_vectors
        self.target_vectors = target_vectors
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
                f"LaMORegressor needs the points of a regular grid in C order, but the {spec.n_dims}-D points of X form none; "
                "resample the fields onto a grid, or pass an array (n, *grid, channels)."
            )
        return LaMOPatchNetwork(
            spec.n_dims, spec.n_fields, spec.n_params, spec.n_outputs, spec.grid_shape, pooled=spec.scalar_output,
            patch_size=self.patch_size, width=self.width, depth=self.depth, d_state=self.d_state, expand=self.expand,
            n_heads=self.n_heads, scan=self.scan, share_paths=self.share_paths, kernel_size=self.kernel_size,
            activation=self.activation, mlp_ratio=self.mlp_ratio, position=self.position, dropout=self.dropout,
            grid_multiple=self.grid_multiple, unit_normal_patches=self.unit_normal_patches,
        )
