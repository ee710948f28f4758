"""AMO's published configuration, the same for all benchmarks but for the scaling of their data.

Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, section 5 ("implementation details"). There is no public
code. What the paper leaves open is chosen as the user guide explains: four heads, feed-forward networks with twice the
width as hidden units, poles within 0.95, the coefficients of the expansion read with the factor 1 / M, and the parts of
a block in the order of Mamba. Scaling follows the scripts of the benchmarks that LaMO uses, since the paper says
nothing. The parameters of options are given, not fields: they are read at every point, and scaled to mean 0 and
deviation 1.
"""

from typing import Any

_UNSCALED = {"coords": None, "inputs": None, "params": None, "targets": None}

_PAPER: dict[str, Any] = {
    "geometry": "points",
    "width": 128,
    "depth": 4,
    "n_latents": 64,
    "n_poles": 32,
    "dropout": 0.0,
    "loss": "relative_l2",
    "max_iter": 500,
    "batch_size": 16,
    "learning_rate_init": 2e-4,
    "early_stopping": False,
    "architecture": {
        "expand": 2,
        "mlp_ratio": 2,
        "d_state": 16,
        "kernel_size": 4,
        "scan_directions": "bidirectional",
        "n_pole_heads": 1,
        "adaptive_poles": True,
        "orthogonal": True,
        "transform": "coefficients",
        "max_radius": 0.95,
        "latents": "once",
        "aggregation": "last",
        "n_latent_heads": 4,
        "n_centred_heads": 0,
        "decoder": "own_softmax",
        "n_frequencies": 0,
        "position_network": True,
    },
    "training": {
        "loss_reduction": "mean",
        "optimizer": "adamw",
        "schedule": "cosine",
        "schedule_interval": "step",
        "warmup_fraction": 0.1,
        "weight_decay": 1e-5,
        "decay_bias_and_norm": True,
        "drop_path": 0.0,
        "shift_patches": False,
        "beta_2": 0.999,
        "max_grad_norm": 0.5,
        "ema_decay": None,
    },
}

#: Scaling by benchmark.
_SCALINGS: dict[str, dict[str, Any]] = {
    "darcy": _UNSCALED | {"coords": "box", "inputs": "channel", "targets": "channel"},
    "navier_stokes": _UNSCALED | {"coords": "box"},
    "elasticity": _UNSCALED | {"targets": "channel"},
    "plasticity": _UNSCALED | {"coords": "box", "inputs": "channel"},
    "airfoil": _UNSCALED,
    "pipe": _UNSCALED | {"coords": "standard", "targets": "channel"},
    "european_option": _UNSCALED | {"coords": "box", "params": "channel"},
}

PRESETS: dict[str, dict[str, Any]] = {name: _PAPER | {"scaling": scaling} for name, scaling in _SCALINGS.items()}
