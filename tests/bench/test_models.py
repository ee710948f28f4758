"""What the benchmarks share about models: the choice of an operator, its name, and the limits of its training."""

import argparse

import numpy as np

from benchmarks import _models as models
from skop import MNORegressor
from skop.parts import GNOT, GalerkinTransformer, Mamba


def parsed(*words):
    parser = argparse.ArgumentParser()
    models.add_mno_options(parser)
    return parser.parse_args(words)


def test_mno_has_its_defaults_unless_another_host_or_mixer_is_asked_for():
    default = models.make_operator("mno", parsed())
    assert (type(default.host), type(default.mixer)) == (GalerkinTransformer, Mamba)
    assert default.set_params(host=None, mixer=None).get_params() == MNORegressor(base=None).get_params()
    chosen = parsed("--host", "gnot", "--mixer", "linear")
    found = models.make_operator("mno", chosen, random_state=3)
    assert (type(found.host), found.mixer.kind, found.random_state) == (GNOT, "linear", 3)
    names = [models.operator_name(kind, chosen) for kind in models.OPERATORS]
    assert names == ["LaMO", "GeoMaNO", "MNO gnot linear", "AMO"]
    assert "host" not in models.make_operator("lamo", chosen).get_params()


def test_a_limit_is_the_only_one():
    X = np.random.default_rng(0).random((8, 6, 6, 1))
    sizes = {"width": 8, "depth": 1, "random_state": 0}
    fitted = models.make_operator("lamo", parsed(), **sizes, **models.until_epoch(3)).fit(X, X)
    assert (fitted.n_iter_, fitted.stopped_) == (3, "max_iter")
    fitted = models.make_operator("lamo", parsed(), **sizes, **models.until_time(0.2)).fit(X, X)
    assert fitted.stopped_ == "max_time"
