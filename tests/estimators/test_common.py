"""Every estimator against scikit-learn's checks and against the laws of field data, none left out."""

import inspect
from importlib.util import find_spec
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.base import RegressorMixin, clone
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator

import skop
import skop.estimators
from skop import (
    AMORegressor,
    AutoRegressor,
    ConformalRegressor,
    DeepONetRegressor,
    EnsembleRegressor,
    FNORegressor,
    GeoMaNORegressor,
    LaMORegressor,
    LawRegressor,
    MNORegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
    TransolverRegressor,
    UNetRegressor,
)
from skop.parts import GNOT, GalerkinTransformer, Mamba, OFormer, Patches, TakenakaMalmquist
from skop.testing._suite import yield_field_checks


def lamo(**params):
    """LaMO small and short."""
    return LaMORegressor(**({"width": 8, "depth": 1, "max_iter": 1, "batch_size": 32} | params))


def geomano(**params):
    """GeoMaNO small and short."""
    return GeoMaNORegressor(**({"width": 8, "depth": 1, "patches": Patches(conv_channels=4), "max_iter": 1} | params))


def amo(**params):
    """AMO small and short."""
    small = {"width": 8, "depth": 1, "patches": Patches(conv_channels=4), "mixer": TakenakaMalmquist(n_poles=4)}
    return AMORegressor(**(small | {"max_iter": 1} | params))


def mno(**params):
    """MNO's hosts small and short; the default host comes first."""
    small = {"width": 8, "depth": 1, "mixer": Mamba(d_state=2), "max_iter": 1} | params
    return [MNORegressor(**small, host=host) for host in (GalerkinTransformer(decoder_width=8), GNOT(), OFormer())]


def transolver(**params):
    """Transolver small and short."""
    return TransolverRegressor(**({"width": 8, "depth": 1, "n_slices": 4, "n_heads": 2, "max_iter": 1} | params))


def deeponet(**params):
    """DeepONet small and short."""
    return DeepONetRegressor(**({"width": 8, "n_basis": 6, "max_iter": 1} | params))


def unet(**params):
    """U-Net small and short."""
    return UNetRegressor(**({"width": 4, "depth": 1, "max_iter": 1} | params))


def fno(**params):
    """FNO small and short, where its library is installed."""
    if find_spec("neuralop") is None:
        return []
    return [FNORegressor(**({"width": 4, "depth": 1, "n_modes": 4, "max_iter": 1} | params))]


def kind(estimator):
    """The class of an estimator, and which of its networks it takes."""
    return type(estimator), type(getattr(estimator, "host", None))


def auto(*parts):
    """A choice by epochs, so that it repeats."""
    candidates = [(f"candidate {number}", part) for number, part in enumerate(parts)]
    return AutoRegressor(candidates=candidates, max_time=None, cv=2)


def band(part):
    """A band by cross-validation, whose predictions are those of a fit on all samples."""
    return ConformalRegressor(part, coverage=0.5, method="cv+", cv=2)


def every_estimator(part, *whole, choice, banded):
    """One of each public estimator, around a LaMO where it wraps one, a choice and a band."""
    return [
        part,
        *whole,
        PODRegressor(),
        EnsembleRegressor(part, n_members=2),
        banded,
        RolloutRegressor(part, window=1, n_steps=1),
        TimeConditionedRegressor(part),
        # It draws no seed for the estimator.
        LawRegressor(clone(part).set_params(random_state=0)),
        choice,
    ]


#: One epoch of training, which is enough to be asked for types, shapes, errors and state.
SKLEARN_ESTIMATORS = every_estimator(
    # A base, which takes tables alone, is checked as a PODRegressor, and beneath the trained and the default ones.
    *(lamo(base=None), geomano(), amo(), mno()[0]),
    choice=auto(PODRegressor(regressor="ridge"), deeponet(width=4, n_basis=2)),
    banded=band(Ridge()),
)
#: Without a base, whose search on some tables of scikit-learn's takes a hundred times as long as an epoch.
OTHER_HOSTS = mno(base=None)[1:]
#: Models of others, to compare with.
PEERS = [transolver(base=None), deeponet(), unet(base=None), *fno(base=None)]
#: Enough training for the checks that compare results, by class and network.
TRAINED = {
    kind(estimator): estimator
    for estimator in every_estimator(
        lamo(width=16, max_iter=20, learning_rate_init=3e-2, batch_size="auto"),
        geomano(width=16, max_iter=20, learning_rate_init=3e-2),
        amo(width=16, max_iter=20, learning_rate_init=2e-2),
        *mno(width=16, max_iter=20, learning_rate_init=3e-2),
        transolver(width=16, max_iter=20, learning_rate_init=3e-2),
        deeponet(width=16, max_iter=40, learning_rate_init=3e-2),
        unet(max_iter=40, learning_rate_init=3e-2),
        *fno(width=8, max_iter=20, learning_rate_init=3e-2),
        choice=auto(Ridge(), Ridge(alpha=1e6)),
        banded=band(Ridge()),
    )
}
#: Those checks: a score on the training set, and fits with weights that must agree where training has settled.
NEED_TRAINING = {
    "check_regressors_train",
    "check_regressors_int",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}
#: Those that predict on other grids and points, on other grids, and on the grid of the fit alone.
FREE_ESTIMATORS = [
    # Two batches, of four samples and two.
    lamo(batch_size=4),
    *mno(),
    amo(),
    EnsembleRegressor(lamo(), n_members=2),
    RolloutRegressor(lamo(), window=1, n_steps=1),
    TimeConditionedRegressor(lamo()),
    LawRegressor(lamo()),
]
GRID_ESTIMATORS = [geomano(batch_size=4)]
ALL_PEERS = [transolver(), deeponet(), unet(), *fno()]
TIED_ESTIMATORS = [PODRegressor()]
CHOOSING_ESTIMATORS = [auto(PODRegressor(regressor="ridge"), deeponet()), band(deeponet())]
#: Those around others, whose checks take as long as these; and those without.
WRAPPERS = [
    estimator for estimator in SKLEARN_ESTIMATORS if hasattr(estimator, "estimator") or hasattr(estimator, "candidates")
]
WHOLE_ESTIMATORS = [estimator for estimator in SKLEARN_ESTIMATORS if estimator not in WRAPPERS]
#: Sparse arrays are no form of X: a check that scikit-learn then leaves out.
OPTIONAL_CHECKS = {"check_sample_weight_equivalence_on_sparse_data"}


def check_names(estimator):
    return [getattr(check, "func", check).__name__ for _, check in estimator_checks_generator(estimator)]


def run(estimator, check):
    """Run one of scikit-learn's checks, which may not be skipped."""
    try:
        check(estimator)
    except SkipTest as skip:
        pytest.fail(f"skipped: {skip}")


def run_scikit_learn_checks(estimator, subtests):
    """Run scikit-learn's checks on an estimator, which is trained for longer where they need this."""
    for given, check in estimator_checks_generator(estimator):
        name = getattr(check, "func", check).__name__
        options = "".join(f", {key}={value}" for key, value in getattr(check, "keywords", {}).items())
        with subtests.test(name + options):
            run(clone(TRAINED[kind(given)]) if name in NEED_TRAINING else given, check)


def every(estimators):
    """One test for each estimator."""
    return pytest.mark.parametrize("estimator", estimators, ids=lambda estimator: type(estimator).__name__)


#: One operator; operators differ in their networks alone, and have their turn in the long run.
def test_scikit_learn_checks(subtests):
    run_scikit_learn_checks(WHOLE_ESTIMATORS[0], subtests)


#: A classical model whose fits take a tenth of the time of the default one, and repeat their choice as those do.
CLASSICAL = PODRegressor(regressor="ridge")


def test_scikit_learn_checks_where_the_choice_is_repeated(subtests, choice_repeated):
    for given, check in estimator_checks_generator(CLASSICAL):
        with subtests.test(str(check)):
            run(given, check)


@pytest.mark.exhaustive
@every(WRAPPERS + TIED_ESTIMATORS + OTHER_HOSTS + PEERS)
def test_scikit_learn_checks_of_wrappers_hosts_and_peers(estimator, subtests):
    run_scikit_learn_checks(estimator, subtests)


@pytest.mark.exhaustive
@every([LaMORegressor(), GeoMaNORegressor(), AMORegressor(), MNORegressor()])
def test_scikit_learn_checks_of_the_defaults(estimator, subtests):
    """The default networks, and their training in full once, for the check of the score."""
    # The base and what a fit does with it are those of all operators, so that one of them has it in every check: a
    # linear one, since the search of the default one is checked as a PODRegressor.
    quick = {"max_iter": 1, "base": "linear" if isinstance(estimator, LaMORegressor) else None}
    for given, check in estimator_checks_generator(estimator):
        name = getattr(check, "func", check).__name__
        changes = {}
        if name in {"check_sample_weights_shape", "check_sample_weights_not_overwritten"}:
            # Their four different inputs are too few for a base that is asked for.
            changes = {"max_iter": 1}
        elif name not in NEED_TRAINING:
            changes = quick
        elif name != "check_regressors_train" or getattr(check, "keywords", None):
            # The same score, with another data type or from a file, and fits that must agree.
            changes = {"max_iter": 20}
        with subtests.test(name):
            run(clone(given).set_params(**changes), check)


def run_laws(estimator, subtests, **options):
    """Run the laws of field data."""
    for check in yield_field_checks(estimator, **options):
        with subtests.test(str(check)):
            check(clone(estimator))


#: Each law once, in the dimension where most is at stake; other dimensions and estimators are for the long run.
def test_laws_of_field_data_in_the_plane(subtests):
    run_laws(FREE_ESTIMATORS[0], subtests, n_dims=[2], any_grid=True, point_sets=True)


def test_laws_of_field_data_on_the_line(subtests):
    run_laws(GRID_ESTIMATORS[0], subtests, n_dims=[1], any_grid=True)


def test_laws_of_field_data_on_one_grid(subtests, choice_repeated):
    run_laws(CLASSICAL, subtests, n_dims=[1])


@pytest.mark.exhaustive
def test_laws_of_field_data_on_one_grid_of_other_dimensions(subtests):
    run_laws(TIED_ESTIMATORS[0], subtests, n_dims=[2, 3])


@pytest.mark.exhaustive
@every(FREE_ESTIMATORS)
def test_laws_of_field_data(estimator, subtests):
    run_laws(estimator, subtests, n_dims=[1, 3], any_grid=True, point_sets=True)


@pytest.mark.exhaustive
@every(ALL_PEERS)
def test_laws_of_field_data_of_peers(estimator, subtests):
    run_laws(estimator, subtests, n_dims=[2], any_grid=True, point_sets=isinstance(estimator, TransolverRegressor))


#: Those laws that depend on the number of axes of a grid.
LAWS_OF_GRIDS = {"check_odd_grids", "check_other_grid", "check_containers", "check_scalar_targets"}


@pytest.mark.exhaustive
@every(ALL_PEERS)
@pytest.mark.parametrize("n_dims", [1, 3])
def test_laws_of_grids_of_peers_on_lines_and_in_space(estimator, n_dims):
    found = yield_field_checks(estimator, n_dims=[n_dims], any_grid=True)
    checks = {check.name: check for check in found if check.name in LAWS_OF_GRIDS}
    assert set(checks) == LAWS_OF_GRIDS
    for check in checks.values():
        check(clone(estimator))


@pytest.mark.exhaustive
def test_laws_of_field_data_on_any_grid(subtests):
    run_laws(GRID_ESTIMATORS[0], subtests, n_dims=[2, 3], any_grid=True)


@pytest.mark.exhaustive
@every(CHOOSING_ESTIMATORS)
def test_laws_of_field_data_for_a_choice(estimator, subtests):
    for check in yield_field_checks(estimator):
        with subtests.test(str(check)):
            if check.name == "check_one_sample":
                with pytest.raises(AssertionError, match=r"cross-validation needs at least 2 samples|too few to fit"):
                    check(estimator)
            elif check.name == "check_weight_repetition":
                # Repetition changes the folds.
                check(auto(deeponet(batch_size=100, dtype="float64")))
            else:
                check(estimator)


def test_every_public_estimator_is_checked():
    classes = [value for value in vars(skop.estimators).values() if inspect.isclass(value)]
    # The base of operators has no network of its own, that of FNO is in a library, and the mean, which learns nothing,
    # has a file of its own.
    missing = {skop.estimators.OperatorRegressor, skop.estimators.MeanFieldRegressor}
    missing |= {FNORegressor} if find_spec("neuralop") is None else set()
    public = {value for value in classes if issubclass(value, RegressorMixin)} - missing
    assert {kind(estimator) for estimator in SKLEARN_ESTIMATORS + OTHER_HOSTS + PEERS} == set(TRAINED)
    assert {type(estimator) for estimator in SKLEARN_ESTIMATORS + PEERS} == public
    laws = FREE_ESTIMATORS + GRID_ESTIMATORS + TIED_ESTIMATORS + CHOOSING_ESTIMATORS + ALL_PEERS
    assert {type(estimator) for estimator in laws} == public


def test_no_tag_switches_checks_off(subtests):
    for estimator in SKLEARN_ESTIMATORS + PEERS:
        with subtests.test(type(estimator).__name__):
            tags = get_tags(estimator)
            assert tags.input_tags.two_d_array
            assert not tags.non_deterministic
            assert not tags.no_validation
            assert not tags.regressor_tags.poor_score
            assert not tags.array_api_support
            assert not tags.input_tags.pairwise
            assert tags._skip_test is False
            assert tags.target_tags.required
            assert tags.target_tags.multi_output
            assert tags.target_tags.single_output
            assert issubclass(type(estimator), RegressorMixin)


def test_nothing_is_left_out_of_what_a_multilayer_perceptron_must_pass(subtests):
    every_name = set(check_names(MLPRegressor()))
    for estimator in SKLEARN_ESTIMATORS + PEERS:
        with subtests.test(type(estimator).__name__):
            names = check_names(estimator)
            assert len(names) >= (60 if "sample_weight" in inspect.signature(estimator.fit).parameters else 50)
            assert every_name - set(names) == OPTIONAL_CHECKS


def test_default_construction_and_defaults_in_the_constraints():
    for estimator in [*WHOLE_ESTIMATORS, *PEERS, AutoRegressor()]:
        default = type(estimator)()
        default._validate_params()
        parameters = inspect.signature(type(estimator)).parameters.values()
        assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters)
        assert set(default.get_params(deep=False)) == set(default._parameter_constraints)
        assert not [name for name in vars(default) if name.endswith("_")]


def test_defaults_fit_a_table_and_fields():
    generator = np.random.default_rng(0)
    table, fields = generator.normal(size=(8, 3)), generator.normal(size=(8, 5, 4, 1))
    for estimator in WHOLE_ESTIMATORS + PEERS:
        default = type(estimator)()
        default.set_params(**{name: 1 for name in ("max_iter",) if name in default.get_params()})
        assert default.fit(table, table[:, 0]).predict(table).shape == (8,)
        assert default.fit(fields, fields).predict(fields).shape == fields.shape


def test_what_can_be_saved_can_be_loaded(tmp_path):
    fields = np.random.default_rng(0).normal(size=(6, 5, 4, 1))
    every = FREE_ESTIMATORS + GRID_ESTIMATORS + TIED_ESTIMATORS + CHOOSING_ESTIMATORS + ALL_PEERS
    saved = [estimator for estimator in every if hasattr(estimator, "save")]
    assert saved
    for estimator in saved:
        fitted = clone(estimator).fit(fields, fields)
        fitted.save(tmp_path / "model.skop")
        loaded = skop.load(tmp_path / "model.skop")
        assert type(loaded) is type(estimator)
        np.testing.assert_array_equal(loaded.predict(fields), fitted.predict(fields))
