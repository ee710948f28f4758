"""GeoMaNO's published configurations.

X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for partial
differential equations", 2025, Tables 3 to 5. The authors have not published their code. The paper takes its training
configurations from Transolver (Wu et al., ICML 2024). The weight decay of 1e-5, gradient clipping at 0.1 for Darcy and
none for Navier-Stokes, the scaling of the data and the sum of the losses over a batch are therefore those of
Transolver's scripts. The paper does not state the rank of the projection to the steps, the activation and the initial
values, which are set as in VMamba and 2DMamba; nor the patch size, the number of hidden units and the expansion, which
are our choice. The digits of a correction refer to the directions in the order of sections 4.2 and 4.3. The correction
is subtracted from the state, which none of the printed formulas does.
"""

from dataclasses import replace
from typing import Any

from skop.data import ScalingOptions
from skop.parts import GeometricScan, Patches
from skop.training import TrainingOptions

_SHARED: dict[str, Any] = {
    "depth": 8,
    "mlp_ratio": 4,
    "dropout": 0.0,
    "max_iter": 500,
    "learning_rate_init": 3e-4,
    "weight_decay": 1e-5,
    "early_stopping": False,
}

_MIXER = GeometricScan(
    d_state=16,
    activation="silu",
    separate_gate=False,
    activate_output=True,
    step_range=(1e-3, 0.1),
    decay_range=None,
)

_TRAINING = TrainingOptions(
    loss_reduction="sum",
    optimizer="adamw",
    schedule="one_cycle",
    decay_bias_and_norm=True,
    drop_path=0.0,
    shift_patches=False,
    beta_2=0.999,
    ema_decay=None,
)

PRESETS: dict[str, dict[str, Any]] = {
    "darcy": _SHARED
    | {
        "width": 64,
        "patches": Patches(size=2, conv_channels=0, lifting_width=64, positional_encoding=None),
        "mixer": replace(_MIXER, recurrence="grid", correction="0011"),
        "loss": "relative_l2_gradient",
        "batch_size": 4,
        "training": replace(_TRAINING, max_grad_norm=0.1),
        "scaling": ScalingOptions(coords="box", inputs="channel", targets="channel"),
    },
    "navier_stokes": _SHARED
    | {
        "width": 256,
        "patches": Patches(size=2, conv_channels=0, lifting_width=256, positional_encoding="learned"),
        "mixer": replace(_MIXER, recurrence="sequence", correction="learnable"),
        "loss": "relative_l2",
        "batch_size": 2,
        "training": replace(_TRAINING, max_grad_norm=None),
        "scaling": ScalingOptions(coords="box", inputs=None, targets=None),
    },
}
