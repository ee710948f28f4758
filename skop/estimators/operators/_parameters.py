"""Parameters that all operators share, and what becomes of them: presets, warnings, keywords of networks."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from skop._parameters import Choice, HasParts, Whole, are_equal, param
from skop._sklearn_compat import HasMethods, Interval, SequenceOf
from skop.data import DataSpec, ScalingOptions
from skop.estimators._options import SymmetryOptions
from skop.exceptions import SkopWarning, warn
from skop.training import TrainingOptions

__all__ = ["PUBLISHED", "OperatorParameters"]

#: What published models have in common: they are networks alone, with zeros outside the grid.
PUBLISHED: dict[str, Any] = {"base": None, "symmetries": SymmetryOptions(periodic=False)}

#: Parameters of the training and of predictions, which change neither the network nor the scaling of the data.
_FREE_PARAMETERS = frozenset(
    (
        *("max_iter", "max_time", "batch_size", "learning_rate_init", "weight_decay", "early_stopping", "loss"),
        *("symmetries", "refinement", "input_fields", "target_fields", "cell_data", "warm_start", "random_state"),
        *("device", "verbose", "training"),
    )
)


class OperatorParameters(HasParts):
    """Parameters of the training, the data and the machine, which all operators share."""

    max_iter: int = param(
        Whole(1),
        default=100,
        text="Largest number of epochs (papers: 500).",
    )
    max_time: float | None = param(
        Interval(Real, 0, None, closed="neither"),
        None,
        default=None,
        text=(
            "Time limit of the fit in seconds. The learning rate schedule then follows the time and is complete when "
            "the time is up. The limit includes the fit of a `base` and the passes after the training; each of these "
            "leaves the training at least half of the time. Results depend on the speed of the machine."
        ),
    )
    batch_size: int | str = param(
        Choice("auto"),
        Whole(1),
        default="auto",
        text=(
            'Number of samples in a mini-batch (papers: 1 to 8). ``"auto"``: an eighth of the samples or fewer; on '
            "grids up to 16 samples of about 8192 points together, but at least 8 if these have at most 131072 "
            "points; up to 8 samples of about 4096 points together if the points form no grid; up to 200 samples for "
            "tables of plain features."
        ),
    )
    learning_rate_init: float = param(
        Interval(Real, 0, None, closed="neither"),
        default=4e-3,
        text="Peak learning rate of the optimiser (papers: 3e-4 to 1e-3).",
    )
    weight_decay: float = param(
        Interval(Real, 0, None, closed="left"),
        default=0.1,
        text=("Weight decay (decoupled L2 penalty) of the optimiser (papers: 1e-5; 0.05 for LaMO on Navier-Stokes)."),
    )
    early_stopping: bool = param(
        "boolean",
        default=False,
        text=(
            "Whether to hold out a fraction of the samples for validation, to stop when the validation error no "
            "longer falls, and to keep the weights with the lowest error."
        ),
    )
    loss: Any = param(
        Choice("auto", "relative_l2", "relative_l2_gradient", "sobolev", "mse"),
        callable,
        default="auto",
        text=(
            'Training loss, see `skop.losses`. ``"auto"`` is ``"sobolev"``, the relative L2 error of values and '
            'slopes, for fields, ``"relative_l2"`` for the steps of a `skop.RolloutRegressor`, and ``"mse"`` for '
            "scalars. Relative losses are computed in physical units, where the channel with the largest values "
            'dominates; with ``"auto"`` and scaled targets, several channels are first divided by their sizes. The '
            "squared error is computed on scaled targets."
        ),
    )
    base: Any = param(
        Choice("auto", "linear", "pod"),
        HasMethods(["fit", "predict"]),
        None,
        default="auto",
        text=(
            'Classical model with which the network is combined. ``"pod"`` is `PODRegressor`, ``"linear"`` its linear '
            'map; ``"auto"`` takes `PODRegressor` if it is clearly better than the mean on unseen samples, else the '
            "mean; an estimator of skop is taken unchanged. If the error of the base on unseen samples is below "
            "2 % of the variation, the network learns the residual, with the base's predictions as further inputs. "
            "Otherwise it learns the whole map. Some samples are held out to choose the share of each: half the square "
            "root of their number, 5 to 64; of scalars alone twice the root, and at most a quarter. If they show that "
            "the network is of no use, the training ends early; if the network is far better, it goes on without the "
            "base and with these samples. There is no base with fewer than 10 samples, different numbers of points, "
            "averaged predictions on points that the symmetries do not map onto each other, and in "
            "`DeepONetRegressor`. Within a `RolloutRegressor` of several steps the network learns the whole step. "
            "There is no base there in trainings with noise or through several steps, nor where changes are never "
            "learned: with ``increments=False``, logarithms of the targets or scaling for each point."
        ),
    )
    geometry: str = param(
        Choice("auto", "grid", "structured", "points"),
        default="auto",
        text=(
            'Arrangement of the points. ``"grid"``: a rectilinear grid that all samples share. ``"structured"``: a '
            'curvilinear grid, or a grid that differs between samples. ``"points"``: points in any order. ``"auto"``: '
            "the first of these that fits the data."
        ),
    )
    grid: Any = param(
        "array-like",
        Choice("auto"),
        None,
        default=None,
        kind='tuple of int, "auto" or None',
        text=(
            "Regular grid to which samples without a grid are interpolated: the number of points along each axis of "
            'the bounding box of all training points, or ``"auto"`` for about as many cells as the mean sample has '
            "points. Inputs are interpolated to the grid and predictions back to the points, linearly; training and "
            "validation errors are computed on the grid. A `base` given by name, or a `PODRegressor`, stays on the "
            "points if all samples share them, except with logarithms of the targets or scaling of single points. If "
            "the points differ between samples, there is one more input channel, see `skop.data.GridResampler`. None "
            "does not resample; data on a grid are never resampled."
        ),
    )
    symmetries: Any = param(
        SequenceOf(str),
        SymmetryOptions,
        None,
        default=None,
        part=SymmetryOptions,
        text=(
            "Symmetries of the problem, used for data augmentation: training samples are transformed at random. See "
            "`skop.SymmetryOptions` for their names, for vectors and tensors, and for averaged predictions."
        ),
    )
    refinement: str = param(
        Choice("average", "interpolate", "native"),
        default="average",
        text=(
            "Method for predicting on a grid that is a whole number of times finer than the training grid "
            '(super-resolution). ``"average"``: the input is sampled at the training spacing in several shifted ways, '
            "and the interpolated predictions are averaged, for samples that one sampling does not hold. "
            '``"interpolate"``: one such sampling only. On other grids '
            "in the same box, both go through the training grid by cubic splines. "
            '``"native"``: the network is applied to each grid itself.'
        ),
    )
    input_fields: Any = param(
        SequenceOf(str),
        None,
        default=None,
        kind="list of str or None",
        text="Names of the mesh fields that are inputs.",
    )
    target_fields: Any = param(
        SequenceOf(str),
        None,
        default=None,
        kind="list of str or None",
        text="Names of the mesh fields that are targets, also if y is scalars, which are learnt too.",
    )
    cell_data: str = param(
        Choice("refuse", "to_points", "cells"),
        default="refuse",
        text=(
            "Treatment of mesh fields that are stored on cells: an error, averaging to the points, or reading and "
            "predicting all fields at the centres of the cells, see `skop.data.read_meshes`."
        ),
    )
    warm_start: bool = param(
        "boolean",
        default=False,
        text=(
            "Whether a fit continues the training of the last one: with its weights, the moments of the optimiser and "
            "the average of the weights, and with the learning rate of a single training of the epochs so far and "
            "`max_iter` more (or the seconds so far and `max_time` more) at its present place. The data must be of "
            "the same kind, and parameters of the network and the scaling must be those of the last fit; those of the "
            "training may change. Model files hold the weights only, so that moments and average start anew after "
            "`skop.load`."
        ),
    )
    random_state: Any = param(
        "random_state",
        default=None,
        text=(
            "Seed for the initial weights, the order of the samples and data augmentation. With an int, two fits on "
            "one CPU give identical results."
        ),
    )
    device: str = param(
        str,
        default="auto",
        text='PyTorch device; ``"auto"`` is CUDA if available, else the CPU.',
    )
    dtype: str = param(
        Choice("auto", "float32", "float64"),
        default="auto",
        text=(
            'Precision of the network. ``"auto"``: float64 for tables of plain features, as in scikit-learn; float32 '
            "for fields."
        ),
    )
    verbose: bool | int | str = param(
        Choice("auto"),
        "verbose",
        default="auto",
        kind='"auto", bool or int',
        text=(
            'Amount of output on standard error. ``"auto"``: one line on a terminal or in a notebook if the fit is '
            "expected to take more than a minute. False or 0: none. True or 1: a progress bar on a terminal, and a "
            "line every few seconds elsewhere. 2: a line for each epoch."
        ),
    )
    training: TrainingOptions | None = param(
        TrainingOptions,
        None,
        default=None,
        part=TrainingOptions,
        text=(
            "Further training parameters, such as the learning rate schedule and gradient clipping; None "
            "takes the defaults of `skop.TrainingOptions`. In searches their names are, for example, "
            "``training__ema_decay``."
        ),
    )
    scaling: ScalingOptions | None = param(
        ScalingOptions,
        None,
        default=None,
        part=ScalingOptions,
        text="Scaling of the data; None takes the defaults of `skop.ScalingOptions`.",
    )
    #: Published configurations by name: for each, the parameters that differ from the defaults.
    _presets: ClassVar[dict[str, dict[str, Any]]] = {}
    #: Geometries on which a parameter, such as ``"latents"`` or ``"host__kernel_size"``, has an effect. A parameter
    #: that is not listed has an effect on all of them.
    _effective_on: ClassVar[dict[str, tuple[str, ...]]] = {"refinement": ("grid",)}

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return an estimator with a published configuration.

        Parameters
        ----------
        name : str
            Name of a benchmark of the paper, such as ``"darcy"``.
        **changes
            Parameters that differ from the preset; those of parts as ``training__ema_decay``. Other `symmetries` have
            a `periodic` of their own.

        Returns
        -------
        estimator
            Estimator that is not fitted.

        Raises
        ------
        ValueError
            If there is no such preset; the message lists the names of all presets.

        Examples
        --------
        >>> from skop import LaMORegressor
        >>> LaMORegressor.from_preset("darcy", max_iter=10).width
        64
        """
        if name not in cls._presets:
            raise ValueError(f"{cls.__name__} has no preset {name!r}; choose from {sorted(cls._presets)}.")
        return cls._with_own_parts(PUBLISHED | cls._presets[name]).set_params(**changes)

    @property
    def _symmetries(self) -> SymmetryOptions | None:
        """Return the declared symmetries, or None if there are none."""
        if self.symmetries is None:
            return None
        declared: SymmetryOptions = self._options("symmetries")
        # Estimators around this one ask before its fit checks its parts, and predictions after the user changed them.
        declared._validate_params()
        return declared if declared.are_declared else None

    def _check_options(self, spec: DataSpec, geometry: str) -> None:
        """Warn about parameters without effect on data of this `DataSpec.network_spec` and geometry, or refuse them."""
        ratio, width = (getattr(self, name, 1) for name in ("mlp_ratio", "width"))
        if int(ratio * width) == 0:
            raise ValueError(
                f"mlp_ratio={ratio} with width={width} gives feed-forward networks without hidden units; set mlp_ratio "
                f"to 1 / {width} or more."
            )
        idle = self._changed([name for name, geometries in self._effective_on.items() if geometry not in geometries])
        if idle:
            words = ", ".join(f"{name}={value!r}" for name, value in idle.items())
            warn(
                f"{words} has no effect on points read as geometry {geometry!r}; "
                f"{'it acts' if len(idle) == 1 else 'they act'} on "
                f"{' or '.join(sorted({kind for name in idle for kind in self._effective_on[name]}))}.",
                SkopWarning,
            )
        for name in self._usual_parts():
            if geometry in self._effective_on.get(name, (geometry,)):
                for inner, unmet in self._options(name).idle():
                    self._warn_of_idle(f"{name}__{inner}", {f"{name}__{other}": able for other, able in unmet.items()})

    def _warn_of_idle(self, name: str, unmet: dict[str, Sequence[Any]]) -> None:
        """Warn that a parameter has no effect with the values of others, and name the values with which it has."""
        values = self.get_params()
        chosen = " and ".join(f"{other}={values[other]!r}" for other in unmet)
        needed = " and ".join(f"{other}={' or '.join(map(_in_code, able))}" for other, able in unmet.items())
        warn(f"{name}={values[name]!r} has no effect with {chosen}; it acts with {needed}.", SkopWarning)

    def _network_parameters(self) -> dict[str, Any]:
        """Parameters that describe the network and the scaling, those of parts by their full names."""
        found = self._flat_parameters().items()
        return {name: value for name, value in found if name.partition("__")[0] not in _FREE_PARAMETERS}

    def _changed_since_fit(self) -> dict[str, tuple[Any, Any]]:
        """Parameters of the network that are others than in the fit, by name, as they were and as they are."""
        now, then = self._network_parameters(), vars(self)["network_parameters_"]
        return {
            name: (value, now.get(name))
            for name, value in then.items()
            if self._is_effective(name) and not are_equal(value, now.get(name))
        }

    def _is_effective(self, name: str) -> bool:
        """Whether a parameter, or the part that it belongs to, has an effect on the geometry of the last fit."""
        names, geometry = (name, name.partition("__")[0]), vars(self)["geometry_"]
        return all(geometry in self._effective_on.get(each, (geometry,)) for each in names)

    def _check_continuation(self) -> None:
        """Raise if the network of the last fit is not the one that the parameters describe now."""
        changed = self._changed_since_fit()
        if changed:
            words = ", ".join(f"{name} from {old!r} to {new!r}" for name, (old, new) in changed.items())
            raise ValueError(
                f"warm_start=True goes on with the network of the last fit, but its parameters have changed: {words}. "
                "Set warm_start=False to fit anew, or set them back; parameters of the training may change."
            )

    @classmethod
    def _upgrade(cls, held: dict[str, Any]) -> None:
        """Parts that a file leaves to their defaults have the parameters of the fit, also where defaults changed."""
        fitted, geometry = held.get("network_parameters_"), held.get("geometry_")
        if not isinstance(fitted, dict):
            return
        for name, usual in cls._usual_parts().items():
            then = {inner: fitted[f"{name}__{inner}"] for inner in usual.get_params() if f"{name}__{inner}" in fitted}
            is_used = geometry in cls._effective_on.get(name, (geometry,))
            if is_used and held.get(name) is None and fitted.get(name) == type(usual).__name__:
                part = clone(usual).set_params(**then)
                part._validate_params()
                if not are_equal(part, usual):
                    held[name] = part

    def _check_mesh_parameters(self, spec: DataSpec) -> None:
        """Warn about parameters for meshes if X holds no meshes."""
        changed = self._changed(("input_fields", "target_fields", "cell_data"))
        # An estimator that wraps this one has already read the meshes and passes a FieldSet.
        if changed and spec.kept_axes is None and not spec.is_fieldset:
            words = ", ".join(f"{name}={value!r}" for name, value in changed.items())
            warn(f"{words} has no effect, since X holds no meshes; it names fields of meshes.", SkopWarning)

    def _keywords(self, spec: DataSpec, *names: str) -> dict[str, Any]:
        """Keywords of a network: the sizes of the data, and parameters, with numbers of NumPy as those of Python."""
        found = {name: getattr(spec, name) for name in ("n_dims", "n_fields", "n_params", "n_outputs", "n_scalars")}
        for name in names:
            value = self._options(name) if name in self._usual_parts() else getattr(self, name)
            found[name] = value.item() if isinstance(value, np.generic) else value
        return found


def _in_code(value: Any) -> str:
    """A value, or any part of a class, as code has it."""
    return f"{value.__name__}(...)" if isinstance(value, type) else repr(value)
