"""Surrogate: a fitted operator without its estimator. Every prediction goes through it.

Notation: n samples, P points, q output channels, s scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray, IntArray
from skop.data import (
    Batch,
    DataSpec,
    FieldLoader,
    FieldSet,
    GridSymmetries,
    Predictions,
    Scalers,
    interpolate_fields,
    query_points,
)
from skop.exceptions import FieldDataError
from skop.networks import Outputs
from skop.surrogate._correction import CorrectionNetwork, IncrementNetwork
from skop.surrogate._domain import Domain
from skop.surrogate._predictions import each_part, joined
from skop.surrogate._stages import PREDICT_POINTS, Query, Refine, Resample, Sensors, Stage, Symmetrise
from skop.training import naming_memory
from skop.training._runtime import thread_limit

__all__ = ["PREDICT_VALUES", "Surrogate", "evaluation"]

#: Number of values of points that pass through the network at once.
PREDICT_VALUES = 2**19


@dataclass(frozen=True, eq=False, kw_only=True)
class Surrogate:
    """A fitted operator without its estimator: scalers, network, base and stages.

    An operator has it as `surrogate_`. It takes samples that are read already, as a `skop.FieldSet`, and gives
    predictions as arrays. Analyses and exports walk its parts.

    Parameters
    ----------
    spec : DataSpec
        Form, sizes and channel names of X and y.
    geometry : {"grid", "structured", "points"}
        Arrangement of the points, as the network reads them.
    scalers : Scalers
        Scalers of inputs and targets.
    network : torch.nn.Module
        Network on scaled samples.
    base : BaseModel or None
        Classical model with which the network is combined.
    domain : Domain
        Points of the fit.
    spacing : tuple of float or None
        Spacing of the grid of the fit, if it was on one that is straight.
    refinement : {"average", "interpolate", "native"}
        Method for predicting on finer grids.
    symmetries : SymmetryOptions or None
        Declared symmetries.
    periodic : tuple of int
        Axes of a straight grid along which the samples are one period.
    centre : ndarray of shape (d,) or None
        Centre about which symmetries move points; None where they do not.
    columns : sequence of str or None
        Names of the global parameters.
    sensors : Sensors or None
        Points at which the network reads fields, if it does so at certain points only.
    sorts_points : bool
        Whether the points of a sample are brought into one order before the network sees them.
    sees_grid : bool
        Whether a network of points is told of the grid that they form.
    is_deterministic : bool
        Whether samples pass through the network one at a time.
    width : int
        Size of the features, by which the number of threads is chosen.
    device : torch.device
        Where the network computes.
    dtype : torch.dtype
        Precision of the network.
    """

    spec: DataSpec
    geometry: str
    scalers: Scalers
    network: torch.nn.Module
    base: Any
    domain: Domain
    spacing: tuple[float, ...] | None
    refinement: str
    symmetries: Any
    periodic: tuple[int, ...]
    centre: FloatArray | None
    columns: Sequence[str] | None
    sensors: Sensors | None
    sorts_points: bool
    sees_grid: bool
    is_deterministic: bool
    width: int
    device: torch.device
    dtype: torch.dtype

    # ------------------------------------------------------------------ stages
    @property
    def stages(self) -> tuple[Stage, ...]:
        """Stages from the samples of a caller to those that the network sees, in this order."""
        outer: list[Stage] = [self.refine]
        if self.spec.resampler is not None:
            on_points = self.base if self.has_base_on_points else None
            outer.insert(0, Resample(self.spec.resampler, self.scalers, on_points, self.is_base_alone, self.frame))
        return (*outer, *self._inner_stages)

    @property
    def _inner_stages(self) -> tuple[Stage, ...]:
        """Stages that samples on the grid of the fit, or on any points, pass."""
        inner: list[Stage] = [] if self.sensors is None else [self.sensors]
        return tuple(inner) if self.symmetrise is None else (*inner, self.symmetrise)

    @property
    def refine(self) -> Refine:
        """Stage of grids that are finer than that of the fit; a network with sensors predicts on any grid."""
        geometry = self.geometry if self.sensors is None else "points"
        grid_shape = self.spec.network_spec.grid_shape
        held = (self.spacing, grid_shape, self.domain, self.scalers, self.base, self.is_base_alone)
        periodic = self.periodic if geometry == "grid" else ()
        return Refine(self.refinement, geometry, *held, periodic, self.spec.input_form == "grid", self.frame)

    @property
    def symmetrise(self) -> Symmetrise | None:
        """Stage of the declared symmetries, if there are any."""
        if self.symmetries is None:
            return None
        held = (self.spec, self.domain, self.scalers, self.centre, self.columns, self.base)
        return Symmetrise(self.symmetries, *held, self.is_base_alone)

    @property
    def is_base_alone(self) -> bool:
        """Whether the network has no share in the predictions."""
        return isinstance(self.network, CorrectionNetwork) and self.network.is_base_alone

    @property
    def frame(self) -> tuple[slice, Any] | None:
        """Last frame among the input fields, and which of its changes the network learns; None if it learns none."""
        network = self.network.network if isinstance(self.network, CorrectionNetwork) else self.network
        if not isinstance(network, IncrementNetwork) or not self.spec.n_outputs:
            return None
        return network.frame, (network.factor != 0).cpu().numpy()

    @property
    def has_base_on_points(self) -> bool:
        """Whether the network is on a grid, and its base on the points from which this is resampled."""
        return self.base is not None and self.spec.resampler is not None and self.base.grid_shape is None

    # ------------------------------------------------------------------ prediction
    def predict(self, inputs: FieldSet) -> Predictions:
        """Predict in physical units on the points of the samples.

        Parameters
        ----------
        inputs : FieldSet
            Samples.

        Returns
        -------
        Predictions
            Fields and scalars.
        """
        return self._through(self.stages, Query(inputs))

    def predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Predict at other points than those of the samples.

        Parameters
        ----------
        inputs : FieldSet
            Samples.
        coords : FieldSet, ndarray or list of ndarray
            Points, as `skop.data.query_points` takes them.

        Returns
        -------
        found : Predictions
            Fields there, and scalars.
        places : FieldSet
            The points.
        """
        if self.spec.n_outputs and self.spec.resampler is not None:
            places = query_points(coords, inputs)
            return self._through(self.stages, Query(inputs, places)), places
        given = inputs
        if self.sensors is not None and self.spec.resampler is None:
            inputs = self.sensors.at(inputs)
        if self.spec.target_points != "inputs":
            self._check_other_points(inputs)
        elif not self._asks_network_at(inputs):
            return self._interpolated_at(inputs, coords)
        self.domain.check(inputs)
        places = query_points(coords, inputs if self.frame is None else given, self.domain.reach)
        return self._through(self._inner_stages, Query(inputs, places)), places

    def _through(self, stages: Sequence[Stage], query: Query) -> Predictions:
        """Pass a query through stages, and then through the network."""
        if not stages:
            return self.predict_batches(self.loader(query.inputs, **query.options))
        return stages[0].predict(query, lambda next_query: self._through(stages[1:], next_query))

    def _check_other_points(self, inputs: FieldSet) -> None:
        """Raise FieldDataError where a fit with y on other points than X cannot predict for these samples."""
        self.refine.require_grid(inputs)
        if max(self.refine.factors(inputs)) > 1:
            raise FieldDataError(
                f"X is on a finer grid than in the fit, where refinement={self.refinement!r} needs outputs at the "
                "points of X, but y of the fit was on other points; set refinement='native', or bring X to the "
                "spacing of the fit."
            )
        if self.symmetrise is not None and self.symmetrise.averages_on_grid:
            raise FieldDataError(
                "predictions cannot be averaged over symmetries that map the points of X onto each other, since y "
                "of the fit was on other points; set SymmetryOptions(average_predictions=False)."
            )

    def _asks_network_at(self, inputs: FieldSet) -> bool:
        """Whether outputs at other points come from the network; they are interpolated otherwise."""
        if not self.spec.n_outputs or self.scalers.per_point:
            return False
        if self.sensors is not None:
            return True
        if self.symmetrise is not None and self.symmetrise.averages_on_grid:
            return False
        is_able: bool = self.geometry == "points" or getattr(self.network, "supports_queries", False)
        has_grid = self.geometry == "points" or inputs.grid_shape is not None
        return is_able and has_grid and (self.geometry == "points" or self.refine.is_direct(inputs))

    def _interpolated_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Predict at the points of the inputs and interpolate; logarithms where the network learns these."""
        if not self.spec.n_outputs:
            raise FieldDataError("coords was given, but the estimator predicts scalars, not fields; leave it out.")
        inputs, _ = self.refine.over_periods(inputs)
        places = query_points(coords, inputs)
        found, is_log = self.predict(inputs), self.scalers.learns_logarithms
        smooth = each_part(np.log, found) if is_log else found
        fields = interpolate_fields(inputs.with_values(smooth.fields), places)
        return replace(found, fields=np.exp(fields) if is_log else fields), places

    # ------------------------------------------------------------------ network
    def loader(self, inputs: FieldSet, **options: Any) -> FieldLoader:
        """Return a loader of scaled batches on the device of the network.

        Parameters
        ----------
        inputs : FieldSet
            Samples as the network sees them.
        **options
            Further arguments of `skop.data.FieldLoader`; without ``base`` the predictions of the base are computed.

        Returns
        -------
        FieldLoader
            Loader.
        """
        maps_grid = isinstance(options.get("symmetries"), GridSymmetries)
        if not self.sees_grid and self.geometry == "points" and inputs.grid_shape is not None and not maps_grid:
            inputs = inputs.with_grid(None)
        options |= {"device": self.device, "dtype": self.dtype}
        if "base" not in options:
            options |= self._base_at(inputs, options.get("queries"))
        return FieldLoader(inputs, self.scalers, sort_points=self.sorts_points, **options)

    def _base_at(self, inputs: FieldSet, queries: FieldSet | None) -> dict[str, Any]:
        """Options of a loader for the predictions of the base, if there is one."""
        if self.base is None or not isinstance(self.network, CorrectionNetwork):
            return {}
        # A network that learns the whole map can do without the base.
        needs_base = self.network.learns_rest or self.network.is_base_alone
        predict = self.base.predict if needs_base else self.base.predict_known
        options: dict[str, Any] = {"base": lambda indices: predict(inputs[indices])}
        if queries is not None:
            options["query_base"] = lambda indices: predict(inputs[indices], queries[indices])
        return options

    def loaders(self, inputs: FieldSet) -> list[FieldLoader]:
        """Return the loaders over whose predictions a mean is taken: one for each symmetry, if this is declared."""
        query = Query(inputs)
        if self.sensors is not None:
            query = self.sensors.query(query)
        queries = [query] if self.symmetrise is None else self.symmetrise.queries(query)
        return [self.loader(each.inputs, **each.options) for each in queries]

    def predict_batches(self, loader: FieldLoader) -> Predictions:
        """Predict in physical units, a bounded number of points at a time."""
        parts: list[Predictions] = []
        self.pass_predictions(loader, lambda _, found: parts.append(found))
        places = loader.inputs if loader.queries is None else loader.queries
        return joined(parts, ragged=places.is_ragged)

    def pass_predictions(self, loader: FieldLoader, use: Callable[[IntArray, Predictions], None]) -> None:
        """Pass the indices of successive samples, and their predictions in physical units, to a function."""
        if self.is_base_alone:
            use(np.arange(len(loader)), self._predict_base_alone(loader))
            return
        # The rounding of a matrix product depends on its number of rows. With one sample at a time it is always the
        # same.
        alone = self.is_deterministic or loader.queries is not None
        sizes = loader.inputs.n_points
        most = min(PREDICT_POINTS, PREDICT_VALUES // max(self.spec.n_fields, self.spec.n_outputs, 1))
        n_points = int(sizes.max() if alone else min(sizes.sum(), most))
        named = naming_memory(
            f"a prediction of {n_points} points at once",
            "Predict samples with fewer points, or fit with a smaller width or depth",
        )
        limit = thread_limit(int(n_points), self.width)
        with named, evaluation(self), torch.inference_mode(), limit:
            for indices, batch in loader.bounded_batches(0 if alone else most):
                outputs = self.restored(self.widened(self.network(**batch.inputs())), loader, batch)
                found = Predictions(*[None if part is None else part.cpu().numpy() for part in outputs])
                use(indices, self._with_base_alone(found, loader, indices))

    def _with_base_alone(self, found: Predictions, loader: FieldLoader, rows: IntArray) -> Predictions:
        """Predictions of some samples, with those of the base for outputs in which the network has no share."""
        if not isinstance(self.network, CorrectionNetwork):
            return found
        shares = self.network.field_share.cpu().numpy(), self.network.scalar_share.cpu().numpy()
        if min(share.min(initial=1.0) for share in shares) > 0:
            return found
        # In standardised values, single precision would lose the digits of samples far below the standard deviation.
        base = self._predict_base_alone(loader, rows)
        return Predictions(
            *(
                part if part is None or own is None else np.where((share == 0) & ~np.isnan(own), own, part)
                for part, own, share in zip(
                    (found.fields, found.scalars), (base.fields, base.scalars), shares, strict=True
                )
            )
        )

    def _predict_base_alone(self, loader: FieldLoader, rows: Any = slice(None)) -> Predictions:
        """Predictions of a base whose network has no share, without the network's precision, batches and order."""
        found = self.base.predict(loader.inputs[rows], None if loader.queries is None else loader.queries[rows])
        parts = zip((found.fields, found.scalars), (self.scalers.target, self.scalers.scalars), strict=True)
        return Predictions(
            *(
                part if part is None or scaler is None else scaler.inverse_transform(torch.from_numpy(part)).numpy()
                for part, scaler in parts
            )
        )

    def widened(self, outputs: Outputs) -> Outputs:
        """Outputs in double precision where single precision would lose their variation, or overflow."""
        parts = zip(outputs, (self.scalers.target, self.scalers.scalars), strict=True)
        return Outputs(
            *[
                part if part is None or scaler is None or not scaler.needs_double else part.cpu().double()
                for part, scaler in parts
            ]
        )

    def restored(self, outputs: Outputs, loader: FieldLoader, batch: Batch) -> Outputs:
        """Outputs of a batch in physical units and in the caller's order of points, as tensors."""
        scalars = None
        if outputs.scalars is not None and self.scalers.scalars is not None:
            scalars = self.scalers.scalars.restore(outputs.scalars)
        field = None
        if outputs.field is not None and self.scalers.target is not None:
            field = self.scalers.target.restore(outputs.field)
        field, scalars = loader.undo(field, scalars)
        if field is None:
            return Outputs(None, scalars)
        if batch.order is not None and loader.queries is None:
            places = torch.as_tensor(np.argsort(batch.order), device=field.device)
            field = field.reshape(-1, field.shape[-1])[places].reshape(field.shape)
        return Outputs(field, scalars)


@contextmanager
def evaluation(surrogate: Surrogate) -> Iterator[None]:
    """Context in which the network is in evaluation mode; modules that were in training mode are so again afterwards.

    A network that was brought to another precision than that of its inputs is a ValueError.
    """
    network, dtype = surrogate.network, surrogate.dtype
    for name, weight in network.named_parameters():
        if weight.is_floating_point() and weight.dtype != dtype:
            raise ValueError(
                f"{name} of module_ is {weight.dtype}, but the fit was in {dtype}; set it back by module_."
                f"{'double' if dtype == torch.float64 else 'float'}(), or fit anew with another dtype."
            )
    training = [module for module in network.modules() if module.training]
    if training:
        network.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
