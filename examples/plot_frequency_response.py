"""
What do mixers do to frequencies?
=================================

Attention smooths in image classifiers: it lowers the high frequencies of feature maps, and feed-forward layers raise
them (Park and Kim, ICLR 2022). The MNO paper compares three mixers in GNOT in this way (Figures 6 and 7). This example
draws both figures for small networks.
"""

# %%
# Three networks
# --------------
# Flow through a porous square on 8 x 8 points, each of which is a token. GNOT's blocks have two mixers: the points
# read the permeability, then one another, and each is followed by a feed-forward part. As in the paper, nothing but
# these mixes the points: `kernel_size=1` leaves out the convolutions that the default network has beside them. AdamW
# with one cycle of the learning rate, without an average of the weights, is the paper's training.

import matplotlib.pyplot as plt
import numpy as np

from skop import MNORegressor, TrainingOptions
from skop.datasets import make_darcy
from skop.inspection import FrequencyResponseDisplay
from skop.metrics import relative_l2_error
from skop.parts import GNOT, Attention, Mamba

X, y = make_darcy(100, resolution=8, solver_resolution=29, random_state=0)
train, test = slice(None, 80), slice(80, None)
host = GNOT(mlp_depth=1, kernel_size=1)
options = {"host": host, "base": None, "width": 16, "depth": 2, "max_iter": 30, "random_state": 0}
training = TrainingOptions(optimizer="adamw", schedule="one_cycle", ema_decay=None)
options |= {"learning_rate_init": 4e-3, "training": training}
mixers = {"linear": Attention(kind="linear"), "softmax": Attention(kind="softmax"), "mamba": Mamba()}
models = {name: MNORegressor(mixer=mixer, **options).fit(X[train], y[train]) for name, mixer in mixers.items()}

# %%
# Over the frequency
# ------------------
# The log amplitude of the Fourier transformed feature maps along the half diagonal, relative to that at frequency 0:
# one curve for each layer, from dark (the encoded coordinates, which are smooth) to bright (the last layer).

figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
displays = {
    mixer: FrequencyResponseDisplay.from_estimator(model, X[test], name=mixer, ax=ax)
    for (mixer, model), ax in zip(models.items(), axes, strict=True)
}

# %%
# Over the depth
# --------------
# The same at the highest frequency alone. Grey bands are mixers, white ones feed-forward parts.

figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for display in displays.values():
    display.plot(kind="depth", ax=ax)

# %%
# What it shows
# -------------
# The mixers with scans raise high frequencies more than those with attention: in their form across streams, a point
# reads the permeability of its own place, where attention averages over all points. The feed-forward parts raise high
# frequencies in the networks with attention, as in image classifiers, and not in that with scans.
#
# Both statements held for all of four seeds. The numbers below are the sums of these changes, and the errors. Networks,
# data and training are far smaller than in the paper; draw several seeds before you read more into a curve.

changes = {}
for mixer, display in displays.items():
    steps = np.diff(display.response.log_amplitudes[:, -1])
    layers = np.array(display.response.layers[1:])
    changes[mixer] = [float(steps[layers == kind].sum()) for kind in ("mixer", "mlp")]
errors = {mixer: relative_l2_error(y[test], model.predict(X[test])) for mixer, model in models.items()}
mean_error = relative_l2_error(y[test], np.broadcast_to(y[train].mean(axis=0), y[test].shape))
for mixer, (by_mixers, by_mlps) in changes.items():
    print(f"{mixer}: mixers {by_mixers:+.2f}, feed-forward {by_mlps:+.2f}, relative L2 error {errors[mixer]:.4f}")
print(f"mean of the training fields: relative L2 error {mean_error:.4f}")
plt.show()
