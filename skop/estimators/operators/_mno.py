"""MNORegressor: the Mamba neural operator, in three hosts and with three mixers, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

from skop._sklearn_compat import Interval, SequenceOf, StrOptions
from skop.data import DataSpec
from skop.estimators._options import Options
from skop.estimators.operators._base import OperatorRegressor
from skop.estimators.operators.presets import mno
from skop.exceptions import SkopWarning, warn
from skop.modules import LINE_DIRECTIONS, MIXERS, POINT_ORDERS, SCAN_DIRECTIONS
from skop.networks import GalerkinNetwork, GNOTNetwork, OFormerNetwork, SequenceNetwork
from skop.surrogate import Surrogate

__all__ = ["MNOArchitecture", "MNORegressor"]

_HOSTS: dict[str, type[SequenceNetwork]] = {"gnot": GNOTNetwork, "galerkin": GalerkinNetwork, "oformer": OFormerNetwork}
_MAMBA, _ATTENTION = ("mamba",), ("linear", "softmax")
_GNOT, _GALERKIN, _OFORMER, _CROSS = ("gnot",), ("galerkin",), ("oformer",), ("gnot", "oformer")
_PROPAGATOR = ("architecture__propagator_width", "architecture__propagator_depth")
#: Choices with which a parameter has an effect; all have to hold.
_ACTS_WITH: dict[str, dict[str, tuple[str, ...]]] = {
    "d_state": {"mixer": _MAMBA},
    "n_heads": {"mixer": _ATTENTION},
    **{f"architecture__{name}": {"mixer": _MAMBA} for name in ("expand", "dt_rank", "scan_directions", "step_range")},
    "architecture__ratio": {"host": _CROSS, "mixer": _MAMBA},
    **{f"architecture__{name}": {"host": _GNOT} for name in ("mlp_depth", "n_experts", "branches")},
    **{
        f"architecture__{name}": {"host": _GALERKIN}
        for name in ("layer_norm", "decoder", "decoder_width", "decoder_depth", "n_modes")
    },
    **{
        f"architecture__{name}": {"host": _OFORMER}
        for name in ("latent_width", "residual", "n_fourier", "fourier_scale", "n_steps", "input_dropout")
    },
    **{name: {"host": _OFORMER} for name in _PROPAGATOR},
    "architecture__query_heads": {"host": _OFORMER, "mixer": _ATTENTION},
    "architecture__rotary_scales": {"host": _OFORMER, "mixer": ("linear",)},
    "architecture__query_rotary_scale": {"host": _OFORMER, "mixer": _ATTENTION},
}


@dataclass(kw_only=True, eq=False, repr=False)
class MNOArchitecture(Options):
    """Parts of MNO's networks that few users change; the published configurations do.

    Most have an effect with one host or one kind of mixer only, as their text says; a fit warns where one that was
    changed has none.

    Parameters
    ----------
    mlp_ratio : float, default=2.0
        Hidden size of feed-forward parts, and of GNOT's experts and gates, as a multiple of the size of a token
        (public code: 2 in GNOT, 1 in the others).
    expand : int, default=2
        Inner width of scans as a multiple of the size of a token (public code: 2); mixer mamba.
    dt_rank : int or None, default=None
        Rank of the projection to the steps of scans; None is ceil(width / 16) (public code); mixer mamba.
    scan_directions : {"forward", "bidirectional", "cross", "row_corners", "corners", "all"}, default="bidirectional"
        Directions of the scans, see `skop.modules.direction_set`: along the points in their order and back (paper), or,
        where points form a grid, along its axes too, such as the four directions ``"cross"`` of the public code; mixer
        mamba.
    step_range : sequence of two floats, default=(0.001, 0.1)
        Range of the steps that the channels of scans start from (public code: 0.001 to 0.1); mixer mamba.
    ratio : float or "learnable", default=1.0
        Weight q of the input functions in the steps and maps of scans across streams (Eq. 12; public code: 1);
        ``"learnable"`` starts from 1; mixer mamba in GNOT and OFormer.
    mlp_depth : int, default=2
        Residual layers of the encoders and the head, beside their first and last layer (public code: 4); GNOT.
    n_experts : int, default=1
        Experts of each mixture, weighted by a gate that depends on the position (MNO: 1; GNOT: 2 to 4); GNOT.
    branches : {"joint", "parts", "channels"}, default="joint"
        Input functions: the fields together (public code); fields and global parameters apart; or each field and the
        parameters apart. Parameters are inputs of every point in any case; GNOT.
    kernel_size : int, default=3
        Size of the convolutions along each axis by which every block combines the neighbouring points of a grid, odd; 1
        omits them (public code). Without them a scan along the rows knows little of the points across. Grids only.
    n_frequencies : int or "auto", default="auto"
        Number of frequencies pi, 2 pi, 4 pi, ... whose sines and cosines of the coordinates are input channels (public
        code: 0). ``"auto"`` is 0 on regular grids, where neighbours are known by `kernel_size`, and 4 elsewhere.
    layer_norm : bool, default=True
        Whether each part of a block is preceded by a normalisation (public code: no); Galerkin.
    decoder : {"auto", "spectral", "pointwise"}, default="auto"
        Map to the outputs: convolutions over low frequencies of a grid (public code), or layers for every point by
        itself. ``"auto"`` takes convolutions where the points form a grid; predictions at other points are then
        interpolated; Galerkin.
    decoder_width : int, default=32
        Channels of the convolutions or layers (public code: 32); Galerkin.
    decoder_depth : int, default=2
        Number of convolutions or layers (public code: 2); Galerkin.
    n_modes : int, default=4
        Frequencies of the convolutions along each axis (public code: 12); Galerkin.
    latent_width : int or None, default=None
        Size of a token of the cross layer; None is `width` (public code: 256 for Darcy, 64 in time); OFormer.
    residual : {"raw", "normalized"}, default="raw"
        What a part of a block is added to: the points before their normalisation, or after (public code, but for
        softmax attention); OFormer.
    n_fourier : int, default=32
        Fixed random frequencies of the query points (public code: 128 for Darcy, 64 in time); OFormer.
    fourier_scale : float, default=1.0
        Standard deviation of the frequencies, in periods over the unit box (public code: 0.5 for Darcy, 8 in time);
        OFormer.
    n_steps : int or None, default=None
        Steps in time that are the output channels, all channels of the first step first, carried on from step to step
        by one small network; None decodes all channels at once (public code: None for Darcy, 91 in time); OFormer.
    propagator_width : int or None, default=None
        Size of the tokens that are carried on in time; None is that of the cross layer (public code: 128); OFormer
        with `n_steps`.
    propagator_depth : int, default=1
        Layers of the network that carries them on (public code: 1); OFormer with `n_steps`.
    query_heads : int, default=1
        Heads of attention in the cross layer, each as wide as a token (public code: 4); OFormer.
    rotary_scales : float or sequence of float, default=64.0
        Factors of the coordinates in the rotary positions of linear attention, one for all blocks or one for each
        (public code: 4096, 1024, 64, ... for Darcy, 2048, 64 in time); OFormer.
    query_rotary_scale : float, default=64.0
        Factor of the coordinates in those of the cross layer, with attention of both kinds (public code: 1024);
        OFormer.
    input_dropout : float, default=0.0
        Dropout of the lifted points, in [0, 1) (public code: 0.05 for Darcy); OFormer.

    Examples
    --------
    >>> from skop import MNOArchitecture, MNORegressor
    >>> MNORegressor(architecture=MNOArchitecture(n_experts=3)).get_params()["architecture__n_experts"]
    3
    """

    mlp_ratio: float = 2.0
    expand: int = 2
    dt_rank: int | None = None
    scan_directions: str = "bidirectional"
    step_range: Any = (1e-3, 0.1)
    ratio: float | str = 1.0
    mlp_depth: int = 2
    n_experts: int = 1
    branches: str = "joint"
    kernel_size: int = 3
    n_frequencies: int | str = "auto"
    layer_norm: bool = True
    decoder: str = "auto"
    decoder_width: int = 32
    decoder_depth: int = 2
    n_modes: int = 4
    latent_width: int | None = None
    residual: str = "raw"
    n_fourier: int = 32
    fourier_scale: float = 1.0
    n_steps: int | None = None
    propagator_width: int | None = None
    propagator_depth: int = 1
    query_heads: int = 1
    rotary_scales: Any = 64.0
    query_rotary_scale: float = 64.0
    input_dropout: float = 0.0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "mlp_ratio": [Interval(Real, 0, 1024, closed="right")],
        "expand": [Interval(Integral, 1, 64, closed="both")],
        "dt_rank": [Interval(Integral, 1, 16384, closed="both"), None],
        "scan_directions": [StrOptions(set(SCAN_DIRECTIONS))],
        "step_range": [SequenceOf(Real, 2)],
        "ratio": [Interval(Real, 0, None, closed="left"), StrOptions({"learnable"})],
        "mlp_depth": [Interval(Integral, 0, 256, closed="both")],
        "n_experts": [Interval(Integral, 1, 256, closed="both")],
        "branches": [StrOptions({"joint", "parts", "channels"})],
        "kernel_size": [Interval(Integral, 1, 1025, closed="both")],
        "n_frequencies": [StrOptions({"auto"}), Interval(Integral, 0, 64, closed="both")],
        "layer_norm": ["boolean"],
        "decoder": [StrOptions({"auto", "spectral", "pointwise"})],
        "decoder_width": [Interval(Integral, 1, 65536, closed="both")],
        "decoder_depth": [Interval(Integral, 0, 256, closed="both")],
        "n_modes": [Interval(Integral, 1, 1024, closed="both")],
        "latent_width": [Interval(Integral, 1, 65536, closed="both"), None],
        "residual": [StrOptions({"raw", "normalized"})],
        "n_fourier": [Interval(Integral, 1, 16384, closed="both")],
        "fourier_scale": [Interval(Real, 0, None, closed="neither")],
        "n_steps": [Interval(Integral, 1, 4096, closed="both"), None],
        "propagator_width": [Interval(Integral, 2, 65536, closed="both"), None],
        "propagator_depth": [Interval(Integral, 1, 256, closed="both")],
        "query_heads": [Interval(Integral, 1, 1024, closed="both")],
        "rotary_scales": [Interval(Real, 0, None, closed="neither"), SequenceOf(Real)],
        "query_rotary_scale": [Interval(Real, 0, None, closed="neither")],
        "input_dropout": [Interval(Real, 0, 1, closed="left")],
    }


@dataclass(kw_only=True, eq=False, repr=False)
class MNORegressor(OperatorRegressor):
    """MNO, the Mamba neural operator: three transformers for operators whose attention selective scans can replace.

    The tokens are the points themselves: those of a grid row by row, others along a space-filling curve. A host
    encodes them, lets them read one another, and decodes them; how they read is the mixer's, and any host takes any
    mixer. Inputs may be fields, global parameters, the geometry alone, or all of them; outputs are fields on the
    points of the input, a few scalars of each sample, or both; samples may differ in their points, and other points
    can be asked for. The defaults are ours, for a few hundred samples on a laptop; `from_preset` gives the published
    configurations.

    Parameters
    ----------
    host : {"galerkin", "gnot", "oformer"}, default="galerkin"
        Network around the mixers. Galerkin Transformer: the points read one another, and convolutions over low
        frequencies of a grid give the outputs. GNOT: in every block the points read the input functions and then one
        another. OFormer: an encoder of the input, one layer in which query points read it, and a decoder for every
        point by itself.
    mixer : {"mamba", "linear", "softmax"} or str, default="mamba"
        What the points exchange information by: selective scans along the points and back (MNO), the linear attention
        that the host was published with, or softmax attention, whose time grows with the square of the number of
        points. Further names are those of `skop.modules.MIXERS`; GNOT and OFormer need one with a form across streams.
    width : int, default=32
        Size of a token (paper: 96 in GNOT, 256 in Galerkin, 96 for Darcy and 64 in time in OFormer).
    depth : int, default=3
        Number of blocks (paper: 4 in GNOT, 6 in Galerkin, 6 for Darcy and 2 in time in OFormer).
    d_state : int, default=8
        States of a channel of the scans (paper: 16).
    n_heads : int or None, default=None
        Heads of the attention; must divide the width, but in OFormer, where each is as wide as a token. None gives
        heads of about 16 channels, and one in OFormer (public code: 8 in GNOT, 4 in Galerkin, 4 for Darcy and 1 in
        time in OFormer).
    dropout : float, default=0.0
        Dropout in the blocks, in [0, 1) (public code: 0; 0.03 for Darcy in OFormer).
    point_order : {"hilbert", "morton", "given"}, default="hilbert"
        Order in which points that form no grid are scanned: along Hilbert's or Morton's curve, so that it does not
        matter how they are listed, or as they are listed.
    learning_rate_init : float, default=0.008
        Peak learning rate of the optimiser (public code: 1e-3; 1e-4 in OFormer).
    architecture : MNOArchitecture or None, default=None
        Further parts of the network; None takes the defaults of `skop.MNOArchitecture`.

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
    FieldSet y on other points than X trains the network at these; with ``"mamba"`` each layer that is asked there takes
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
    >>> model = MNORegressor(host="gnot", width=16, depth=1, max_iter=20, random_state=0).fit(X[:20], y[:20])
    >>> model.predict(X[20:]).shape
    (4, 16, 16, 1)
    >>> model.predict(X[20:], coords=[[0.5, 0.5], [0.21, 0.77]]).shape
    (4, 2, 1)
    """

    host: str = "galerkin"
    mixer: str = "mamba"
    width: int = 32
    depth: int = 3
    d_state: int = 8
    n_heads: int | None = None
    dropout: float = 0.0
    point_order: str = "hilbert"
    learning_rate_init: float = 8e-3
    architecture: MNOArchitecture | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OperatorRegressor._parameter_constraints,
        "host": [StrOptions(set(_HOSTS))],
        "mixer": [str],
        "width": [Interval(Integral, 1, 65536, closed="both")],
        "depth": [Interval(Integral, 1, 256, closed="both")],
        "d_state": [Interval(Integral, 1, 4096, closed="both")],
        "n_heads": [Interval(Integral, 1, 4096, closed="both"), None],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "point_order": [StrOptions(set(POINT_ORDERS))],
        "architecture": [MNOArchitecture, None],
    }
    _option_types = {**OperatorRegressor._option_types, "architecture": MNOArchitecture}
    _effective_on = {
        **OperatorRegressor._effective_on,
        "point_order": ("points",),
        "architecture__kernel_size": ("grid", "structured"),
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
            Parameters to set differently, those of option objects as ``training__weight_decay``.

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
            ("host", host, _HOSTS),
            ("mixer", mixer, mno.MIXERS),
        ):
            if given not in known:
                raise ValueError(f"{cls.__name__} has no {what} {given!r}; choose from {sorted(known)}.")
        return cls._from_parameters(mno.preset(name, host, mixer)).set_params(**changes)

    def _build_network(self, spec: DataSpec, geometry: str) -> SequenceNetwork:
        """Build the host for the data."""
        kind = _HOSTS[self.host]
        options = self._network_options(spec, geometry)
        options |= {
            name: getattr(self, name)
            for name in ("mixer", "width", "depth", "d_state", "n_heads", "dropout", "point_order")
        }
        options["decoder"] = self._decoder(geometry)
        if options["n_frequencies"] == "auto":
            options["n_frequencies"] = 0 if geometry == "grid" else 4
        options["kernel_size"] = 1 if geometry == "points" else options["kernel_size"]
        self._check_grid(options, geometry)
        if self.host == "oformer":
            scales, n_heads = options["rotary_scales"], self.n_heads
            latent_width = options["latent_width"] or self.width
            options |= {
                "n_heads": 1 if n_heads is None else n_heads,
                "latent_width": latent_width,
                "propagator_width": options["propagator_width"] or latent_width,
                "rotary_scales": (scales,) * self.depth if isinstance(scales, Real) else tuple(scales),
            }
        keywords = kind.keywords()
        known = {name: value for name, value in options.items() if name in keywords}
        return cast(SequenceNetwork, cast(Any, kind)(**known))

    def _decoder(self, geometry: str) -> str:
        """The decoder of the Galerkin host on points of this geometry."""
        decoder: str = self._options("architecture").decoder
        if decoder != "auto":
            return decoder
        return "pointwise" if geometry == "points" else "spectral"

    def _check_grid(self, options: dict[str, Any], geometry: str) -> None:
        """Raise if a part of the network needs a grid that the points do not form."""
        needs = []
        if self.host == "galerkin" and options["decoder"] == "spectral":
            needs.append("architecture__decoder='spectral'")
        if self.mixer in ("mamba", "s6") and options["scan_directions"] not in LINE_DIRECTIONS:
            needs.append(f"architecture__scan_directions={options['scan_directions']!r}")
        if needs and geometry == "points":
            raise ValueError(
                f"{' and '.join(needs)} needs points on a grid, but they are read as geometry 'points'; set "
                f"architecture__decoder='auto' and one of {LINE_DIRECTIONS} as architecture__scan_directions, or "
                "grid='auto' to resample the points."
            )

    def _check_options(self, spec: DataSpec, geometry: str) -> None:
        """Warn of parameters that have no effect on these data and this geometry, or with this host and mixer."""
        if self.mixer not in (*mno.MIXERS, *MIXERS):
            raise ValueError(f"mixer is {self.mixer!r}; expected one of {(*mno.MIXERS, *sorted(MIXERS))}.")
        super()._check_options(spec, geometry)
        mixer, architecture = "mamba" if self.mixer == "s6" else self.mixer, self._options("architecture")
        several = architecture.branches == "channels" and spec.n_fields > 1
        further = {
            "architecture__branches": (
                f"global parameters{' or several fields' * (architecture.branches == 'channels')} in X",
                spec.n_params > 0 or several,
            ),
            "architecture__n_modes": ("architecture__decoder='spectral'", self._decoder(geometry) == "spectral"),
            **dict.fromkeys(_PROPAGATOR, ("architecture__n_steps", architecture.n_steps is not None)),
        }
        for name, value in self._changed(_ACTS_WITH).items():
            able = _ACTS_WITH[name]
            unmet = []
            if self.host not in able.get("host", _HOSTS):
                unmet.append(f"host={' or '.join(map(repr, able['host']))}")
            if mixer not in able.get("mixer", (mixer,)) and not _is_option_of(mixer, name):
                unmet.append(f"mixer={' or '.join(map(repr, able['mixer']))}")
            if name in further and not further[name][1]:
                unmet.append(further[name][0])
            if unmet:
                warn(
                    f"{name}={value!r} has no effect with host={self.host!r} and mixer={self.mixer!r}; it acts with "
                    f"{' and '.join(unmet)}.",
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
        return self.point_order != "given" and super()._sorts_points()


def _is_option_of(mixer: str, name: str) -> bool:
    """Whether a registered mixer without a name of MNO's takes an option."""
    option = name.removeprefix("architecture__")
    option = {"query_heads": "n_heads"}.get(option, "rotary_scale" if "rotary_scale" in option else option)
    return mixer not in mno.MIXERS and option in signature(MIXERS[mixer]).parameters
