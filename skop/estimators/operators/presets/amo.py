"""AMO's published configuration, the same for all benchmarks but for the scaling of their data.

Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, section 5 ("implementation details"). There is no public
code. What the paper leaves open is chosen as the user guide explains: four heads, feed-forward networks with twice the
width as hidden units, poles within 0.95, the coefficients of the expansion read with the factor 1 / M, and the parts of
a block in the order of Mamba. Scaling follows the scripts of the benchmarks that LaMO uses, since the paper says
nothing. The parameters of options are given, not fields: they are read at every point, and scaled to mean 0 and
deviation 1.
"""

from dataclasses import replace
from typing import Any

from skop.data import ScalingOptions
from skop.parts import LatentAttention, TakenakaMalmquist
from skop.training import TrainingOptions

_UNSCALED = ScalingOptions(coords=None, inputs=None, params=None, targets=None)

_PAPER: dict[str, Any] = {
    "geometry": "points",
    "width": 128,
    "depth": 4,
    "mlp_ratio": 2,
    "dropout": 0.0,
    "loss": "relative_l2",
    "max_iter": 500,
    "batch_size": 16,
    "learning_rate_init": 2e-4,
    "weight_decay": 1e-5,
    "early_stopping": False,
    "latents": LatentAttention(
        n_tokens=64,
        n_heads=4,
        n_centred_heads=0,
        decoder="own_softmax",
        aggregation="last",
        n_frequencies=0,
        position_network=True,
    ),
    "mixer": TakenakaMalmquist(n_poles=32, d_state=16, expand=2, kernel_size=4, scan_directions="bidirectional"),
    "training": TrainingOptions(
        optimizer="adamw",
        schedule="cosine",
        warmup_fraction=0.1,
        decay_bias_and_norm=True,
        drop_path=0.0,
        shift_patches=False,
        beta_2=0.999,
        max_grad_norm=0.5,
        ema_decay=None,
    ),
}

#: Scaling by benchmark.
_SCALINGS = {
    "darcy": replace(_UNSCALED, coords="box", inputs="channel", targets="channel"),
    "navier_stokes": replace(_UNSCALED, coords="box"),
    "elasticity": replace(_UNSCALED, targets="channel"),
    "plasticity": replace(_UNSCALED, coords="box", inputs="channel"),
    "airfoil": _UNSCALED,
    "pipe": replace(_UNSCALED, coords="standard", targets="channel"),
    "european_option": replace(_UNSCALED, coords="box", params="channel"),
}

PRESETS: dict[str, dict[str, Any]] = {name: _PAPER | {"scaling": scaling} for name, scaling in _SCALINGS.items()}
