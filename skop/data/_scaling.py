"""All scalers of one fit, and where their statistics come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skop._typing import FloatArray
from skop.data._checks import iterate_rows
from skop.data._fieldset import FieldSet
from skop.data._scalers import BoxScaler, FieldScaler
from skop.exceptions import FieldDataError

__all__ = ["ScalerModes", "Scalers"]


@dataclass(frozen=True)
class ScalerModes:
    """How each part of the data is scaled.

    Attributes
    ----------
    coords : {"box", "standard", None}
        See `BoxScaler`.
    fields, target : {"channel", "point", None}
        See `FieldScaler`.
    params : {"channel", None}
        Global parameters, each to zero mean and unit spread or not at all.
    """

    coords: str | None = "box"
    fields: str | None = "channel"
    params: str | None = "channel"
    target: str | None = "channel"


@dataclass
class Scalers:
    """The scalers of one fit.

    Attributes
    ----------
    coords : BoxScaler
        Of the coordinates.
    fields, params : FieldScaler or None
        Of input fields and global parameters, where there are any.
    target : FieldScaler
        Of the outputs.
    scalars : FieldScaler or None
        Of output scalars beside a field.
    """

    coords: BoxScaler
    fields: FieldScaler | None
    params: FieldScaler | None
    target: FieldScaler
    scalars: FieldScaler | None = None

    @property
    def per_point(self) -> bool:
        """Whether fields are scaled by statistics of single points, which ties them to their order."""
        return any(scaler is not None and scaler.mean_.ndim == 2 for scaler in (self.fields, self.target))

    @classmethod
    def fit(cls, inputs: FieldSet, targets: FieldSet, weight: FloatArray, modes: ScalerModes) -> Scalers:
        """Take all statistics on training samples.

        Parameters
        ----------
        inputs, targets : FieldSet
            Training part.
        weight : ndarray of shape (n,)
            Sample weights.
        modes : ScalerModes
            How each part is scaled.

        Returns
        -------
        Scalers
            Fitted.
        """
        return cls(
            coords=BoxScaler(modes.coords).fit(inputs.coords),
            fields=_fit_fields(inputs, weight, modes.fields) if inputs.n_channels else None,
            params=_fit_numbers(inputs.params, weight, modes.params),
            target=_fit_fields(targets, weight, modes.target),
            scalars=_fit_numbers(targets.params, weight, "channel"),
        )


def _fit_numbers(numbers: FloatArray | None, weight: FloatArray, mode: str | None) -> FieldScaler | None:
    """Fit a scaler of global numbers ``(n, p)``, where there are any."""
    return None if numbers is None else FieldScaler(mode).fit(lambda: iter([(numbers[:, None], weight)]))


def _fit_fields(fields: FieldSet, weight: FloatArray, mode: str | None) -> FieldScaler:
    """Fit a field scaler in pieces of bounded size."""
    if mode == "point" and fields.is_ragged:
        raise FieldDataError(
            "the scaler 'point' needs the same points in every sample, but their numbers differ; use 'channel'."
        )

    def chunks() -> Iterator[tuple[FloatArray, FloatArray]]:
        """Values and weights of the samples, a part at a time."""
        if fields.is_ragged:
            yield from ((values[None], weight[i : i + 1]) for i, values in enumerate(_each(fields)))
            return
        for start, values in iterate_rows(fields):
            yield values, weight[start : start + len(values)]

    return FieldScaler(mode).fit(chunks)


def _each(fields: FieldSet) -> Iterator[FloatArray]:
    """Values of one sample after the other."""
    return (values for sample in fields if (values := sample.values) is not None)
