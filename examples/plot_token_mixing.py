"""
What do tokens read, and how alike do they become?
==================================================

LaMO lets its latent tokens exchange information by scans, Transolver by softmax attention. A scan chooses its maps from
the tokens, and for these maps it mixes them by a matrix, as attention does. This example draws the pictures of LaMO's
Figures 9 to 11: these matrices by layer, and the similarity of the tokens after each layer.
"""

# %%
# Two networks
# ------------
# The stress around a void in a square, on a mesh that differs from sample to sample. Both networks have three blocks
# with sixteen latent tokens, and see the samples as often.

import matplotlib.pyplot as plt

from skop import LaMORegressor, TransolverRegressor
from skop.datasets import make_elasticity
from skop.inspection import MixingDisplay, token_similarity
from skop.metrics import relative_l2_error
from skop.parts import LatentTokens

X, y = make_elasticity(n_samples=80, n_points=(24, 5), random_state=0)
train, test = slice(None, 64), slice(64, None)
options = {"width": 16, "depth": 3, "base": None, "max_iter": 20, "random_state": 0}
models = {
    "LaMO": LaMORegressor(latents=LatentTokens(n_tokens=16), **options),
    "Transolver": TransolverRegressor(n_slices=16, **options),
}
for model in models.values():
    model.fit(X[train], y[train])

# %%
# Who reads whom
# --------------
# Row t has the weights with which token t takes up the values of all tokens, the mean over samples, heads and channels.
# Colours end at the largest weight of another token.

figure, axes = plt.subplots(2, 3, figsize=(8, 5.5), layout="constrained")
displays = {
    name: MixingDisplay.from_estimator(model, X[test], ax=panels)
    for (name, model), panels in zip(models.items(), axes, strict=True)
}
for name, panels in zip(models, axes, strict=True):
    for number, panel in enumerate(panels, start=1):
        panel.set_title(f"{name}, layer {number}", fontsize="medium")

# %%
# How alike the tokens become
# ---------------------------
# The mean cosine between two tokens of a sample after each mixer: 1 if all are the same.

figure, panel = plt.subplots(layout="constrained")
similarities = {name: token_similarity(model, X[test]) for name, model in models.items()}
for name, similarity in similarities.items():
    MixingDisplay(similarity=similarity, name=name).plot(kind="similarity", ax=panel)

# %%
# What it shows
# -------------
# The tokens of Transolver are nearly the same in all layers, those of LaMO are not, as in the paper's Figure 11. In the
# paper Transolver's attention is concentrated on a few tokens. After this short training it is not: where tokens are
# the same, each reads all others alike.

errors = {}
for name, similarity in similarities.items():
    errors[name] = relative_l2_error(y[test], models[name].predict(X[test]))
    print(f"{name}: mean cosine by layer {similarity.round(3)}, relative L2 error {errors[name]:.3f}")
plt.show()
