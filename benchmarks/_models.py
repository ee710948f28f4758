"""What the benchmarks share about models: operators by name, and limits of a training."""

import argparse
from collections.abc import Iterable
from typing import Any

from skop.estimators import AMORegressor, GeoMaNORegressor, LaMORegressor, MNORegressor
from skop.parts import GNOT, Attention, GalerkinTransformer, Host, Mamba, OFormer

__all__ = [
    "HOSTS",
    "MIXERS",
    "OPERATORS",
    "add_mno_options",
    "estimator_names",
    "make_operator",
    "mno_parts",
    "operator_name",
    "until_epoch",
    "until_time",
]

#: Operators by the words of the command line, and their names.
OPERATORS: dict[str, tuple[Any, str]] = {
    "lamo": (LaMORegressor, "LaMO"),
    "geomano": (GeoMaNORegressor, "GeoMaNO"),
    "mno": (MNORegressor, "MNO"),
    "amo": (AMORegressor, "AMO"),
}
#: Hosts and mixers of MNO's paper by the words of the command line, in the order of its tables.
HOSTS: dict[str, type[Host]] = {"gnot": GNOT, "galerkin": GalerkinTransformer, "oformer": OFormer}
MIXERS = ("linear", "softmax", "mamba")
#: More than any limit allows, so that only the other limit ends a fit.
_MANY_EPOCHS, _MANY_SECONDS = 10**6, 1e9


def until_time(seconds: float) -> dict[str, Any]:
    """Return the parameters of a fit that only the time ends.

    Parameters
    ----------
    seconds : float
        Length of the training.

    Returns
    -------
    dict
        Parameters of an operator.
    """
    return {"max_time": seconds, "max_iter": _MANY_EPOCHS}


def until_epoch(epochs: int) -> dict[str, Any]:
    """Return the parameters of a fit that only the number of epochs ends.

    There is a time limit that is never reached, because kernels are then compiled before the clock starts.

    Parameters
    ----------
    epochs : int
        Length of the training.

    Returns
    -------
    dict
        Parameters of an operator.
    """
    return {"max_time": _MANY_SECONDS, "max_iter": epochs}


def mno_parts(host: str, mixer: str) -> dict[str, Any]:
    """Return a host and a mixer of MNO with default parameters.

    Parameters
    ----------
    host : str
        One of `HOSTS`.
    mixer : str
        One of `MIXERS`.

    Returns
    -------
    dict
        Parameters of `skop.MNORegressor`.
    """
    return {"host": HOSTS[host](), "mixer": Mamba() if mixer == "mamba" else Attention(kind=mixer)}


def add_mno_options(parser: argparse.ArgumentParser) -> None:
    """Add the choice of one host and one mixer of MNO to a command.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The command.
    """
    parser.add_argument("--host", choices=HOSTS, default="galerkin", help="network of mno")
    parser.add_argument("--mixer", choices=MIXERS, default="mamba", help="mixer of mno")


def make_operator(kind: str, options: argparse.Namespace, **parameters: Any) -> Any:
    """Return a network with default parameters, but for those given and the host and the mixer asked for.

    There is no classical model under it, since the tables compare the two.

    Parameters
    ----------
    kind : str
        One of `OPERATORS`.
    options : argparse.Namespace
        Options of a command with those of `add_mno_options`.
    **parameters
        Parameters of the operator.

    Returns
    -------
    estimator
        Unfitted.
    """
    chosen = mno_parts(options.host, options.mixer) if kind == "mno" else {}
    return OPERATORS[kind][0](**{"base": None} | chosen | parameters)


def estimator_names(kinds: Iterable[str]) -> list[str]:
    """Return the classes behind words of the command line, whose defaults a report records.

    Parameters
    ----------
    kinds : iterable of str
        Some of `OPERATORS`, and ``"classical"``.

    Returns
    -------
    list of str
        Names of classes.
    """
    words = {kind: made.__name__ for kind, (made, _) in OPERATORS.items()} | {"classical": "PODRegressor"}
    return [words[kind] for kind in kinds if kind in words]


def operator_name(kind: str, options: argparse.Namespace) -> str:
    """Return what an operator is called in a table.

    Parameters
    ----------
    kind : str
        One of `OPERATORS`.
    options : argparse.Namespace
        Options of a command with those of `add_mno_options`.

    Returns
    -------
    str
        Its name, that of MNO with its host and mixer.
    """
    name = OPERATORS[kind][1]
    return f"{name} {options.host} {options.mixer}" if kind == "mno" else name
