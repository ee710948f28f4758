"""
How far a sample is from the training samples
=============================================

A model predicts for any input, also where it knows nothing. ``novelty`` says how far an input lies from those of the
fit, before the truth is known.
"""

# %%
# The data
# --------
# A disc with a hole, heated from within: the hole's place is given only by the mesh, whose points differ in number and
# place from sample to sample. New samples have the hole at places as in the training, or further out.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr

from skop import FieldSet, LaMORegressor
from skop.datasets import make_moving_hole


def make_discs(n_samples, max_offset, seed):
    """Points of discs, and their temperatures."""
    _, fields = make_moving_hole(
        n_samples, nodes="scattered", n_points=(32, 6), max_offset=max_offset, random_state=seed
    )
    return FieldSet(fields.coords), fields


X_train, y_train = make_discs(100, 0.3, seed=0)
tests = {"like the training": make_discs(40, 0.3, seed=1), "holes further out": make_discs(40, 0.65, seed=2)}
model = LaMORegressor(width=16, depth=1, max_iter=40, random_state=0).fit(X_train, y_train)

# %%
# Score and quantile
# ------------------
# The score is a distance. The quantile is the part of the training samples whose own scores, each computed without it,
# are lower: it is spread evenly from 0 to 1 for samples like those of the training, and 1 further out than any. By
# default ``novelty`` warns of samples whose quantile is above 0.99; ``level=None`` does not.

scores, quantiles, errors = {}, {}, {}
for name, (X, y) in tests.items():
    scores[name], quantiles[name] = model.novelty(X, level=None)
    found, true = np.asarray(model.predict(X).values), np.asarray(y.values)
    errors[name] = np.linalg.norm(found - true, axis=(1, 2)) / np.linalg.norm(true, axis=(1, 2))
    beyond = np.mean(quantiles[name] == 1)
    print(f"{name:18} median error {np.median(errors[name]):.3f}, beyond all training samples: {beyond:.0%}")

# %%
# What it is good for
# -------------------
# Samples with a high score usually have a high error, so that they are the ones to simulate, or to check by hand.

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, marker in zip(tests, "os", strict=True):
    axes.scatter(scores[name], errors[name], marker=marker, label=name)
axes.set(xlabel="score of novelty", ylabel="relative L2 error")
axes.legend()
rank = spearmanr(np.concatenate([*scores.values()]), np.concatenate([*errors.values()])).statistic
print(f"rank correlation of score and error: {rank:.2f}")

# %%
# It sees the inputs only. If a material or a boundary condition that is no input changes, the score stays as it is, and
# the error does not.
