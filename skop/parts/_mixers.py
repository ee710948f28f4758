"""Token mixers as parts of operators: their parameters, and the modules that they build."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from numbers import Real
from typing import Any, ClassVar

from skop._parameters import Choice, Part, Whole, param
from skop._sklearn_compat import Interval, SequenceOf
from skop.modules import (
    ACTIVATIONS,
    CORRECTION_PLACES,
    DIRECTION_ORDERS,
    LINE_DIRECTIONS,
    RECURRENCES,
    SCAN_DIRECTIONS,
    TRANSFORMS,
    BidirectionalSSDMixer,
    FourierAttention,
    GalerkinAttention,
    GeometricScanMixer,
    GridSSDMixer,
    HydraMixer,
    NormalizedLinearAttention,
    S6Mixer,
    SoftmaxAttention,
    TakenakaMalmquistMixer,
    TokenMixer,
)

__all__ = [
    *("Attention", "GeometricScan", "GridSSD", "Hydra", "LiteralExpansions", "Mamba", "Mamba2", "Mixer"),
    *("RotaryAttention", "TakenakaMalmquist"),
]

_EXPAND = Whole(1, 64)
_STATES = Whole(1, 4096)
_HEADS = Whole(1, 4096)
_RANK = Whole(1, 16384)
_KERNEL = Whole(1, 1025)


class Mixer(Part):
    """Base class of the mixers. A subclass states its parameters and, as `module`, the class that takes them.

    See Also
    --------
    skop.modules.TokenMixer : The modules.

    Examples
    --------
    >>> from skop.parts import Hydra
    >>> type(Hydra(d_state=4).build(16)).__name__
    'HydraMixer'
    """

    module: ClassVar[Callable[..., TokenMixer]]

    @property
    def needs_grid(self) -> bool:
        """Whether the mixer needs to know the grid of the tokens."""
        return False

    def build(self, width: int, n_dims: int = 1, **place: Any) -> TokenMixer:
        """Return the module.

        Parameters
        ----------
        width : int
            Size of a token.
        n_dims : int, default=1
            Axes of the token grid.
        **place
            What a network says about the place of the mixer in it, such as `n_references`; the module takes those that
            it has a keyword for.

        Returns
        -------
        TokenMixer
            The module, with fresh weights.

        Raises
        ------
        ValueError
            If no `module` takes the parameters, or there is no cross form although `n_references` asks for one.
        """
        self._validate_params()
        return self._build(_module_of(self), width, n_dims, place)

    def _build(self, module: Callable[..., TokenMixer], width: int, n_dims: int, place: dict[str, Any]) -> TokenMixer:
        """Build a module with the parameters, and with what it takes of its place."""
        known = signature(module).parameters
        takes_all = any(option.kind is Parameter.VAR_KEYWORD for option in known.values())
        if place.get("n_references") and "n_references" not in known:
            raise ValueError(
                f"{type(self).__name__} mixes one stream of tokens, and cross layers need two; use Mamba or Attention."
            )
        own = self.values()
        given = {name: value for name, value in (own | place).items() if name in known or (takes_all and name in own)}
        return module(width, n_dims, **given)


def _module_of(mixer: Mixer) -> Callable[..., TokenMixer]:
    """The module of a mixer, which has a keyword for each of its parameters."""
    kind = type(mixer)
    if not hasattr(kind, "module"):
        raise ValueError(f"{kind.__name__} states no module; add module = ... to the class, the TokenMixer to build.")
    known = signature(kind.module).parameters
    unknown = sorted(mixer.values().keys() - known.keys())
    if unknown and all(option.kind is not Parameter.VAR_KEYWORD for option in known.values()):
        name = getattr(kind.module, "__name__", kind.module)
        raise ValueError(
            f"{kind.__name__} has the parameter {unknown[0]!r}, but its module {name} takes no such keyword; name both "
            "alike."
        )
    return kind.module


class GridSSD(Mixer):
    """Scans of LaMO over the tokens of a grid."""

    d_state: int = param(_STATES, default=16, text="Number of states of each channel (paper: 64).")
    expand: int = param(_EXPAND, default=2, text="Inner width as a multiple of the width (paper: 2).")
    n_heads: int | None = param(
        _HEADS,
        None,
        default=None,
        text="Number of heads of each path, a divisor of the inner width; None gives ceil(width / 16).",
    )
    scan_directions: str = param(
        Choice(*SCAN_DIRECTIONS),
        default="cross",
        text=(
            "Directions in which the token grid is scanned, see `skop.modules.direction_set`. The unidirectional and "
            "bidirectional rows of the paper's Table 7 are not reproduced by this parameter, because the public code "
            "keeps four paths with separate weights for them."
        ),
    )
    path_weights: str = param(
        Choice("own", "own_steps", "shared"),
        default="own_steps",
        text="Weights that each path has for itself: all (public code), steps and decays, or none.",
    )
    kernel_size: int = param(
        _KERNEL, default=3, text="Size of the depthwise convolution before the scans along each axis, odd; 1 omits it."
    )
    activation: str = param(
        Choice(*ACTIVATIONS),
        default="gelu",
        text="Activation of the convolution and of the gate (public code: GELU; paper: SiLU).",
    )
    decay_range: Any = param(
        SequenceOf(Real, 2),
        default=(0.05, 1.0),
        text="Slowest and fastest initial decay rate of the heads of a path (public code: all 1).",
    )

    module = GridSSDMixer


class Hydra(Mixer):
    """Quasi-separable mixer of a sequence (LaMO: elasticity, airfoil)."""

    d_state: int = param(
        _STATES, default=16, text="Number of states of each channel (paper: 64; public code for the airfoil: 1)."
    )
    expand: int = param(
        _EXPAND, default=2, text="Inner width as a multiple of the width (paper: 2; public code: 1 for the airfoil)."
    )
    n_heads: int | None = param(
        _HEADS,
        None,
        default=None,
        text="Number of heads, a divisor of the inner width; None gives heads of about 64 channels.",
    )

    module = HydraMixer


class Mamba2(Mixer):
    """Mean of two Mamba-2 scans, there and back (LaMO: plasticity, pipe)."""

    d_state: int = param(_STATES, default=16, text="Number of states of each channel (paper: 64).")
    expand: int = param(_EXPAND, default=2, text="Inner width as a multiple of the width (paper: 2).")
    n_heads: int | None = param(
        _HEADS,
        None,
        default=None,
        text="Number of heads, a divisor of the inner width; None gives heads of about 32 channels.",
    )

    module = BidirectionalSSDMixer


class Mamba(Mixer):
    """Selective scans along the points and back (MNO)."""

    d_state: int = param(_STATES, default=8, text="Number of states of each channel (paper: 16).")
    expand: int = param(_EXPAND, default=2, text="Inner width as a multiple of the size of a token (public code: 2).")
    dt_rank: int | None = param(
        _RANK, None, default=None, text="Rank of the projection to the steps; None is ceil(width / 16) (public code)."
    )
    scan_directions: str = param(
        Choice(*SCAN_DIRECTIONS),
        default="bidirectional",
        text=(
            "Directions of the scans, see `skop.modules.direction_set`: along the points in their order and back "
            '(paper), or, where points form a grid, along its axes too, such as the four directions ``"cross"`` of the '
            "public code."
        ),
    )
    step_range: Any = param(
        SequenceOf(Real, 2),
        default=(1e-3, 0.1),
        text="Range of the steps that the channels start from (public code: 0.001 to 0.1).",
    )
    ratio: float | str = param(
        Interval(Real, 0, None, closed="left"),
        Choice("learnable"),
        default=1.0,
        text=(
            "Weight q of the input functions in the steps and maps of scans across streams, in GNOT and OFormer "
            '(Eq. 12; public code: 1); ``"learnable"`` starts from 1.'
        ),
    )

    module = S6Mixer

    @property
    def needs_grid(self) -> bool:
        """Whether scans run along the axes of a grid."""
        return self.scan_directions not in LINE_DIRECTIONS


class Attention(Mixer):
    """Attention among the points, whose time grows with their number, or with its square if it is softmax attention.

    See Also
    --------
    skop.modules.AttentionMixer : The modules.
    """

    kind_of_attention: ClassVar[dict[str, Callable[..., TokenMixer]]] = {
        "softmax": SoftmaxAttention,
        "galerkin": GalerkinAttention,
        "fourier": FourierAttention,
        "normalized_linear": NormalizedLinearAttention,
    }

    kind: str = param(
        Choice("linear", "softmax", "galerkin", "fourier", "normalized_linear"),
        default="linear",
        text=(
            'Kind of attention. ``"linear"`` is the one that the network was published with: normalised linear '
            "attention in GNOT, Galerkin-type attention elsewhere."
        ),
    )
    n_heads: int | None = param(
        _HEADS,
        None,
        default=None,
        text=(
            "Number of heads, a divisor of the width, but in OFormer, where each is as wide as a token. None gives "
            "heads of about 16 channels, and one in OFormer (public code: 8 in GNOT, 4 in Galerkin, 4 for Darcy and 1 "
            "in time in OFormer)."
        ),
    )

    def build(self, width: int, n_dims: int = 1, *, linear: str = "galerkin", **place: Any) -> TokenMixer:
        """Return the module, see `Mixer.build`.

        Parameters
        ----------
        width : int
            Size of a token.
        n_dims : int, default=1
            Axes of the token grid.
        linear : str, default="galerkin"
            Kind that ``"linear"`` stands for.
        **place
            What a network says about the place of the mixer in it.

        Returns
        -------
        TokenMixer
            The module, with fresh weights.
        """
        self._validate_params()
        return self._build(self.kind_of_attention[self.resolved(linear)], width, n_dims, place)

    def resolved(self, linear: str = "galerkin") -> str:
        """Return the kind, with that of a network in place of ``"linear"``."""
        return linear if self.kind == "linear" else self.kind


class RotaryAttention(Attention):
    """Attention of OFormer, whose queries and keys are turned by angles that grow with the coordinates."""

    query_heads: int = param(
        Whole(1, 1024), default=1, text="Heads in the cross layer, each as wide as a token (public code: 4)."
    )
    rotary_scales: Any = param(
        Interval(Real, 0, None, closed="neither"),
        SequenceOf(Real),
        default=64.0,
        text=(
            "Factors of the coordinates in the rotary positions, one for all blocks or one for each (public code: "
            "4096, 1024, 64, ... for Darcy, 2048, 64 in time). Softmax attention has rotary positions in the cross "
            "layer only."
        ),
        acts_with={"kind": ("linear", "galerkin", "fourier")},
    )
    query_rotary_scale: float = param(
        Interval(Real, 0, None, closed="neither"),
        default=64.0,
        text="Factor of the coordinates in those of the cross layer (public code: 1024).",
    )

    def build(self, width: int, n_dims: int = 1, *, linear: str = "galerkin", **place: Any) -> TokenMixer:
        """Return the module, see `Attention.build`; raise a ValueError in networks other than OFormer."""
        if "rotary_scale" not in place:
            raise ValueError("RotaryAttention is for the host OFormer; use Attention, which has no such positions.")
        return super().build(width, n_dims, linear=linear, **place)


class GeometricScan(Mixer):
    """Selective scans of GeoMaNO with a geometric correction."""

    d_state: int = param(
        _STATES,
        default=2,
        text="Number of states of a channel (paper: 16); the cost of the scans is proportional to it.",
    )
    recurrence: str = param(
        Choice(*RECURRENCES),
        default="sequence",
        text=(
            'Order of the recurrence. ``"grid"``: along one axis of the grid after the other, so that neighbouring '
            'cells stay neighbours (paper: Darcy). ``"sequence"``: along the flattened grid, which is faster on a CPU '
            "(paper: Navier-Stokes)."
        ),
    )
    correction: str | None = param(
        str,
        None,
        default="learnable",
        kind='{"learnable"}, str of digits, or None',
        text=(
            "Correction of the sum over the directions, in which the own token of a cell is counted once for each "
            'direction. None: no correction. ``"learnable"``: a learned share is removed for each direction, channel '
            "and state. Digits, one for each direction: the own token is removed where the digit is 1, as in "
            '``"0011"`` (paper: ``"0011"`` for Darcy, learnable for Navier-Stokes).'
        ),
    )
    correction_at: str = param(
        Choice(*CORRECTION_PLACES),
        default="state",
        text=(
            'Quantity that the correction is subtracted from. ``"state"``: as section 4.3 argues, although no formula '
            'prints it. ``"output"``: as Eqs. 9 and 10 print it. ``"input"``: as line 24 of Algorithm 2 prints it.'
        ),
    )
    expand: int = param(
        _EXPAND,
        default=2,
        text=(
            "Inner width as a multiple of the width (paper: 1 according to the shapes in Algorithm 1, but the memory "
            "in Table 2 suggests 2)."
        ),
    )
    dt_rank: int | None = param(
        _RANK,
        None,
        default=None,
        text="Rank of the projection to the steps; None gives ceil(width / 16), as in VMamba.",
    )
    scan_directions: str = param(
        Choice(*SCAN_DIRECTIONS),
        default="cross",
        text='Directions of the scans, see `skop.modules.direction_set` (paper: ``"cross"``).',
    )
    direction_order: str = param(
        Choice(*DIRECTION_ORDERS),
        default="paper",
        text=(
            'Order of the directions, to which the digits of `correction` refer. ``"paper"``: rows, reversed rows, '
            'columns, reversed columns, as in sections 4.2 and 4.3. ``"vmamba"``: rows, columns, reversed rows, '
            "reversed columns."
        ),
    )
    kernel_size: int = param(
        _KERNEL, default=3, text="Size of the depthwise convolution before the scans along each axis, odd; 1 omits it."
    )
    activation: str = param(
        Choice(*ACTIVATIONS),
        default="gelu",
        text=(
            "Activation of the convolution, of the gate and, with `activate_output`, of the output (paper: not stated)."
        ),
    )
    separate_gate: bool = param(
        "boolean",
        default=True,
        text="Whether the gate has its own projection, as in VMamba, or shares that of the scanned signal (paper).",
    )
    activate_output: bool = param(
        "boolean",
        default=False,
        text=(
            "Whether the normalised output of the scans is activated before it is multiplied by the gate (paper: yes; "
            "VMamba: no)."
        ),
    )
    step_range: Any = param(
        SequenceOf(Real, 2),
        default=(0.5, 1.0),
        text="Smallest and largest initial step of the channels (Mamba: 0.001 to 0.1).",
    )
    decay_range: Any = param(
        SequenceOf(Real, 2),
        None,
        default=(0.05, 1.0),
        text=(
            "Slowest and fastest initial decay rate of a channel's states; None gives 1 to `d_state`, as in Mamba. "
            "From one token to the next a state is multiplied by exp(-rate * step)."
        ),
    )

    module = GeometricScanMixer


class TakenakaMalmquist(Mixer):
    """Expansion of AMO in orthogonal functions with adaptive poles."""

    n_poles: int = param(
        Whole(1, 4096),
        default=16,
        text=(
            "Number of poles of each expansion (paper: 32). More than half of the number of tokens give nothing new; "
            "patches have at most as many poles as there are patches, with a warning if more are asked for; tables, "
            "which are one token, have one."
        ),
    )
    transform: str = param(
        Choice(*TRANSFORMS),
        default="coefficients",
        text=(
            "Use of the functions: coefficients of the tokens, weighted and added up again (Eq. 11); or a filter along "
            "the tokens (Eq. 9)."
        ),
    )
    d_state: int = param(
        Whole(0, 4096),
        default=16,
        text=(
            'Rank of the map between the channels of each coefficient (paper: a "state size" of 16, whose place is not '
            "stated); 0 leaves every channel by itself."
        ),
        acts_with={"transform": ("coefficients",)},
    )
    expand: int = param(_EXPAND, default=2, text="Inner width as a multiple of the width (paper: 2).")
    kernel_size: int = param(
        _KERNEL, default=3, text="Size of the depthwise convolution of tokens along each axis; 1 omits it (paper: 4)."
    )
    scan_directions: str = param(
        Choice(*SCAN_DIRECTIONS),
        default="bidirectional",
        text=(
            "Directions in which the tokens are read, each with poles of its own, see `skop.modules.direction_set` "
            "(paper, Figure 2: unidirectional, bidirectional, multidirectional). Along more than one axis the latent "
            "tokens of points are arranged as a grid."
        ),
    )
    n_pole_heads: int = param(
        Whole(1, 1024),
        default=1,
        text="Sets of poles in each direction, each for its share of the channels, a divisor of the inner width.",
    )
    adaptive_poles: bool = param(
        "boolean",
        default=True,
        text=(
            "Whether the poles are computed from the tokens of the sample (paper), or fixed random ones (its Table 4)."
        ),
    )
    orthogonal: bool = param(
        "boolean",
        default=True,
        text="Whether the functions are orthogonal (Eq. 6), or plain normalised kernels (Eq. 5, the paper's ablation).",
    )
    max_radius: float = param(
        Interval(Real, 0, 1, closed="neither"),
        default=0.95,
        text="Largest modulus of a pole, in (0, 1) (paper: below 1).",
    )

    module = TakenakaMalmquistMixer


class LiteralExpansions(Part):
    """Expansions of AMO as the paper prints them (Eq. 4, 12 and 13), which add one function in each block.

    Block i computes i poles, and only the coefficient of function i, without a factor for the number of tokens. The
    first block discards its input, and one block more than the depth is added to the result. They learn little. They
    need latent tokens that read the points once, ``latents=LatentAttention()``.
    """

    adaptive_poles: bool = param(
        "boolean", default=True, text="Whether poles depend on the sample, or are fixed random ones."
    )
    orthogonal: bool = param(
        "boolean",
        default=True,
        text="Whether the functions are orthogonal (Eq. 6), or plain normalised kernels (Eq. 5).",
    )
    max_radius: float = param(
        Interval(Real, 0, 1, closed="neither"),
        default=0.95,
        text="Largest modulus of a pole, in (0, 1) (paper: below 1).",
    )
