"""
Which simulation to run next
============================

Simulations are expensive, so the next ones should be those from which the model learns most. ``skop.suggest`` chooses
them among candidates: uncertain ones, far from the runs that are there and from each other.
"""

# %%
# The data
# --------
# A front that becomes steep for high values of one parameter, and moves a little with another one. The candidates are
# runs that could be simulated.

import matplotlib.pyplot as plt
import numpy as np

import skop

rng = np.random.default_rng(0)
nodes = np.linspace(0, 1, 65)


def simulate(params):
    """Fields (n, 65, 1) of runs."""
    steepness, shift = 2 + 40 * params[:, :1] ** 3, 0.5 + 0.1 * params[:, 1:]
    return (1 / (1 + np.exp(-steepness * (nodes - shift))))[..., np.newaxis]


X, candidates, X_test = rng.random((12, 2)), rng.random((400, 2)), rng.random((300, 2))
y, y_test = simulate(X), simulate(X_test)

# %%
# A first batch
# -------------
# The model is fitted to 12 runs. The suggested runs lie where the front is steep, and keep a distance from each other;
# the ten candidates of the largest spread are neighbours.

model = skop.PODRegressor().fit(X, y)
batch, scores = skop.suggest(model, candidates, 10, return_scores=True)
mean, spread = model.predict(candidates, return_std=True)
uncertainty = np.linalg.norm(spread, axis=(1, 2)) / np.linalg.norm(mean, axis=(1, 2))
largest = np.argsort(-uncertainty)[:10]

figure, axis = plt.subplots(figsize=(6, 4.5), layout="constrained")
drawn = axis.scatter(*candidates.T, c=uncertainty, s=12, cmap="viridis")
axis.scatter(*X.T, c="k", marker="s", label="simulated")
axis.scatter(*candidates[largest].T, s=90, facecolors="none", edgecolors="C1", label="largest spread")
axis.scatter(*candidates[batch].T, c="C3", marker="*", s=120, label="suggested")
axis.set(xlabel="parameter 0", ylabel="parameter 1")
axis.legend(loc="lower left")
figure.colorbar(drawn, label="relative spread")

# %%
# Batch after batch
# -----------------
# Simulate the suggested runs, fit again, ask again; beside the mean of five random choices.


def learn(choose, n_batches=4):
    """Test errors after each batch of 10 runs that a function of model and candidates chooses."""
    inputs, left, errors = X, candidates, []
    for _ in range(n_batches + 1):
        model = skop.PODRegressor().fit(inputs, simulate(inputs))
        errors.append(1 - model.score(X_test, y_test))
        rows = choose(model, left)
        inputs, left = np.concatenate([inputs, left[rows]]), np.delete(left, rows, axis=0)
    return errors


def at_random(seed):
    """Choose by a generator of its own."""
    rng = np.random.default_rng(seed)
    return lambda model, left: rng.permutation(len(left))[:10]


suggested = learn(lambda model, left: skop.suggest(model, left, 10))
random = np.exp(np.log([learn(at_random(seed)) for seed in range(5)]).mean(axis=0))
print("runs        " + "".join(f"{size:8d}" for size in range(12, 53, 10)))
print("suggested   " + "".join(f"{error:8.4f}" for error in suggested))
print("random      " + "".join(f"{error:8.4f}" for error in random))

figure, axis = plt.subplots(figsize=(5, 3.5), layout="constrained")
axis.semilogy(range(12, 53, 10), random, "o-", label="random")
axis.semilogy(range(12, 53, 10), suggested, "*-", label="suggested")
axis.set(xlabel="simulations", ylabel="relative L2 error")
axis.legend()

# %%
# The gain is that of a problem that is hard in one region. Where a problem is equally hard everywhere, a design that
# fills the space is as good, and the user guide shows such problems too.
