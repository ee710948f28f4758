"""GeoMaNO's published configurations.

X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for partial
differential equations", 2025, Tables 3 to 5. The authors have published no code. What the paper leaves open
follows the public code that it builds on: patches of two points, expansion, hidden size, scaling of the
data, weight decay, clipping and the sum over a batch as in LaMO's scripts for the same benchmarks; rank of
the steps, activation and initial values as in VMamba and 2DMamba.
"""

_SHARED = {
    "depth": 8,
    "patch_size": 2,
    "d_state": 16,
    "expand": 2,
    "dt_rank": None,
    "crossing": "cross",
    "direction_order": "reverses_last",
    "correction_place": "state",
    "kernel_size": 3,
    "activation": "silu",
    "own_gate": False,
    "activate_output": True,
    "step_range": (1e-3, 0.1),
    "decay_range": None,
    "mlp_ratio": 4,
    "coordinate_channels": True,
    "local_features": 0,
    "dropout": 0.0,
    "coord_scaler": "box",
    "loss_reduction": "sum",
    "max_iter": 500,
    "learning_rate_init": 3e-4,
    "schedule": "one_cycle",
    "schedule_interval": "step",
    "decay_vectors": True,
    "beta_2": 0.999,
    "weight_averaging": None,
    "early_stopping": False,
}

PRESETS = {
    "darcy": _SHARED
    | {
        "width": 64,
        "lift": 64,
        "recurrence": "grid",
        "correction": "0011",
        "position": None,
        "loss": "relative_l2_gradient",
        "input_scaler": "channel",
        "target_scaler": "channel",
        "batch_size": 4,
        "weight_decay": 1e-5,
        "clip_norm": 0.1,
    },
    "navier_stokes": _SHARED
    | {
        "width": 256,
        "lift": 256,
        "recurrence": "sequence",
        "correction": "learnable",
        "position": "learned",
        "loss": "relative_l2",
        "input_scaler": None,
        "target_scaler": None,
        "batch_size": 2,
        "weight_decay": 0.05,
        "clip_norm": None,
    },
}
