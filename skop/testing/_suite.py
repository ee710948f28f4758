"""Lists of the checks, and functions that run them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from skop._optional import import_optional
from skop.testing import _data_checks as data
from skop.testing import _estimator_checks as estimators
from skop.testing import _point_checks as points
from skop.testing._samples import takes_weights

__all__ = ["FieldCheck", "check_field_estimator", "parametrize_with_field_checks", "yield_field_checks"]

#: Checks whose result does not depend on the number of dimensions; they are run in one of them only.
_ONCE = (
    estimators.check_clone,
    estimators.check_unfitted,
    estimators.check_global_randomness,
    estimators.check_failed_predict,
    estimators.check_model_selection,
    estimators.check_score,
    data.check_kinds_of_numbers,
    data.check_memory_mapped,
    data.check_finite,
)
#: Checks that are run for each number of dimensions.
_EACH = (
    estimators.check_pickle,
    estimators.check_fit_repeatable,
    estimators.check_fit_forgets,
    estimators.check_fit_keeps_inputs,
    estimators.check_predict_keeps_state,
    estimators.check_channel_count,
    estimators.check_dimension_count,
    data.check_batch_mates,
    data.check_sample_order,
    data.check_containers,
    data.check_scalar_targets,
    data.check_parameters_to_field,
    data.check_constant_fields,
    data.check_one_sample,
    data.check_odd_grids,
)
#: Checks for estimators that accept samples with different points.
_POINT_SETS = (
    points.check_sizes_of_point_sets,
    points.check_mates_of_point_sets,
    points.check_order_of_points,
    points.check_point_set_containers,
    points.check_points_elsewhere,
)
_WEIGHTS = (estimators.check_weight_repetition, estimators.check_weight_zero)


@dataclass(frozen=True)
class FieldCheck:
    """Check for one number of dimensions; call it with an unfitted estimator.

    Attributes
    ----------
    name : str
        Name of the check.
    law : str
        Property that the check requires, in a sentence.
    n_dims : int
        Number of space dimensions of the data.
    function : callable
        Function ``function(estimator, n_dims)`` that raises an AssertionError if the check fails.
    """

    name: str
    law: str
    n_dims: int
    function: Callable[[Any, int], None]

    def __call__(self, estimator: Any) -> None:
        """Run the check; raise an AssertionError that names the estimator, the check, the law and the failure."""
        try:
            self.function(estimator, self.n_dims)
        except Exception as error:
            found = str(error) if isinstance(error, AssertionError) else f"it raised {type(error).__name__}: {error}"
            raise AssertionError(f"{type(estimator).__name__} fails {self}. Law: {self.law} Found: {found}.") from error

    def __str__(self) -> str:
        return f"{self.name}[{self.n_dims}-D]"


def yield_field_checks(
    estimator: Any, *, n_dims: Sequence[int] = (1, 2, 3), any_grid: bool = False, point_sets: bool = False
) -> Iterator[FieldCheck]:
    """Yield the checks that apply to an estimator.

    Parameters
    ----------
    estimator : estimator
        Unfitted estimator, configured so that a fit takes a fraction of a second. The checks change some of its
        parameters, if it or a part of it has them: ``random_state``, ``batch_size``, ``dtype``, ``warm_start``,
        ``early_stopping`` and ``learning_rate_init``.
    n_dims : sequence of int, default=(1, 2, 3)
        Numbers of space dimensions to check; checks that do not depend on them use the first.
    any_grid : bool, default=False
        Whether the estimator must be able to predict on other grids than that of the fit. Otherwise a ValueError is
        accepted.
    point_sets : bool, default=False
        Whether the estimator must accept samples with different points.

    Yields
    ------
    FieldCheck
        Check to be called with the estimator.

    Examples
    --------
    >>> from skop import LaMORegressor
    >>> from skop.testing._suite import yield_field_checks
    >>> print(next(yield_field_checks(LaMORegressor(), n_dims=[2])))
    check_clone[2-D]
    """
    once = [*_ONCE, data.check_tables_are_scalars] if 1 in n_dims else _ONCE
    for function in once:
        yield _check(function, 1 if function is data.check_tables_are_scalars else n_dims[0])
    if "warm_start" in estimator.get_params(deep=False):
        yield _check(estimators.check_warm_start, n_dims[0])
    for dimensions in n_dims:
        for function in (*_EACH, *(_WEIGHTS if takes_weights(estimator) else ())):
            yield _check(function, dimensions)
        yield _check(data.check_other_grid, dimensions, must_work=any_grid)
        for function in _POINT_SETS if point_sets else ():
            yield _check(function, dimensions)


def _check(function: Callable[..., None], n_dims: int, **options: Any) -> FieldCheck:
    """Build a FieldCheck from a check function and its docstring."""
    law = str(function.__doc__).partition("\n")[0]
    return FieldCheck(function.__name__, law, n_dims, partial(function, **options) if options else function)


def check_field_estimator(
    estimator: Any, *, n_dims: Sequence[int] = (1, 2, 3), any_grid: bool = False, point_sets: bool = False
) -> None:
    """Check that an estimator handles field data as the estimators of skop do.

    The checks require that it accepts the same data as `skop.LaMORegressor.fit`, that predictions have the form of y,
    that results depend on nothing but X, y, the sample weights and its parameters, and that it modifies nothing else.
    Run scikit-learn's ``check_estimator`` in addition: it checks other properties.

    Parameters
    ----------
    estimator : estimator
        Unfitted estimator, configured so that a fit takes a fraction of a second.
    n_dims : sequence of int, default=(1, 2, 3)
        Numbers of space dimensions to check.
    any_grid : bool, default=False
        Whether the estimator must be able to predict on other grids than that of the fit.
    point_sets : bool, default=False
        Whether the estimator must accept samples with different points.

    Raises
    ------
    AssertionError
        If a check fails; the message names the law.

    Examples
    --------
    >>> from skop import PODRegressor
    >>> from skop.testing import check_field_estimator
    >>> check_field_estimator(PODRegressor(regressor="ridge"), n_dims=[1])
    """
    for check in yield_field_checks(estimator, n_dims=n_dims, any_grid=any_grid, point_sets=point_sets):
        check(estimator)


def parametrize_with_field_checks(
    all_estimators: Sequence[Any],
    *,
    n_dims: Sequence[int] = (1, 2, 3),
    any_grid: bool = False,
    point_sets: bool = False,
) -> Any:
    """Return a pytest decorator that runs a test once for each estimator and check.

    Parameters
    ----------
    all_estimators : sequence of estimator
        Unfitted estimators.
    n_dims, any_grid, point_sets
        See `check_field_estimator`.

    Returns
    -------
    pytest.MarkDecorator
        Decorator for a test with the arguments ``estimator`` and ``check``.

    Examples
    --------
    >>> from skop import LaMORegressor
    >>> from skop.testing import parametrize_with_field_checks
    >>> @parametrize_with_field_checks([LaMORegressor(max_iter=1)])
    ... def test_laws(estimator, check):
    ...     check(estimator)
    """
    pytest = import_optional("pytest", purpose="parametrised checks")
    cases = [
        pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check}")
        for estimator in all_estimators
        for check in yield_field_checks(estimator, n_dims=n_dims, any_grid=any_grid, point_sets=point_sets)
    ]
    return pytest.mark.parametrize(("estimator", "check"), cases)
