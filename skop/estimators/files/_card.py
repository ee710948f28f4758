"""The model card: what a fitted model is, what it was fitted on, and how well it predicts, as JSON values.

`save` writes it into the header of a model file, where it can be read without loading the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import sklearn
from sklearn.frozen import FrozenEstimator

from skop._sklearn_compat import last_step

__all__ = ["card_of"]


def card_of(estimator: Any) -> dict[str, Any]:
    """Return the model card of a fitted estimator, with those of the models that it holds.

    Parameters
    ----------
    estimator : estimator
        Fitted estimator of skop, or of scikit-learn, of which only the parameters are known.

    Returns
    -------
    dict
        JSON values by subject: ``estimator`` with the parameters that are not the defaults, ``data``, ``fit``, and what
        the kind of model knows of its ``network``, ``errors`` and ``bands``; ``holds`` lists the cards of other models.
    """
    with sklearn.config_context(print_changed_only=True):
        words = " ".join(repr(estimator).split())
    # Addresses differ from run to run.
    card: dict[str, Any] = {"estimator": re.sub(r" at 0x[0-9A-Fa-f]+", "", words)}
    model = last_step(estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator)
    if not hasattr(model, "_facts"):
        return card
    record = dict(model.fit_record_ or {})
    if fit := {name: record[name] for name in ("date", "seconds", "split") if name in record}:
        card["fit"] = fit
    card["data"] = _data_of(model, record)
    facts = model._facts()
    errors = {name: error for name, error in facts.pop("errors", {}).items() if error is not None}
    held = [card_of(part) for part in facts.pop("holds", [])]
    return card | facts | ({"errors": errors} if errors else {}) | ({"holds": held} if held else {})


def _data_of(model: Any, record: dict[str, Any]) -> dict[str, Any]:
    """What X and y of the fit were: their form, sizes, names and ranges, and their checksum."""
    spec, ranges = model.spec_, model.ranges_
    data: dict[str, Any] = {"form": spec.input_form, "dimensions": spec.n_dims}
    data["grid"] = None if spec.grid_shape is None else list(spec.grid_shape)
    if ranges is not None:
        data |= {"samples": ranges.n_samples, "coordinates": ranges.coords.T.tolist()}
    data |= {name: record[name] for name in ("samples", "points", "checksum") if name in record}
    parameters = getattr(model, "feature_names_in_", spec.param_names)
    data["columns"] = [
        *_columns("input", "channel", spec.channel_names, spec.n_fields, getattr(ranges, "values", None)),
        *_columns("parameter", "parameter", parameters, spec.n_params, getattr(ranges, "params", None)),
        *_columns("target", "", _output_names(model), len(spec.output_names), getattr(ranges, "outputs", None)),
    ]
    return data


def _output_names(model: Any) -> list[str]:
    """Names of the outputs; of time series of meshes those of the fields and frames."""
    names: list[str] = model.spec_.output_names
    series = getattr(model, "series_", None)
    if series is None or model.spec_.target_form.channel_names:
        return names
    fields = [name if size == 1 else f"{name}_{k}" for name, size in series["components"] for k in range(size)]
    # A rollout counts the frames of a run from its window on, and the first one is 0.
    first, times = getattr(model, "window_", 0), getattr(model, "times_", None)
    count = len(names) // len(fields)
    frames = [f"frame {first + k}" for k in range(count)] if times is None else [f"t = {t:.10g}" for t in times]
    return [f"{name}, {frame}" for frame in frames for name in fields]


def _columns(role: str, word: str, names: Sequence[str] | None, count: int, ranges: Any) -> list[dict[str, Any]]:
    """Channels, parameters or scalars with their names and, where they are known, ranges."""
    called = [f"{word} {number}" for number in range(count)] if names is None or len(names) != count else names
    found = [{"role": role, "name": str(name)} for name in called]
    if ranges is None or ranges.shape[1] != count:
        return found
    return [item | {"range": limits} for item, limits in zip(found, ranges.T.tolist(), strict=True)]
