"""`skop.load`: which names a model file may hold."""

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import skop
from skop import losses
from skop.estimators.files import _persistence
from skop.estimators.files._old_parameters import renamed
from skop.parts import (
    GNOT,
    Attention,
    GalerkinTransformer,
    GeometricScan,
    GridSSD,
    LatentAttention,
    LatentTokens,
    LiteralExpansions,
    Mamba,
    Mamba2,
    OFormer,
    Patches,
    RotaryAttention,
    TakenakaMalmquist,
)
from skop.training import TrainingOptions


def test_every_estimator_and_option_object_can_be_loaded():
    public = {
        name: item for name, item in vars(skop).items() if inspect.isclass(item) and issubclass(item, BaseEstimator)
    }
    assert {name: _persistence._find_class(name) for name in public} == public


def test_every_public_loss_can_be_loaded():
    public = {
        name: getattr(losses, name)
        for name in losses.__all__
        if inspect.isclass(getattr(losses, name)) and not inspect.isabstract(getattr(losses, name))
    }
    assert {name: _persistence._find_class(name) for name in public} == public


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "Path"])
def test_paths_of_both_kinds(tmp_path, kind):
    X, y = np.random.default_rng(0).random((6, 3)), np.arange(6.0)
    estimator = skop.LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, y)
    estimator.save(kind(tmp_path / "model.skop"))
    np.testing.assert_array_equal(skop.load(kind(tmp_path / "model.skop")).predict(X), estimator.predict(X))


OLD_PARAMETERS = {
    "scans of MNO": ("MNORegressor", {"host": "gnot", "mixer": "s6", "d_state": 4, "point_order": "given"},
                     {"mlp_depth": 1, "ratio": 2.0},
                     {"host": GNOT(mlp_depth=1, point_order="given"), "mixer": Mamba(d_state=4, ratio=2.0)}),
    "attention of MNO": ("MNORegressor", {"mixer": "softmax", "n_heads": 2}, {"n_modes": 3},
                         {"host": GalerkinTransformer(n_modes=3), "mixer": Attention(kind="softmax", n_heads=2)}),
    "attention of OFormer": ("MNORegressor", {"host": "oformer", "mixer": "linear"}, {"query_heads": 3, "n_fourier": 5},
                             {"host": OFormer(n_fourier=5), "mixer": RotaryAttention(kind="linear", query_heads=3)}),
    "latent tokens of AMO": ("AMORegressor", {"n_latents": 7}, {"latents": "once", "aggregation": "sum"},
                             {"latents": LatentAttention(n_tokens=7, aggregation="sum"), "mixer": TakenakaMalmquist()}),
    "printed AMO": ("AMORegressor", {}, {"latents": "once", "transform": "literal", "orthogonal": False},
                    {"mixer": LiteralExpansions(orthogonal=False)}),
    "LaMO": ("LaMORegressor", {"patch_size": 4, "d_state": 8, "n_heads": 2, "subsample_points": 50},
             {"n_frequencies": 3, "mixer": "mamba2", "normalize_latents": False, "patch_init": "normal"},
             {"patches": Patches(size=4, conv_channels=16, n_frequencies=3, init="normal"),
              "scan": GridSSD(d_state=8, n_heads=2),
              "latents": LatentTokens(n_frequencies=3, normalize=False), "mixer": Mamba2(d_state=8, n_heads=2),
              "training": TrainingOptions(subsample_points=50)}),
    "GeoMaNO": ("GeoMaNORegressor", {"recurrence": "grid", "correction": "0011"}, {"lifting_width": 8},
                {"patches": Patches(conv_channels=16, lifting_width=8),
                 "mixer": GeometricScan(recurrence="grid", correction="0011")}),
}  # fmt: skip


def test_parameters_of_old_files_are_those_of_parts(subtests):
    for name, (kind, flat, architecture, parts) in OLD_PARAMETERS.items():
        with subtests.test(name):
            state = {"max_iter": 3, "learning_rate_init": 0.1, "training": None, **flat}
            state["architecture"] = {"object": kind.replace("Regressor", "Architecture"), "state": architecture}
            found = renamed(kind, state)
            for part, expected in parts.items():
                assert found[part]["object"] == type(expected).__name__
                assert repr(type(expected)(**found[part]["state"])) == repr(expected)
            assert set(found) <= set(getattr(skop, kind)().get_params(deep=False))
            # Files of today stay as they are.
            assert renamed(kind, found | {"weight_decay": 0.1}) == found | {"weight_decay": 0.1}
