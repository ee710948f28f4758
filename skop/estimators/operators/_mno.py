"""MNORegressor: the Mamba neural operator, in three hosts and with three mixers, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, Self

from skop._parameters import Whole, param
from skop._sklearn_compat import Interval
from skop.data import DataSpec
from skop.estimators.operators._operator import OperatorRegressor
from skop.estimators.operators._parameters import PUBLISHED
from skop.estimators.operators.presets import mno
from skop.exceptions import SkopWarning, warn
from skop.modules import LINE_DIRECTIONS
from skop.networks import GalerkinNetwork, GNOTNetwork, OFormerNetwork, SequenceNetwork
from skop.parts import (
    GNOT,
    GalerkinTransformer,
    Host,
    Mamba,
    Mixer,
    OFormer,
    Part,
)
from skop.surrogate import Surrogate

__all__ = ["MNORegressor"]

_NETWORKS: dict[type[Part], Any] = {
    GalerkinTransformer: GalerkinNetwork,
    GNOT: GNOTNetwork,
    OFormer: OFormerNetwork,
}


class MNORegressor(OperatorRegressor):
    """MNO, the Mamba neural operator: three transformers for operators whose attention selective scans can replace.

    The tokens are the points themselves: those of a grid row by row, others along a space-filling curve. A host
    encodes them, lets them read one another, and decodes them; how they read is the mixer's. Every host takes `Mamba`
    and `Attention`; other mixers need the Galerkin Transformer, and `RotaryAttention` needs OFormer. Inputs may be
    fields, global parameters, the geometry alone, or all of them; outputs are fields on the points of the input, a few
    scalars of each sample, or both; samples may differ in their points, and other points can be asked for. The defaults
    are ours, for a few hundred samples on a laptop; `from_preset` gives the published configurations.

    See Also
    --------
    skop.LaMORegressor : Scans over patches or latent tokens, of which there are fewer than points.
    skop.RolloutRegressor : For trajectories, step by step.
    skop.load : Load a saved estimator.
    skop.metrics.neg_relative_l2_scorer : Scorer for searches.

    Notes
    -----
    Time and memory grow linearly with the number of points, but for softmax attention. A prediction does not depend on
    the other samples of its batch.

    At points other than those of the sample, ``predict(X, coords=...)`` asks the network itself: a query point takes
    the place of the nearest point of the input in the sequence, with its own coordinates. On grids, where spectral
    convolutions or scans along the axes need all of the grid, or predictions are averaged, they are interpolated. A
    FieldSet y on other points than X trains the network at these; with `Mamba` each layer that is asked there takes
    as many scans as it has states.

    References
    ----------
    C.-W. Cheng, J. Huang, Y. Zhang, G. Yang, C.-B. Schönlieb, A. I. Aviles-Rivero, "Mamba Neural Operator: Who Wins?
    Transformers vs. State-Space Models for PDEs", 2024.

    Z. Hao et al., "GNOT: A General Neural Operator Transformer for Operator Learning", ICML 2023.

    S. Cao, "Choose a Transformer: Fourier or Galerkin", NeurIPS 2021.

    Z. Li, K. Meidani, A. B. Farimani, "Transformer for Partial Differential Equations' Operator Learning", TMLR 2023.

    Examples
    --------
    >>> from skop import MNORegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> from skop.parts import GNOT
    >>> model = MNORegressor(host=GNOT(), width=16, depth=1, max_iter=20, random_state=0).fit(X[:20], y[:20])
    >>> model.predict(X[20:]).shape
    (4, 16, 16, 1)
    >>> model.predict(X[20:], coords=[[0.5, 0.5], [0.21, 0.77]]).shape
    (4, 2, 1)
    """

    host: Host | None = param(
        GalerkinTransformer,
        GNOT,
        OFormer,
        None,
        default=None,
        part=GalerkinTransformer,
        text=(
            "Network around the mixers. `skop.parts.GalerkinTransformer`, which None takes: the points read one "
            "another, and convolutions over low frequencies of a grid give the outputs. `skop.parts.GNOT`: in every "
            "block the points read the input functions and then one another. `skop.parts.OFormer`: an encoder of the "
            "input, one layer in which query points read it, and a decoder for every point by itself."
        ),
    )
    mixer: Mixer | None = param(
        Mixer,
        None,
        default=None,
        part=Mamba,
        text=(
            "Exchange of information between the points. `skop.parts.Mamba`, which None takes: selective scans along "
            "the points and back (MNO). `skop.parts.Attention`: the linear attention that the host was published "
            "with, or softmax attention, whose time grows with the square of the number of points; "
            "`skop.parts.RotaryAttention` has the parameters of OFormer. GNOT and OFormer need a mixer with a form "
            "across streams."
        ),
    )
    width: int = param(
        Whole(1, 65536),
        default=32,
        text="Size of a token (paper: 96 in GNOT, 256 in Galerkin, 96 for Darcy and 64 in time in OFormer).",
    )
    depth: int = param(
        Whole(1, 256),
        default=3,
        text="Number of blocks (paper: 4 in GNOT, 6 in Galerkin, 6 for Darcy and 2 in time in OFormer).",
    )
    mlp_ratio: float = param(
        Interval(Real, 0, 1024, closed="right"),
        default=2.0,
        text=(
            "Hidden size of feed-forward parts, and of GNOT's experts and gates, as a multiple of the size of a token "
            "(public code: 2 in GNOT, 1 in the others)."
        ),
    )
    dropout: float = param(
        Interval(Real, 0, 1, closed="left"),
        default=0.0,
        text="Dropout in the blocks, in [0, 1) (public code: 0; 0.03 for Darcy in OFormer).",
    )
    learning_rate_init: float = param(
        Interval(Real, 0, None, closed="neither"),
        default=8e-3,
        text="Peak learning rate of the optimiser (public code: 1e-3; 1e-4 in OFormer).",
    )

    _effective_on = {
        **OperatorRegressor._effective_on,
        "host__point_order": ("points",),
        "host__kernel_size": ("grid", "structured"),
    }

    @classmethod
    def from_preset(cls, name: str, *, host: str = "galerkin", mixer: str = "mamba", **changes: Any) -> Self:
        """Return an estimator with a published configuration.

        Parameters
        ----------
        name : {"darcy", "shallow_water", "diffusion_reaction"}
            Benchmark of the paper. The last two map ten known frames, as channels, to the 91 that follow, all at once.
        host : {"galerkin", "gnot", "oformer"}, default="galerkin"
            Network.
        mixer : {"mamba", "linear", "softmax"}, default="mamba"
            Selective scans, the host's own linear attention, or softmax attention.
        **changes
            Parameters to set differently, those of parts as ``training__ema_decay``.

        Returns
        -------
        estimator
            Unfitted.

        Raises
        ------
        ValueError
            If there is no such preset.

        Examples
        --------
        >>> from skop import MNORegressor
        >>> MNORegressor.from_preset("darcy", host="oformer", mixer="linear").width
        96
        """
        for what, given, known in (
            ("preset", name, mno.CHANNELS),
            ("host", host, mno.HOSTS),
            ("mixer", mixer, mno.MIXERS),
        ):
            if given not in known:
                raise ValueError(f"{cls.__name__} has no {what} {given!r}; choose from {sorted(known)}.")
        return cls._with_own_parts(PUBLISHED | mno.preset(name, host, mixer)).set_params(**changes)

    def _build_network(self, spec: DataSpec, geometry: str) -> SequenceNetwork:
        """Build the host for the data."""
        keywords = self._keywords(spec, "width", "depth", "mlp_ratio", "dropout", "mixer")
        host: Host = self._options("host").on(geometry)
        self._check_grid(host, keywords["mixer"], geometry)
        build = next(network for kind, network in _NETWORKS.items() if isinstance(host, kind))
        network: SequenceNetwork = build(host=host, **keywords)
        return network

    def _check_grid(self, host: Host, mixer: Mixer, geometry: str) -> None:
        """Raise if a part of the network needs a grid that the points do not form."""
        needs = []
        if getattr(host, "decoder", None) == "spectral":
            needs.append("host__decoder='spectral'")
        if mixer.needs_grid:
            needs.append(f"mixer__scan_directions={mixer.values()['scan_directions']!r}")
        if needs and geometry == "points":
            raise ValueError(
                f"{' and '.join(needs)} needs points on a grid, but they are read as geometry 'points'; set "
                f"host__decoder='auto' and one of {LINE_DIRECTIONS} as mixer__scan_directions, or grid='auto' to "
                "resample the points."
            )

    def _check_options(self, spec: DataSpec, geometry: str) -> None:
        """Warn of parameters that have no effect on these data and this geometry, or with this host and mixer."""
        super()._check_options(spec, geometry)
        host, mixer = self._options("host"), self._options("mixer")
        if isinstance(mixer, Mamba) and mixer.ratio != Mamba().ratio and isinstance(host, GalerkinTransformer):
            self._warn_of_idle("mixer__ratio", {"host": (GNOT, OFormer)})
        if isinstance(host, OFormer) and host.n_steps is None:
            for name, value in self._changed(("host__propagator_width", "host__propagator_depth")).items():
                warn(f"{name}={value!r} has no effect with host__n_steps=None; set a number of steps.", SkopWarning)
        if isinstance(host, GalerkinTransformer) and host.decoder == "auto" and geometry == "points":
            for name, value in self._changed(("host__n_modes",)).items():
                warn(
                    f"{name}={value!r} has no effect on points read as geometry 'points'; it acts on 'grid' or "
                    "'structured'.",
                    SkopWarning,
                )
        if isinstance(host, GNOT) and host.branches != "joint" and not spec.n_params:
            several = host.branches == "channels"
            if not (several and spec.n_fields > 1):
                warn(
                    f"host__branches={host.branches!r} has no effect with {spec.n_fields} input fields and no global "
                    f"parameters; it acts with global parameters{' or several fields' * several} in X.",
                    SkopWarning,
                )

    # ------------------------------------------------------------------ points in their order
    @property
    def surrogate_(self) -> Surrogate:
        """Fitted model without its estimator."""
        # A grid that is read as points is none for the network.
        return replace(super().surrogate_, sees_grid=False)

    def _sorts_points(self) -> bool:
        """Whether the points of a sample are brought into one order before the network sees them."""
        return self._options("host").point_order != "given" and super()._sorts_points()
