"""MNO's published configurations of its three hosts.

C.-W. Cheng, J. Huang, Y. Zhang, G. Yang, C.-B. Schönlieb, A. I. Aviles-Rivero, "Mamba Neural Operator: Who Wins?
Transformers vs. State-Space Models for PDEs", 2024, as the authors' public scripts have them. `NETWORKS` holds the
keywords of the networks, by host and data set; the mixer is "mamba", "linear" (the host's own) or "softmax".

Not expressed: the Galerkin host of the public code keeps the epoch with the smallest test error, here the last counts;
OFormer's squared error on Darcy is taken in physical units, here in those of the scaled targets; problems in time are
scaled there by one number for all frames, here by one for each; the Galerkin host has a dropout of 0.1 with softmax
attention there, and drops half of the scores of any attention in training and in tests, here it drops nothing.
"""

from typing import Any

_S6: dict[str, Any] = {
    "d_state": 16,
    "expand": 2,
    "dt_rank": None,
    "scan_directions": "bidirectional",
    "step_range": (1e-3, 0.1),
}

_GNOT = _S6 | {
    "width": 96,
    "depth": 4,
    "mlp_depth": 4,
    "mlp_ratio": 2,
    "n_experts": 1,
    "branches": "joint",
    "n_heads": 8,
    "ratio": 1.0,
    "point_order": "hilbert",
    "kernel_size": 1,
    "n_frequencies": 0,
}

_GALERKIN = _S6 | {
    "width": 256,
    "depth": 6,
    "mlp_ratio": 1,
    "layer_norm": False,
    "decoder": "spectral",
    "decoder_width": 32,
    "decoder_depth": 2,
    "n_modes": 12,
    "n_heads": 4,
    "point_order": "hilbert",
    "kernel_size": 1,
    "n_frequencies": 0,
}

_OFORMER = _S6 | {
    "mlp_ratio": 1,
    "residual": "normalized",
    "propagator_width": 128,
    "propagator_depth": 1,
    "query_heads": 4,
    "query_rotary_scale": 1024.0,
    "ratio": 1.0,
    "point_order": "hilbert",
    "kernel_size": 1,
    "n_frequencies": 0,
}

_OFORMER_DARCY = _OFORMER | {
    "width": 96,
    "depth": 6,
    "latent_width": 256,
    "n_fourier": 128,
    "fourier_scale": 0.5,
    "n_steps": None,
    "n_heads": 4,
    "rotary_scales": (4096.0, 1024.0, 64.0, 64.0, 64.0, 64.0),
    "dropout": 0.03,
    "input_dropout": 0.05,
}

_OFORMER_TIME = _OFORMER | {
    "width": 64,
    "depth": 2,
    "latent_width": 64,
    "n_fourier": 64,
    "fourier_scale": 8.0,
    "n_steps": 91,
    "n_heads": 1,
    "rotary_scales": (2048.0, 64.0),
}

#: Keywords of the networks by host and data set.
NETWORKS: dict[str, dict[str, dict[str, Any]]] = {
    "gnot": {"darcy": _GNOT, "shallow_water": _GNOT, "diffusion_reaction": _GNOT},
    "galerkin": {"darcy": _GALERKIN, "shallow_water": _GALERKIN, "diffusion_reaction": _GALERKIN},
    "oformer": {"darcy": _OFORMER_DARCY, "shallow_water": _OFORMER_TIME, "diffusion_reaction": _OFORMER_TIME},
}

#: What the public code changes with softmax attention, by host.
SOFTMAX_CHANGES: dict[str, dict[str, Any]] = {"gnot": {}, "galerkin": {}, "oformer": {"residual": "raw"}}

#: Input and output channels of the data sets: ten frames are known, ninety-one predicted, all at once.
CHANNELS: dict[str, tuple[int, int]] = {"darcy": (1, 1), "shallow_water": (10, 91), "diffusion_reaction": (20, 182)}

#: Names of the mixers: selective scans, the host's own linear attention, softmax attention.
MIXERS = ("mamba", "linear", "softmax")

#: Parameters of the estimator itself; the other keywords are those of its architecture.
_OWN = ("width", "depth", "d_state", "n_heads", "dropout", "point_order")
#: Keywords that have no effect with a mixer.
_IDLE = {
    "mamba": ("n_heads", "query_heads", "rotary_scales", "query_rotary_scale"),
    "linear": (*_S6, "ratio"),
    "softmax": (*_S6, "ratio", "rotary_scales"),
}

_TRAINING: dict[str, Any] = {
    "loss_reduction": "mean",
    "optimizer": "adamw",
    "schedule": "one_cycle",
    "schedule_interval": "step",
    "one_cycle": (0.3, 1e4, 1e4),
    "weight_decay": 0.0,
    "decay_bias_and_norm": True,
    "drop_path": 0.0,
    "shift_patches": False,
    "beta_2": 0.999,
    "max_grad_norm": None,
    "ema_decay": None,
}
_GNOT_TRAINING = _TRAINING | {"one_cycle": (0.2, 1e4, 1e4), "weight_decay": 5e-6, "max_grad_norm": 1000.0}
_GALERKIN_TRAINING = _TRAINING | {"max_grad_norm": 0.999}

_UNSCALED = {"coords": None, "inputs": None, "params": None, "targets": None}
_TARGETS_SCALED = _UNSCALED | {"targets": "channel"}
_BOTH_SCALED = _TARGETS_SCALED | {"inputs": "channel"}

_GNOT_RUN: dict[str, Any] = {"max_iter": 100, "learning_rate_init": 1e-3, "batch_size": 8, "training": _GNOT_TRAINING}
_GALERKIN_RUN = _GNOT_RUN | {"training": _GALERKIN_TRAINING}
# 100,000 steps of 4 samples of 900.
_OFORMER_TIME_RUN = {
    "max_iter": 445,
    "learning_rate_init": 1e-4,
    "batch_size": 4,
    "training": _TRAINING,
    "scaling": _BOTH_SCALED,
}

#: Scaling, optimisation and its length, by host and data set.
RUNS: dict[str, dict[str, dict[str, Any]]] = {
    "gnot": {
        "darcy": _GNOT_RUN | {"scaling": _UNSCALED},
        "shallow_water": _GNOT_RUN | {"scaling": _TARGETS_SCALED},
        "diffusion_reaction": _GNOT_RUN | {"scaling": _TARGETS_SCALED},
    },
    "galerkin": {
        "darcy": _GALERKIN_RUN | {"scaling": _UNSCALED},
        "shallow_water": _GALERKIN_RUN | {"batch_size": 4, "scaling": _BOTH_SCALED},
        "diffusion_reaction": _GALERKIN_RUN | {"batch_size": 4, "scaling": _BOTH_SCALED},
    },
    "oformer": {
        # 200,000 steps of 8 samples of 9,000.
        "darcy": _OFORMER_TIME_RUN
        | {
            "max_iter": 178,
            "batch_size": 8,
            "training": _TRAINING | {"one_cycle": (0.2, 1e2, 1e5)},
            "scaling": {"coords": "box", "inputs": "point", "params": None, "targets": "point"},
        },
        "shallow_water": _OFORMER_TIME_RUN,
        "diffusion_reaction": _OFORMER_TIME_RUN,
    },
}
#: Samples of a step with softmax attention, where they differ.
_SOFTMAX_BATCHES = {"gnot": {"darcy": 6, "shallow_water": 4, "diffusion_reaction": 4}}


def preset(name: str, host: str, mixer: str) -> dict[str, Any]:
    """Return the parameters of a published configuration, those of option objects as dictionaries.

    Parameters
    ----------
    name : str
        Data set, one of `CHANNELS`.
    host : str
        Network, one of `NETWORKS`.
    mixer : str
        One of `MIXERS`.

    Returns
    -------
    dict
        Parameters of `skop.MNORegressor` that differ from its defaults, or are stated by the public code.
    """
    network = NETWORKS[host][name] | (SOFTMAX_CHANGES[host] if mixer == "softmax" else {})
    idle = {*_IDLE[mixer], *(("propagator_width", "propagator_depth") if network.get("n_steps", 0) is None else ())}
    stated = {key: value for key, value in network.items() if key not in idle}
    parameters: dict[str, Any] = {"host": host, "mixer": mixer, "geometry": "grid", "loss": "mse"}
    parameters |= {key: value for key, value in stated.items() if key in _OWN}
    parameters["architecture"] = {key: value for key, value in stated.items() if key not in _OWN}
    parameters |= RUNS[host][name] | {"early_stopping": False}
    if mixer == "softmax" and host in _SOFTMAX_BATCHES:
        parameters["batch_size"] = _SOFTMAX_BATCHES[host][name]
    return parameters
