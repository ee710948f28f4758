"""Parameters and parts: each part is an estimator, reached by searches, and no parameter is silently ignored."""

import inspect
import pickle
import re
import warnings
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import skop
from skop import (
    AMORegressor,
    GeoMaNORegressor,
    LaMORegressor,
    MNORegressor,
    ScalingOptions,
    TrainingOptions,
)
from skop.data import unit_grid
from skop.estimators.fitting import _monitors
from skop.estimators.fitting._comparison import Review
from skop.estimators.fitting._monitors import OverfittingMonitor
from skop.estimators.fitting._session import FitSession
from skop.exceptions import SkopWarning
from skop.modules import ResidualDropout, set_drop_path
from skop.parts import (
    GNOT,
    Attention,
    GalerkinTransformer,
    GeometricScan,
    GridSSD,
    Hydra,
    LatentAttention,
    LatentTokens,
    LiteralExpansions,
    Mamba,
    Mamba2,
    OFormer,
    Part,
    Patches,
    RotaryAttention,
    TakenakaMalmquist,
    Whole,
    param,
)
from skop.training import Group

FIELDS = np.random.default_rng(0).normal(size=(6, 5, 4, 1))
POINTS = [np.random.default_rng(seed).random((7, 2)) for seed in range(6)]
VALUES = [-points[:, :1] for points in POINTS]
PAIRS = [(points, points[:, :1]) for points in POINTS]
SMALL: dict[str, Any] = {"width": 8, "depth": 1, "max_iter": 1, "random_state": 0}
OPERATORS = [LaMORegressor, GeoMaNORegressor, AMORegressor, MNORegressor]
#: Parts by their names, base classes among them.
PARTS = {name: kind for name, kind in Part.known.items() if kind.__module__.startswith("skop.")}
#: Mixers that go into any network.
MIXERS = [Attention, GeometricScan, GridSSD, Hydra, Mamba, Mamba2, TakenakaMalmquist]


def test_a_user_sees_at_most_thirty_parameters_all_by_keyword(subtests):
    for kind in OPERATORS:
        with subtests.test(kind=kind):
            parameters = inspect.signature(kind).parameters.values()
            assert len(parameters) <= 30
            assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters)


# ---------------------------------------------------------------------- parts
def test_parts_are_estimators_with_valid_defaults(subtests):
    for name in PARTS:
        with subtests.test(name):
            part = PARTS[name]()
            part._validate_params()
            assert set(part.get_params()) == set(part._parameter_constraints) == {each.name for each in fields(part)}
            assert repr(part) == f"{name}()"
            copy = pickle.loads(pickle.dumps(clone(part)))
            assert type(copy) is PARTS[name]
            assert copy.get_params() == part.get_params()
            assert not list(part.idle())
            with pytest.raises(TypeError, match="positional"):
                PARTS[name](3)


def test_a_parameter_of_another_part_cannot_be_written(subtests):
    for name in PARTS:
        with subtests.test(name):
            part = PARTS[name]()
            others = {other for kind in PARTS.values() for other in kind().get_params()} - set(part.get_params())
            for other in others:
                with pytest.raises(TypeError, match=f"unexpected keyword argument '{other}'"):
                    PARTS[name](**{other: 1})
                with pytest.raises(ValueError, match=f"Invalid parameter '{other}' for estimator {name}"):
                    part.set_params(**{other: 1})


def test_parameters_act_with_values_that_other_parameters_of_the_part_can_have(subtests):
    for name in PARTS:
        with subtests.test(name):
            for each in fields(PARTS[name]):
                for other, able in each.metadata["acts_with"].items():
                    for value in able:
                        PARTS[name](**{other: value})._validate_params()


def test_a_part_knows_its_parameters_without_effect(subtests):
    for part, idle in [
        (Patches(n_frequencies=2, positional_encoding=None), {"n_frequencies"}),
        (Patches(n_frequencies=2), set()),
        (Patches(positional_encoding=None), set()),
        (GalerkinTransformer(decoder="pointwise", n_modes=2), {"n_modes"}),
        (RotaryAttention(kind="softmax", rotary_scales=2.0, query_rotary_scale=3.0), {"rotary_scales"}),
        (TakenakaMalmquist(transform="filter", d_state=3), {"d_state"}),
    ]:
        with subtests.test(part=part):
            assert {name for name, _ in part.idle()} == idle


def test_a_parameter_that_its_part_does_not_use_warns():
    model = LaMORegressor(**SMALL, patches=Patches(positional_encoding=None, n_frequencies=2))
    with pytest.warns(SkopWarning, match="patches__n_frequencies=2 has no effect with patches__positional_encoding=No"):
        model.fit(FIELDS, FIELDS)


def test_parameters_of_parts_that_are_not_given_are_listed_and_can_be_set(subtests):
    for kind in OPERATORS:
        with subtests.test(kind=kind):
            model, other = kind(), kind()
            usual = {name: value for name, value in model.get_params().items() if "__" in name}
            parts = {name.partition("__")[0] for name in usual}
            assert {"training", "scaling", "symmetries", "mixer"} <= parts
            for name, value in usual.items():
                part, _, inner = name.partition("__")
                assert getattr(model, part) is None
                changed = clone(model).set_params(**{name: value})
                assert isinstance(getattr(changed, part), Part)
                assert {each: held for each, held in changed.get_params().items() if "__" in each} == usual
                changed.set_params(**{name: 123})
                assert getattr(getattr(changed, part), inner) == 123
            # Neither the estimator nor another one has changed, and what is listed can be set.
            assert other.get_params() == kind().get_params() == model.get_params()
            again = kind().set_params(**model.get_params()).get_params()
            assert {name: value for name, value in again.items() if name not in parts} == {
                name: value for name, value in model.get_params().items() if name not in parts
            }


def test_the_part_that_is_meant_by_none_never_changes(subtests):
    for kind in OPERATORS:
        with subtests.test(kind=kind):
            before = {name: value for name, value in kind().get_params().items() if "__" in name}
            changed = kind(**SMALL).fit(FIELDS, FIELDS)
            changed.set_params(mixer__d_state=3, training__ema_decay=None, scaling__inputs=None)
            changed.fit(FIELDS, FIELDS)
            first, second = kind().set_params(mixer__d_state=3), kind().set_params(mixer__d_state=4)
            assert (first.mixer.d_state, second.mixer.d_state) == (3, 4)
            assert {name: value for name, value in kind().get_params().items() if "__" in name} == before


@pytest.mark.parametrize(
    ("kind", "params", "choices"),
    [
        (LaMORegressor, {"mixer": "hydra"}, MIXERS),
        (LaMORegressor, {"mixer": Patches()}, MIXERS),
        (LaMORegressor, {"mixer": LiteralExpansions()}, MIXERS),
        (LaMORegressor, {"latents": LatentAttention()}, [LatentTokens]),
        (GeoMaNORegressor, {"mixer": Mamba()}, [GeometricScan]),
        (AMORegressor, {"mixer": Hydra()}, [TakenakaMalmquist, LiteralExpansions]),
        (MNORegressor, {"host": "gnot"}, [GalerkinTransformer, GNOT, OFormer]),
        (MNORegressor, {"host": Hydra()}, [GalerkinTransformer, GNOT, OFormer]),
        (LaMORegressor, {"training": {"tol": 0}}, [TrainingOptions]),
    ],
)
def test_a_part_of_another_class_is_refused_with_those_that_are_expected(kind, params, choices):
    model, ((name, value),) = kind(**SMALL, **params), params.items()
    inner = next(each for each in kind().get_params() if each.startswith(f"{name}__"))
    messages = []
    for act in (lambda: model.fit(FIELDS, FIELDS), lambda: model.set_params(**{inner: 1})):
        with pytest.raises(ValueError, match=re.escape(repr(value))) as caught:
            act()
        messages.append(str(caught.value))
        assert "None" in messages[-1]
    assert messages[0].startswith(f"The '{name}' parameter of {kind.__name__} must be ")
    # What the messages name can be written so, and is accepted.
    for message in messages:
        named = [eval(code, {"skop": skop}) for code in re.findall(r"skop\.[\w.]+\(\)", message)]
        assert {type(part) for part in named} == set(choices)
        for part in named:
            kind(**{name: part})._validate_params()


def test_searches_reach_parts_that_were_not_given():
    search = GridSearchCV(
        LaMORegressor(**SMALL), {"training__beta_2": [0.9, 0.99], "patches__conv_channels": [0, 2]}, cv=2
    ).fit(FIELDS, FIELDS)
    assert set(search.best_params_) == {"training__beta_2", "patches__conv_channels"}
    best = search.best_estimator_
    assert best.training.beta_2 == search.best_params_["training__beta_2"]
    assert best.training.ema_decay == TrainingOptions().ema_decay
    assert LaMORegressor().training is None


def test_searches_go_over_mixers_with_different_parameters():
    mixers = [Hydra(), Mamba(), Attention()]
    grid = [
        {"mixer": [mixers[0]], "mixer__d_state": [2, 3]},
        {"mixer": [mixers[1]], "mixer__dt_rank": [2], "mixer__d_state": [3]},
        {"mixer": [mixers[2]], "mixer__kind": ["softmax", "fourier"]},
    ]
    search = GridSearchCV(LaMORegressor(**SMALL), grid, cv=2, error_score="raise").fit(PAIRS, VALUES)
    assert len(set(search.cv_results_["mean_test_score"])) == 5
    assert repr(mixers) == "[Hydra(), Mamba(), Attention()]"
    refused = GridSearchCV(LaMORegressor(**SMALL), {"mixer": [Hydra()], "mixer__kind": ["softmax"]}, cv=2)
    with pytest.raises(ValueError, match="Invalid parameter 'kind' for estimator Hydra"):
        refused.fit(PAIRS, VALUES)


def test_options_given_as_names_become_an_object_when_a_part_is_set():
    model = LaMORegressor(symmetries=["flip_x"]).set_params(symmetries__average_predictions=True)
    assert model.symmetries.names == ["flip_x"]
    assert model.symmetries.average_predictions


def test_options_are_the_same_as_their_defaults_and_change_the_fit():
    plain = LaMORegressor(**SMALL).fit(FIELDS, FIELDS).predict(FIELDS)
    same = LaMORegressor(**SMALL, training=TrainingOptions(), scaling=ScalingOptions()).fit(FIELDS, FIELDS)
    other = LaMORegressor(**SMALL, scaling=ScalingOptions(inputs=None)).fit(FIELDS, FIELDS)
    np.testing.assert_array_equal(same.predict(FIELDS), plain)
    assert not np.array_equal(other.predict(FIELDS), plain)


def test_a_wrong_option_is_refused_before_training(subtests):
    for name in ["training__beta_2", "scaling__coords", "scan__kernel_size", "symmetries__names"]:
        with subtests.test(name), pytest.raises(ValueError, match=name.partition("__")[2]):
            LaMORegressor(**SMALL).set_params(**{name: -1}).fit(FIELDS, FIELDS)


def test_a_parameter_without_effect_warns(subtests):
    for X, y, name, value, words in [
        (FIELDS, FIELDS, "latents__n_tokens", 5, "latents=LatentTokens(n_tokens=5)"),
        (FIELDS, FIELDS, "mixer", Mamba2(), "mixer=Mamba2()"),
        (POINTS, VALUES, "patches__size", 3, "patches=Patches(size=3)"),
        (POINTS, VALUES, "scan", Hydra(), "scan=Hydra()"),
        (POINTS, VALUES, "refinement", "native", "refinement='native'"),
    ]:
        with subtests.test(name=name, value=value):
            model = LaMORegressor(**SMALL).set_params(**{name: value})
            with pytest.warns(SkopWarning, match=re.escape(f"{words} has no effect on points read as geometry")):
                model.fit(X, y)


@pytest.mark.parametrize("kind", [LaMORegressor, AMORegressor])
def test_latent_tokens_warn_of_parameters_that_the_data_or_the_depth_leave_without_effect(kind):
    waves = kind(**SMALL, base=None, latents=LatentTokens(parameter_embedding="sinusoidal", n_tokens=4))
    own = kind(**SMALL, base=None, latents=LatentTokens(shared=False, n_tokens=4))
    for model, words in (
        (waves, "latents__parameter_embedding='sinusoidal' has no effect without global parameters in X"),
        (own, "latents__shared=False has no effect with depth=1"),
    ):
        with pytest.warns(SkopWarning, match=re.escape(words)):
            model.fit(PAIRS, VALUES)
    shared, plain = (
        kind(**SMALL, base=None, latents=LatentTokens(n_tokens=4)),
        clone(waves).set_params(latents__parameter_embedding="channels"),
    )
    for idle, same in ((own, shared), (waves, plain)):
        for one, other in zip(idle.predict(PAIRS), same.fit(PAIRS, VALUES).predict(PAIRS), strict=True):
            np.testing.assert_array_equal(one, other)
    # They have one with global parameters, with several blocks, and where shared weights are drawn another way.
    with warnings.catch_warnings():
        warnings.simplefilter("error", SkopWarning)
        waves.fit(PAIRS, VALUES, params=np.random.default_rng(0).random((6, 1)))
        own.set_params(depth=2).fit(PAIRS, VALUES)
        own.set_params(depth=1, latents__weight_init="trunc_normal").fit(PAIRS, VALUES)


def test_names_of_mesh_fields_warn_where_there_are_no_meshes():
    with pytest.warns(SkopWarning, match=r"target_fields=\['stress'\] has no effect, since X holds no meshes"):
        LaMORegressor(**SMALL, target_fields=["stress"]).fit(FIELDS, FIELDS)


def test_every_parameter_with_an_effect_is_silent():
    on_grid = {"patches": Patches(size=1), "scan": GridSSD(n_heads=1, expand=1)}
    on_points = {"latents": LatentTokens(n_tokens=4), "mixer": Mamba2(expand=1)}
    for X, y, parts in ((FIELDS, -FIELDS, on_grid), (PAIRS, VALUES, on_points)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", SkopWarning)
            LaMORegressor(**SMALL, base=None, dropout=0.1, **parts).fit(X, y)


def test_the_table_of_effects_names_existing_parameters():
    for kind in OPERATORS:
        assert set(kind._effective_on) <= set(kind().get_params())


def test_a_subclass_needs_its_fields_and_its_network_only(tmp_path):
    class WiderLaMO(LaMORegressor):
        """LaMO with another default."""

        width: int = param(Whole(1), default=12, text="Size of a token.")
        extra: int = param(Whole(0), default=3, text="A number.")

    model = WiderLaMO(depth=1, max_iter=1, extra=4).fit(FIELDS, FIELDS)
    assert clone(model).get_params()["extra"] == 4
    for words in ("max_iter : int, default=100", "width : int, default=12", "extra : int, default=3"):
        assert words in WiderLaMO.__doc__
    with pytest.raises(ValueError, match="'extra' parameter of WiderLaMO"):
        WiderLaMO(extra=-1).fit(FIELDS, FIELDS)
    model.save(tmp_path / "model.skop")
    np.testing.assert_array_equal(skop.load(tmp_path / "model.skop").predict(FIELDS), model.predict(FIELDS))


def test_a_field_without_documentation_is_refused():
    with pytest.raises(TypeError, match=r"Plain\.extra is a field without documentation and checks; write it as"):

        class Plain(LaMORegressor):
            """LaMO with a field that nobody explains."""

            extra: int = 3


def test_latent_tokens_are_mixed_by_any_mixer(subtests):
    for mixer in MIXERS:
        with subtests.test(mixer=mixer):
            model = LaMORegressor(**SMALL, mixer=mixer()).fit(PAIRS, VALUES)
            assert np.isfinite(np.concatenate(model.predict(PAIRS))).all()


def test_patches_are_mixed_by_any_mixer(subtests):
    for mixer in MIXERS:
        with subtests.test(mixer=mixer):
            model = LaMORegressor(**SMALL, scan=mixer(), patches=Patches(size=1)).fit(FIELDS, FIELDS)
            assert np.isfinite(model.predict(FIELDS)).all()


@pytest.mark.parametrize("name", ["scan", "mixer"])
def test_rotary_positions_are_refused_where_there_are_none(name):
    data = (FIELDS, FIELDS) if name == "scan" else (PAIRS, VALUES)
    with pytest.raises(ValueError, match="RotaryAttention is for the host OFormer; use Attention"):
        LaMORegressor(**SMALL, **{name: RotaryAttention()}).fit(*data)


# ---------------------------------------------------------------------- regularisation during a training
def test_drop_path_changes_the_training_of_every_operator(subtests):
    for kind in OPERATORS:
        # GeoMaNO reads grids.
        for X, y in [(FIELDS, FIELDS), (PAIRS, VALUES)][: 1 if kind is GeoMaNORegressor else 2]:
            with subtests.test(kind=kind, on_grid=X is FIELDS):
                plain, dropping = (
                    kind(**SMALL, training=TrainingOptions(drop_path=rate)).fit(X, y) for rate in (0.0, 0.5)
                )
                assert plain.loss_curve_ != dropping.loss_curve_
                # Nothing is left out of predictions.
                np.testing.assert_array_equal(np.concatenate(dropping.predict(X)), np.concatenate(dropping.predict(X)))


def test_drop_path_is_refused_without_branches():
    with pytest.raises(ValueError, match=r"training__drop_path=0\.2 leaves out residual branches"):
        skop.DeepONetRegressor(max_iter=1, training=TrainingOptions(drop_path=0.2)).fit(FIELDS, FIELDS)


@pytest.mark.parametrize("kind", [skop.DeepONetRegressor, LaMORegressor])
def test_shifted_patches_are_refused_without_patches(kind):
    model = kind(max_iter=1, training=TrainingOptions(shift_patches=True))
    with pytest.raises(ValueError, match="training__shift_patches=True moves the patches of a grid, and this network"):
        (model.set_params(patches__size=1) if kind is LaMORegressor else model).fit(FIELDS, FIELDS)


@pytest.mark.parametrize("shifts", ["auto", True, False])
@pytest.mark.parametrize("stalls", [0, 1, 2])
def test_patches_shift_where_a_training_overfits_and_drop_path_follows(shifts, stalls, monkeypatch):
    left = iter([True] * stalls)
    monkeypatch.setattr(OverfittingMonitor, "overfits", lambda self, *_: (next(left, False), None))
    fields = np.random.default_rng(0).normal(size=(40, 6, 6, 1))
    options = {
        "early_stopping": True,
        "base": None,
        "training": TrainingOptions(shift_patches=shifts),
        "batch_size": 18,
    }
    model = LaMORegressor(**SMALL, patches=Patches(size=2), **options)
    model.set_params(max_iter=8).fit(fields, fields)
    assert model.module_.shifts_patches == (stalls > 0 if shifts == "auto" else shifts)
    rates = {module.drop_path for module in model.module_.modules() if isinstance(module, ResidualDropout)}
    assert rates == {0.2 if stalls > (1 if shifts == "auto" else 0) else 0.0}


def fit_and_note_drop_path(monkeypatch, **options):
    """Rates of drop path that a fit of 60 samples sets; the target is noise."""
    rng = np.random.default_rng(3)
    rates = []
    monkeypatch.setattr(
        _monitors, "set_drop_path", lambda network, rate: rates.append(rate) or set_drop_path(network, rate)
    )
    model = LaMORegressor(**SMALL).set_params(**options)
    model.fit(rng.uniform(-1, 1, (60, 2)), rng.normal(size=60))
    return rates


@pytest.mark.parametrize(
    ("unseen", "seen", "rates"),
    [
        ([1.0, 0.85], [1.0, 0.7], [0.0, 0.2]),
        ([1.0, 0.75, 0.65], [0.5, 0.4, 0.3], [0.0, 0.2]),
        ([1.0, 0.75, 0.55], [0.1, 0.1, 0.1], [0.0]),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [0.0]),
    ],
    ids=["at a quarter", "at a half", "errors fall", "no gap"],
)
@pytest.mark.parametrize("base", [None, "linear"], ids=["early stopping", "a base"])
def test_drop_path_begins_where_a_training_overfits(unseen, seen, rates, base, monkeypatch):
    # Errors of held-out samples and of others at an eighth, a quarter and half of the training; over a base the former
    # are computed to the end.
    errors = [np.full(6, error) for pair in zip(unseen, seen, strict=True) for error in pair]
    last = errors[-2]
    monkeypatch.setattr("skop.estimators.fitting._session.validation_error", lambda errors: 1.0)
    errors_of = lambda *arguments: lambda: (None, errors.pop(0) if errors or base is None else last)  # noqa: E731
    monkeypatch.setattr(FitSession, "errors_of", errors_of)
    assert fit_and_note_drop_path(monkeypatch, early_stopping=base is None, base=base, max_iter=8) == rates
    assert not errors


@pytest.mark.parametrize(
    ("at_end", "epoch"), [([0.9, 0.7, 0.6, 0.7, 0.8], 4), ([0.45] * 5, 16), ([0.0, 0.5, 0.5, 0.5, 1.4], 16)],
    ids=["worse", "better", "worse by chance"],
)  # fmt: skip
def test_over_a_base_the_weights_of_the_best_look_are_put_back_where_the_end_is_worse(at_end, epoch, monkeypatch):
    # At 1/16, 1/8, 1/4 and 1/2 of the training, and at its end.
    errors = [np.array(held) for held in ([0.8] * 5, [0.6] * 5, [0.5] * 5, [0.7] * 5, at_end)]
    monkeypatch.setattr(FitSession, "errors_of", lambda *arguments: lambda: (None, errors.pop(0)))
    monkeypatch.setattr(Review, "winner", lambda self, part, now: self.pass_by(part))
    looks = []

    def note_weights(self, *_):
        """Note the weights at each look."""
        looks.append([held.clone() for held in self.session.trainer.network.parameters()])
        return False, None

    monkeypatch.setattr(OverfittingMonitor, "overfits", note_weights)
    rng = np.random.default_rng(3)
    model = LaMORegressor(**SMALL).set_params(base="linear", max_iter=16)
    model.fit(rng.uniform(-1, 1, (60, 2)), rng.normal(size=60))
    assert not errors
    assert model.best_iter_ == epoch
    is_third = [torch.equal(held, kept) for held, kept in zip(model.module_.parameters(), looks[2], strict=True)]
    assert all(is_third) == (epoch == 4)


def test_a_group_of_samples_tells_as_much_of_overfitting_as_one_sample():
    errors, groups = np.random.default_rng(0).random(20), np.repeat([2, 0, 1], [3, 1, 16])
    session = SimpleNamespace(
        group=Group(), groups=groups, n_frames=1, errors_of=lambda rows: lambda: (None, errors[rows])
    )
    fields, scalars = OverfittingMonitor(session)._errors_of(np.arange(20))
    assert fields is None
    np.testing.assert_allclose(scalars, [errors[3], errors[4:].mean(), errors[:3].mean()])


def judged(unseen, seen, *, before, part):
    """Whether a model with these errors of held-out and of other samples overfits."""
    session = SimpleNamespace(trained_on=np.arange(10, 60), group=Group(), n_frames=1, groups=None)
    session.errors_of = lambda rows: lambda: (seen, None)
    monitor = OverfittingMonitor(session)
    monitor.before = before
    overfits, (noted, means) = monitor.overfits((unseen, None), part)
    assert (noted, means) == (part, [pytest.approx(np.mean(unseen))])
    return overfits


def test_a_base_is_compared_from_an_eighth_of_the_training_on(monkeypatch):
    compared, judged = [], []
    monkeypatch.setattr(Review, "winner", lambda self, part, now: (compared.append(part), self.pass_by(part))[0])
    monkeypatch.setattr(OverfittingMonitor, "overfits", lambda self, unseen, part: (judged.append(part), None))
    fit_and_note_drop_path(monkeypatch, base="linear", max_iter=16)
    assert (compared, judged) == ([1 / 8, 1 / 4, 1 / 2], [1 / 16, 1 / 8, 1 / 4, 1 / 2])


@pytest.mark.parametrize(("scatter", "overfits"), [(0.1, True), (4.0, False)])
def test_drop_path_does_not_begin_by_chance(scatter, overfits):
    """Held-out errors of 2 in the mean, others of 1: it depends on their scatter whether this says anything."""
    unseen = np.exp(scatter * np.random.default_rng(0).normal(size=10))
    assert judged(2 * unseen / unseen.mean(), np.ones(32), before=(0.25, [2.0]), part=0.5) == overfits


def test_whether_errors_stall_does_not_depend_on_the_times_of_the_reviews():
    """Errors that fall by one power of the time stall at all reviews or at none, and not where there is none before."""
    for power, stalls in ((-0.3, True), (-0.35, False)):
        for first, second in ((0.125, 0.25), (0.25, 0.5), (0.2, 0.3), (0.13, 0.52)):
            errors = np.full(10, second**power)
            assert judged(errors, np.zeros(32), before=(first, [first**power]), part=second) == stalls
    assert not judged(np.ones(10), np.zeros(32), before=None, part=0.125)


@pytest.mark.parametrize(("n_samples", "n_held"), [(30, 5), (130, 12)], ids=["few", "many"])
@pytest.mark.parametrize("seen", [[1.0, 0.5], [1.0, 1.0, 0.5], [1.0, 1.0, 1.0]], ids=["a quarter", "a half", "never"])
def test_samples_are_held_out_to_judge_a_training_and_returned(seen, n_samples, n_held, monkeypatch):
    X, y = np.random.default_rng(0).uniform(-1, 1, (n_samples, 2)), np.arange(float(n_samples))
    # Errors of held-out samples, which are always 1, and of others.
    compared, trained, errors = [], [], iter([np.full(8, error) for other in seen for error in (1.0, other)])

    def errors_of(self, rows):
        compared.append(rows)
        error = next(errors)
        return lambda: (error, None)

    def loader(self, *arguments):
        trained.append(arguments[0])
        return original(self, *arguments)

    original = FitSession.training_loader
    monkeypatch.setattr(FitSession, "errors_of", errors_of)
    monkeypatch.setattr(FitSession, "training_loader", loader)
    weight = np.repeat([0.0, 1.0], [10, n_samples - 10])
    model = LaMORegressor(**SMALL | {"max_iter": 8, "base": None})
    model.fit(X, y, sample_weight=weight)
    assert not list(errors)
    held, (first, every) = compared[0], trained
    assert len(held) == n_held
    assert all(set(rows) == set(held) for rows in compared[::2])
    assert not set(held) & set(np.concatenate(compared[1::2]))
    np.testing.assert_array_equal(np.sort(np.concatenate([first, held])), np.arange(10, n_samples))
    np.testing.assert_array_equal(every, np.arange(10, n_samples))
    rate = 0.2 if seen[-1] < 1 else 0.0
    rates = {module.drop_path for module in model.module_.modules() if isinstance(module, ResidualDropout)}
    assert rates == {rate}


@pytest.mark.parametrize(
    "changes",
    [
        {"max_iter": 7},
        {"training": TrainingOptions(drop_path=0.0, shift_patches=False)},
        {"training": TrainingOptions(drop_path=0.2, shift_patches=True)},
        {"n_samples": 19},
        {"kind": skop.DeepONetRegressor},
    ],
    ids=["few epochs", "none", "a fixed rate", "few samples", "no branches"],
)
def test_no_samples_are_held_out_where_they_would_judge_nothing(changes, monkeypatch):
    options = {"kind": LaMORegressor, "n_samples": 100, "max_iter": 8, "base": None, "batch_size": 100} | changes
    kind, n_samples = options.pop("kind"), options.pop("n_samples")
    trained, original = [], FitSession.training_loader

    def loader(self, *arguments):
        trained.append(arguments[0])
        return original(self, *arguments)

    monkeypatch.setattr(FitSession, "training_loader", loader)
    X = np.random.default_rng(0).uniform(-1, 1, (n_samples, 2))
    kind(width=8, **options).fit(X, (unit_grid((4, 4)), X[:, :1, None] + np.zeros((1, 16, 1))))
    (rows,) = trained
    assert len(rows) == n_samples


@pytest.mark.exhaustive
def test_a_network_that_memorises_noise_is_regularised(monkeypatch):
    training = TrainingOptions(n_iter_no_change=1000)
    options = {"weight_decay": 0.0, "early_stopping": True, "base": None, "width": 32, "max_iter": 400, "batch_size": 8}
    assert fit_and_note_drop_path(monkeypatch, training=training, **options) == [0.0, 0.2]
