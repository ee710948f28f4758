"""LaMORegressor: the latent Mamba operator as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Real

from skop._parameters import Whole, are_equal, param
from skop._sklearn_compat import Interval
from skop.data import DataSpec
from skop.estimators.operators._operator import OperatorRegressor
from skop.estimators.operators._tokens import check_centres, geometry_of_tokens, warn_of_idle_latents
from skop.estimators.operators.presets import lamo
from skop.exceptions import SkopWarning, warn
from skop.networks import LaMOPatchNetwork, LaMOPointNetwork, OperatorNetwork
from skop.parts import GridSSD, Hydra, LatentTokens, Mamba, Mixer, Patches

__all__ = ["LaMORegressor"]

_GRID, _POINTS = ("grid",), ("structured", "points")


class LaMORegressor(OperatorRegressor):
    """LaMO, the latent Mamba operator, for fields on grids, meshes and point clouds.

    On a grid, patches become tokens, residual blocks mix the tokens by state-space scans along several paths over the
    grid, and every token is expanded to the points of its patch. On other points, each block pools the points
    into latent tokens with learned weights, mixes these by a bidirectional scan, and updates every point with a
    combination of them; samples may then differ in their points. Inputs can be fields, global parameters, the geometry
    alone, or all of them. Outputs are fields on the points of the input, scalars of each sample, or both. The default
    values are chosen for a few hundred samples on a laptop; `from_preset` gives the published configurations.

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

    width: int = param(
        Whole(1, 65536), default=64, text="Size of a token (paper: 64 for Darcy, 256 for Navier-Stokes)."
    )
    depth: int = param(Whole(1, 256), default=2, text="Number of blocks (paper: 8).")
    mlp_ratio: float = param(
        Interval(Real, 0, 1024, closed="right"),
        default=2.0,
        text=(
            "Number of hidden units of the feed-forward networks, as a multiple of `width` (public code: 4 on grids, "
            "1 or 2 on points)."
        ),
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
    scan: Mixer | None = param(
        Mixer,
        None,
        default=None,
        part=GridSSD,
        text="Mixer of the tokens of a grid; None takes `skop.parts.GridSSD`.",
    )
    latents: LatentTokens | None = param(
        LatentTokens,
        None,
        default=None,
        part=LatentTokens,
        text=(
            "Latent tokens of points and of curvilinear grids, see `skop.parts.LatentTokens`; None takes its defaults."
        ),
    )
    mixer: Mixer | None = param(
        Mixer,
        None,
        default=None,
        part=Hydra,
        text=(
            "Mixer of the latent tokens: `skop.parts.Hydra`, which None takes (paper: elasticity, airfoil), "
            "`skop.parts.Mamba2` (plasticity, pipe), or any other mixer."
        ),
    )
    geometry: str = geometry_of_tokens("`latents` or `mixer`")

    _presets = lamo.PRESETS
    _draws_points = True
    _effective_on = {
        **OperatorRegressor._effective_on,
        "patches": _GRID,
        "scan": _GRID,
        "latents": _POINTS,
        "mixer": _POINTS,
    }

    def _check_options(self, spec: DataSpec, geometry: str) -> None:
        """Warn of parameters that have no effect."""
        super()._check_options(spec, geometry)
        warn_of_idle_latents(self, spec, geometry)
        name = "scan" if geometry == "grid" else "mixer"
        if not are_equal(getattr(self._options(name), "ratio", Mamba.ratio), Mamba.ratio):
            warn(f"{name}__ratio has no effect in LaMO, which has one stream of tokens; leave it out.", SkopWarning)

    def _choose_geometry(self, spec: DataSpec) -> str:
        """Return ``"grid"`` for what is read in patches; ``"structured"`` or ``"points"`` for latent tokens."""
        chosen = super()._choose_geometry(spec)
        takes_patches = self.geometry == "auto" and self.latents is None and self.mixer is None
        return "grid" if takes_patches and chosen == "structured" else chosen

    def _build_network(self, spec: DataSpec, geometry: str) -> OperatorNetwork:
        """Build the patch network or the point network for the data."""
        names = ("width", "depth", "mlp_ratio", "dropout")
        if geometry == "grid":
            grid_shape = spec.grid_shape or ()
            return LaMOPatchNetwork(grid_shape=grid_shape, **self._keywords(spec, *names, "patches", "scan"))
        check_centres(self._options("latents"), self._options("scaling"))
        keywords = self._keywords(spec, *names, "latents", "mixer")
        return LaMOPointNetwork(structured=geometry == "structured", **keywords)
