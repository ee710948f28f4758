"""
Breaking dams: all frames at once, or step by step
==================================================

A cylinder of water bursts, and a shock runs outwards. Given the first frames of the depth, the next ones are
predicted in two ways: all at once, and step by step, each frame from the last ones. Principal components are enough
here, because samples differ in one number, the radius of the dam; a front that moves needs many of them.
"""

# %%
# The data
# --------
# The channels are frames of the depth: `X` holds the times 0 to 0.15, `y` the times 0.2 to 0.95. The flow is solved on
# 64 x 64 cells, of which four at a time are averaged. The still water around the dam has depth 1; what is learned is
# the height of the waves above it, so that errors are relative to the waves.

import matplotlib.pyplot as plt
import numpy as np

from skop import PODRegressor, RolloutRegressor
from skop.datasets import make_shallow_water
from skop.metrics import relative_l2_error

(coords, X), y = make_shallow_water(
    48,
    resolution=32,
    solver_resolution=64,
    coarsening="average",
    n_input=4,
    n_output=16,
    frame_interval=0.05,
    random_state=0,
    return_coords=True,
)
frames = np.concatenate([X, y], axis=-1)
print(
    f"water in the square, at the start and at the end: {frames[0, ..., 0].sum():.3f}, {frames[0, ..., -1].sum():.3f}"
)
X, y = X - 1, y - 1
train, test = slice(32), slice(32, None)

# %%
# A cut through the middle of one sample: the column falls, the shock runs outwards.

figure, axes = plt.subplots(layout="constrained")
for number in range(0, frames.shape[-1], 4):
    axes.plot(
        coords[:, 16, 0], frames[0, :, 16, number], color=plt.cm.viridis(number / 16), label=f"{0.05 * number:.1f}"
    )
axes.set(xlabel="x", ylabel="depth")
axes.legend(title="time")

# %%
# All at once, or step by step
# ----------------------------
# `PODRegressor` maps the principal components of all given frames to those of all frames to come. Here ridge
# regression does, on those with 99 % of the variance or more. `RolloutRegressor` learns one step, and applies it to its
# own frames. On this coarse grid columns of nearly the same radius cover the same cells, so that some samples are
# equal; `PODRegressor` counts them as one.

models = {
    "all at once, 99 %": PODRegressor(regressor="ridge", n_components=0.99),
    "all at once, 99.99 %": PODRegressor(regressor="ridge", n_components=0.9999),
    "step by step, 99.99 %": RolloutRegressor(PODRegressor(regressor="ridge", n_components=0.9999), window=4),
}
errors = {}
for name, model in models.items():
    forecast = model.fit(X[train], y[train]).predict(X[test])
    errors[name] = [relative_l2_error(y[test][..., [t]], forecast[..., [t]]) for t in range(y.shape[-1])]
for name in list(models)[:2]:
    basis = models[name].models_[0].basis
    print(f"{name}: {basis.n_components_} components of the frames to come")

# %%
# Errors of a rollout add up, those of a prediction at once do not. Here the whole process follows from the start, so
# predicting it at once is the better way. A rollout can run for longer than it was trained.

figure, axes = plt.subplots(layout="constrained")
for name, error in errors.items():
    axes.plot(0.2 + 0.05 * np.arange(y.shape[-1]), error, marker="o", label=name)
axes.set(xlabel="time", ylabel="relative L2 error of the waves", ylim=(0, None))
axes.legend()

# %%
# The last frame of a test sample, its prediction and their difference.

forecast = models["all at once, 99.99 %"].predict(X[test])
pictures = {"truth": y[test][0, ..., -1], "prediction": forecast[0, ..., -1]}
pictures["difference"] = pictures["prediction"] - pictures["truth"]
figure, row = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for axes, (name, picture) in zip(row, pictures.items(), strict=True):
    drawn = axes.imshow(picture.T, origin="lower", extent=(-2.5, 2.5, -2.5, 2.5))
    figure.colorbar(drawn, ax=axes)
    axes.set_title(name)
for name, error in errors.items():
    print(f"{name}: error of the first frame {error[0]:.4f}, of the last {error[-1]:.4f}")
plt.show()
