"""AMORegressor: the adaptive Mamba neural operator as a scikit-learn estimator."""

from __future__ import annotations

from math import prod
from numbers import Real

from skop._parameters import Whole, param
from skop._sklearn_compat import Interval
from skop.data import DataSpec
from skop.estimators.operators._operator import OperatorRegressor
from skop.estimators.operators._tokens import check_centres, geometry_of_tokens, warn_of_idle_latents
from skop.estimators.operators.presets import amo
from skop.exceptions import SkopWarning, warn
from skop.networks import AMOPatchNetwork, AMOPointNetwork, OperatorNetwork
from skop.parts import LatentAttention, LatentTokens, LiteralExpansions, Patches, TakenakaMalmquist

__all__ = ["AMORegressor"]

_GRID, _POINTS = ("grid",), ("structured", "points")


class AMORegressor(OperatorRegressor):
    """AMO, the adaptive Mamba neural operator, for fields on grids, meshes and point clouds.

    Blocks expand tokens in Takenaka-Malmquist systems: orthogonal functions on the unit circle, whose poles are
    computed from the tokens themselves, as in an adaptive Fourier decomposition. On a grid the tokens are
    patches. On other points they are latent tokens, which read all points and are read by them, in each block or once
    (`latents`); samples may then differ in their points. Inputs can be fields, global parameters, the
    geometry alone, or all of them. Outputs are fields on the points of the input or other points, scalars of each
    sample, or both. The default values are chosen for a few hundred samples on a laptop; `from_preset` gives the
    published configuration.

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

    width: int = param(Whole(1, 65536), default=64, text="Size of a token (paper: 128).")
    depth: int = param(Whole(1, 256), default=2, text="Number of blocks (paper: 4).")
    mlp_ratio: float = param(
        Interval(Real, 0, 1024, closed="right"),
        default=2.0,
        text="Number of hidden units of the feed-forward networks, as a multiple of `width` (paper: not stated).",
    )
    dropout: float = param(
        Interval(Real, 0, 1, closed="left"), default=0.0, text="Dropout probability in the blocks, in [0, 1)."
    )
    patches: Patches | None = param(
        Patches,
        None,
        default=None,
        part=Patches,
        text="Patches of a grid, see `skop.parts.Patches`; None takes its defaults.",
    )
    latents: LatentTokens | LatentAttention | None = param(
        LatentTokens,
        LatentAttention,
        None,
        default=None,
        part=LatentTokens,
        text=(
            "Latent tokens of points and of curvilinear grids: `skop.parts.LatentTokens`, which None takes, exchange "
            "information with the points in each block, as in LaMO; `skop.parts.LatentAttention` (paper) do it once "
            "before and once after all blocks."
        ),
    )
    mixer: TakenakaMalmquist | LiteralExpansions | None = param(
        TakenakaMalmquist,
        LiteralExpansions,
        None,
        default=None,
        part=TakenakaMalmquist,
        text=(
            "Expansions of the tokens: `skop.parts.TakenakaMalmquist`, which None takes, or "
            "`skop.parts.LiteralExpansions`, the paper's equations as they are printed."
        ),
    )
    geometry: str = geometry_of_tokens("`latents`")

    _presets = amo.PRESETS
    _draws_points = True
    _effective_on = {**OperatorRegressor._effective_on, "patches": _GRID, "latents": _POINTS}

    def _choose_geometry(self, spec: DataSpec) -> str:
        """Return ``"grid"`` for what is read in patches; ``"structured"`` or ``"points"`` for latent tokens."""
        chosen = super()._choose_geometry(spec)
        takes_patches = self.geometry == "auto" and self.latents is None
        return "grid" if takes_patches and chosen == "structured" else chosen

    def _build_network(self, spec: DataSpec, geometry: str) -> OperatorNetwork:
        """Build the patch network or the point network for the data."""
        latents, mixer = self._options("latents"), self._options("mixer")
        is_literal = isinstance(mixer, LiteralExpansions)
        if is_literal and (geometry == "grid" or not isinstance(latents, LatentAttention)):
            raise ValueError(
                "mixer=LiteralExpansions(...) needs latent tokens that read the points once, but the points are read "
                f"as geometry {geometry!r} with latents={latents!r}; set geometry='points' and "
                "latents=LatentAttention()."
            )
        names = ("width", "depth", "mlp_ratio", "dropout", "mixer")
        if geometry == "grid":
            return AMOPatchNetwork(grid_shape=spec.grid_shape or (), **self._keywords(spec, *names, "patches"))
        check_centres(latents, self._options("scaling"))
        return AMOPointNetwork(structured=geometry == "structured", **self._keywords(spec, *names, "latents"))

    def _check_options(self, spec: DataSpec, geometry: str) -> None:
        """Warn of parameters that have no effect on these data and this geometry, or with the other choices."""
        super()._check_options(spec, geometry)
        warn_of_idle_latents(self, spec, geometry)
        latents, mixer = self._options("latents"), self._options("mixer")
        if isinstance(mixer, LiteralExpansions):
            if geometry != "grid" and getattr(latents, "aggregation", "last") != "last":
                self._warn_of_idle("latents__aggregation", {"mixer": (TakenakaMalmquist,)})
            return
        if geometry == "grid" and self.mixer is not None and mixer.n_poles != TakenakaMalmquist().n_poles:
            n_tokens = prod(self._options("patches").token_grid(spec.grid_shape or ()))
            if 1 < n_tokens < mixer.n_poles:
                warn(
                    f"mixer__n_poles={mixer.n_poles} is more than the {n_tokens} patches of the grid "
                    f"{spec.grid_shape}, so that there are {n_tokens} poles; lower mixer__n_poles or patches__size.",
                    SkopWarning,
                )
