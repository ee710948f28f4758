"""Published configurations, as parameters of the estimators."""

from typing import Any

from skop.estimators.presets import geomano, lamo

__all__ = ["preset_parameters"]

_PRESETS: dict[str, dict[str, dict[str, Any]]] = {"geomano": geomano.PRESETS, "lamo": lamo.PRESETS}


def preset_parameters(operator: str, name: str) -> dict[str, Any]:
    """Return the parameters of a preset.

    Parameters
    ----------
    operator : str
        Such as ``"lamo"``.
    name : str
        Benchmark.

    Returns
    -------
    dict
        Keyword arguments of the estimator; a copy.

    Raises
    ------
    ValueError
        If there is no such preset; the message lists those that are.

    Examples
    --------
    >>> from skop.estimators.presets import preset_parameters
    >>> preset_parameters("lamo", "darcy")["max_iter"]
    500
    """
    presets = _PRESETS[operator]
    if name not in presets:
        raise ValueError(f"there is no preset {name!r} for {operator}; choose from {sorted(presets)}.")
    return dict(presets[name])
