"""
Autoregressive rollouts: predict the next frames of a flow
==========================================================

A turbulent flow in a periodic square is known at four times. A network learns one time step, from four frames to the
fifth, and a forecast applies it repeatedly to its own predictions (autoregressive rollout). Training on true frames
alone (teacher forcing) gives the best single step; training through several steps gives the better forecast.
"""

# %%
# The data
# --------
# The channels are frames of the vorticity: `X` holds the times 1 to 4, `y` the times 5 to 14.

import matplotlib.pyplot as plt
import numpy as np

from skop import LaMORegressor, PODRegressor, RolloutRegressor
from skop.datasets import make_navier_stokes
from skop.metrics import relative_l2_error

X, y = make_navier_stokes(
    52,
    viscosity=1e-4,
    resolution=16,
    solver_resolution=48,
    coarsening="truncate",
    n_input=4,
    n_output=10,
    random_state=0,
)
train, test = slice(40), slice(40, None)
print("first frames", X.shape, "next frames", y.shape)

# %%
# Train one step and roll it out
# ------------------------------
# With `unroll=1` every step of the training starts from true frames. With `unroll=5` the network takes five steps on
# its own frames, and all of them count in the loss. Two simple alternatives are ridge regression between the principal
# components of the frames, and repeating the last known frame.

network = LaMORegressor(width=32, depth=1, max_iter=12, batch_size=4, learning_rate_init=4e-3, base=None)
models = {
    "modes and ridge": RolloutRegressor(PODRegressor(regressor="ridge"), window=4),
    "true frames": RolloutRegressor(network, window=4, random_state=0),
    "unrolled": RolloutRegressor(network, window=4, unroll=5, random_state=0),
}
errors = {name: model.fit(X[train], y[train]).error_by_step(X[test], y[test]) for name, model in models.items()}
last_frame = X[test][..., -1:]
errors["last frame"] = np.array([relative_l2_error(y[test][..., [t]], last_frame) for t in range(y.shape[-1])])

# %%
# The error grows along the forecast. The network that was trained on true frames has the best first step and falls
# behind later, because its own frames differ from those that it was trained on.

figure, axes = plt.subplots(layout="constrained")
for name, error in errors.items():
    axes.plot(np.arange(1, len(error) + 1), error, marker="o", label=name)
axes.set(xlabel="step", ylabel="relative L2 error", xticks=range(1, y.shape[-1] + 1))
axes.legend()

# %%
# A forecast
# ----------
# The first sample of the test set at every third step, and the errors.

forecast = models["unrolled"].predict(X[test])
steps = range(0, y.shape[-1], 3)
limit = np.abs(y[test][0]).max()
figure, rows = plt.subplots(3, len(steps), figsize=(9, 6), layout="constrained")
fields = {"truth": y[test][0], "forecast": forecast[0], "error": forecast[0] - y[test][0]}
for row, (name, field) in zip(rows, fields.items(), strict=True):
    row[0].set_ylabel(name)
    for axes, step in zip(row, steps, strict=True):
        axes.imshow(field[..., step].T, origin="lower", cmap="RdBu_r", vmin=-limit, vmax=limit)
        axes.set(xticks=[], yticks=[])
for axes, step in zip(rows[0], steps, strict=True):
    axes.set_title(f"step {step + 1}")

# %%
# The score counts all frames of a sample together.

scores = {name: model.score(X[test], y[test]) for name, model in models.items()}
for name, error in errors.items():
    print(f"{name:16s} first step {error[0]:.3f}, last step {error[-1]:.3f}")
error = 1 - scores["unrolled"]
print(f"relative L2 error of the unrolled network over all steps: {error:.4f}")
plt.show()
