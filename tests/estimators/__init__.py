"""Tests of skop.estimators."""

from functools import partial

from skop import PODRegressor

#: The classical model whose choice takes least.
pod = partial(PODRegressor, regressor="ridge")
