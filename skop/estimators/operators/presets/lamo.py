"""LaMO's published configurations.

Tiwari et al., "Latent Mamba Operator for Partial Differential Equations", ICML 2025, Table 6, read
together with the authors' public scripts. Where the two differ, the presets follow the scripts: four and sixteen heads
(table: one and four), GELU (text: SiLU), weight decay 0.05 and no gradient clipping for Navier-Stokes; one state for
the airfoil (table: 64); batches of eight for the pipe (table: four); a cosine schedule with updates after each epoch
for elasticity (table: OneCycle). Three parts of the paper are not implemented: lifting and projection on grids (Eq. 8),
values without a projection (Eq. 10), and the zero-order hold of the input matrix (Eq. 17).
"""

from typing import Any

_SHARED = {"depth": 8, "dropout": 0.0, "max_iter": 500, "early_stopping": False}

_TRAINING = {
    "loss_reduction": "sum",
    "optimizer": "adamw",
    "schedule": "one_cycle",
    "schedule_interval": "step",
    "weight_decay": 1e-5,
    "decay_bias_and_norm": True,
    "drop_path": 0.0,
    "shift_patches": False,
    "beta_2": 0.999,
    "max_grad_norm": 0.1,
    "ema_decay": None,
}

_GRIDS = _SHARED | {
    "geometry": "grid",
    "patch_size": 2,
    "d_state": 64,
    "learning_rate_init": 5e-4,
    "architecture": {
        "expand": 2,
        "mlp_ratio": 4,
        "scan_directions": "cross",
        "path_weights": "own",
        "kernel_size": 3,
        "activation": "gelu",
        "decay_range": (1.0, 1.0),
        "positional_encoding": "learned",
        "conv_channels": 0,
        "pad_to_multiple": 8,
        "patch_init": "normal",
    },
}

_POINTS = _SHARED | {"width": 128, "n_latents": 64, "d_state": 64, "loss": "relative_l2", "learning_rate_init": 1e-3}

_POINT_PARTS = {
    "expand": 2,
    "mlp_ratio": 1,
    "n_frequencies": 0,
    "n_latent_heads": 8,
    "n_centred_heads": 0,
    "weight_init": "trunc_normal",
    "mixer": "hydra",
    "shared_projections": True,
    "temperature": 0.5,
    "normalize_latents": True,
    "decoder": "encoder_weights",
    "parameter_embedding": "sinusoidal",
}

_UNSCALED = {"coords": None, "inputs": None, "params": None, "targets": None}

PRESETS: dict[str, dict[str, Any]] = {
    "darcy": _GRIDS
    | {
        "width": 64,
        "n_heads": 4,
        "loss": "relative_l2_gradient",
        "batch_size": 4,
        "training": _TRAINING,
        "scaling": {"coords": "box", "inputs": "channel", "targets": "channel"},
    },
    "navier_stokes": _GRIDS
    | {
        "width": 256,
        "n_heads": 16,
        "loss": "relative_l2",
        "batch_size": 2,
        "training": _TRAINING | {"weight_decay": 0.05, "max_grad_norm": None},
        "scaling": {"coords": "box", "inputs": None, "targets": None},
    },
    "elasticity": _POINTS
    | {
        "geometry": "points",
        "n_heads": 4,
        "batch_size": 1,
        "architecture": _POINT_PARTS,
        "training": _TRAINING | {"schedule": "cosine", "schedule_interval": "epoch", "warmup_fraction": 0.0},
        "scaling": _UNSCALED | {"targets": "channel"},
    },
    "plasticity": _POINTS
    | {
        "geometry": "structured",
        "n_heads": 8,
        "batch_size": 8,
        "architecture": _POINT_PARTS | {"mixer": "mamba2", "shared_projections": False},
        "training": _TRAINING,
        "scaling": _UNSCALED | {"coords": "box", "inputs": "channel"},
    },
    "airfoil": _POINTS
    | {
        "geometry": "structured",
        "n_heads": 2,
        "d_state": 1,
        "batch_size": 4,
        "architecture": _POINT_PARTS | {"expand": 1},
        "training": _TRAINING,
        "scaling": _UNSCALED,
    },
    "pipe": _POINTS
    | {
        "geometry": "structured",
        "n_heads": 8,
        "batch_size": 8,
        "architecture": _POINT_PARTS | {"mlp_ratio": 2, "mixer": "mamba2", "shared_projections": False},
        "training": _TRAINING,
        "scaling": _UNSCALED | {"coords": "standard", "targets": "channel"},
    },
}
