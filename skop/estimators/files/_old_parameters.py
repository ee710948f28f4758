"""Parameters of operators in model files that were written before parts were parameters.

Until then an operator had its sizes as flat parameters, and an option object ``architecture`` for the rest. The tables
say which part has them now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["renamed"]

_SCAN = ("expand", "scan_directions", "path_weights", "kernel_size", "activation", "decay_range")
_HOSTS = {"galerkin": "GalerkinTransformer", "gnot": "GNOT", "oformer": "OFormer"}
_HOST_NAMES = {
    "GalerkinTransformer": ("layer_norm", "decoder", "decoder_width", "decoder_depth", "n_modes"),
    "GNOT": ("mlp_depth", "n_experts", "branches"),
    "OFormer": (
        *("latent_width", "residual", "n_fourier", "fourier_scale", "n_steps", "propagator_width"),
        *("propagator_depth", "input_dropout"),
    ),
}
_MIXERS = {"hydra": "Hydra", "mamba2": "Mamba2", "mamba": "Mamba", "s6": "Mamba"}
_ATTENTIONS = ("linear", "softmax", "galerkin", "fourier", "normalized_linear")


def renamed(name: str, state: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of an operator in a model file, with parameters as they are named now.

    Parameters
    ----------
    name : str
        Class of the operator.
    state : dict
        Attributes as the file holds them, in types of JSON.

    Returns
    -------
    dict
        The same attributes, if they are those of now; new ones otherwise.
    """
    kind = name.removesuffix("Regressor")
    if name == "RolloutRegressor":
        # Until 2026-12-01 networks of time steps learned the next frame.
        return {"increments": False} | state
    if "weight_decay" in state or not ({"max_iter", "learning_rate_init"} <= set(state)):
        return state
    state = dict(state)
    training = _taken(state, "training")
    for key in ("subsample_points", "n_iter_no_change"):
        if key in state:
            training[key] = state.pop(key)
    if "weight_decay" in training:
        state["weight_decay"] = training.pop("weight_decay")
    if training:
        state["training"] = _part("TrainingOptions", training)
    if (parts := _PARTS.get(kind)) is not None:
        old = _taken(state, "architecture")
        flat = ("patch_size", "n_latents", "d_state", "n_heads", "n_poles", "recurrence", "correction", "point_order")
        old |= {f"own_{key}": state.pop(key) for key in flat if key in state}
        if "mlp_ratio" in old:
            state["mlp_ratio"] = old["mlp_ratio"]
        parts(state, old)
    if "network_parameters_" in state:
        # They are the parameters, of which `save` refuses others than in the fit.
        state["network_parameters_"] = {"dict": {}}
    return state


def _taken(state: dict[str, Any], name: str) -> dict[str, Any]:
    """Take an option object out of a state: its parameters, none if it is None."""
    held = state.pop(name, None)
    return dict(held["state"]) if isinstance(held, dict) and isinstance(held.get("state"), dict) else {}


def _part(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    """A part as a file holds it; parameters that are not given have their defaults."""
    return {"object": kind, "state": values}


def _chosen(old: dict[str, Any], *names: str, **new_names: str) -> dict[str, Any]:
    """Some of the old parameters, under their own names or new ones."""
    table = {name: name for name in names} | new_names
    return {new: old[name] for name, new in table.items() if name in old}


def _patches(old: dict[str, Any]) -> dict[str, Any]:
    """Patches of a grid."""
    names = ("conv_channels", "positional_encoding", "lifting_width", "coordinate_channels", "pad_to_multiple")
    found = {"conv_channels": 16} | _chosen(old, *names, own_patch_size="size", patch_init="init")
    if old.get("n_frequencies", "auto") != "auto":
        found["n_frequencies"] = old["n_frequencies"]
    return _part("Patches", found)


def _latents(old: dict[str, Any], kind: str, *names: str) -> dict[str, Any]:
    """Latent tokens of points."""
    names = ("n_centred_heads", "decoder", "position_network", "parameter_embedding", "weight_init", *names)
    new_names = {"own_n_latents": "n_tokens", "n_latent_heads": "n_heads", "normalize_latents": "normalize"}
    found = _chosen(old, *names, **new_names, shared_projections="shared")
    if old.get("n_frequencies", "auto") != "auto":
        found["n_frequencies"] = old["n_frequencies"]
    return _part(kind, found)


def _mixer(word: str, old: dict[str, Any]) -> dict[str, Any]:
    """Mixer by its old name, with the parameters that it had."""
    if word in _ATTENTIONS:
        return _part("Attention", {"kind": word} | _chosen(old, own_n_heads="n_heads"))
    if word not in _MIXERS:
        return _part(word, {})
    names = ("dt_rank", "scan_directions", "step_range", "ratio") if _MIXERS[word] == "Mamba" else ()
    heads = {} if _MIXERS[word] == "Mamba" else {"own_n_heads": "n_heads"}
    return _part(_MIXERS[word], _chosen(old, "expand", *names, own_d_state="d_state", **heads))


def _lamo(state: dict[str, Any], old: dict[str, Any]) -> None:
    """Parts of LaMO."""
    state["patches"] = _patches(old)
    state["scan"] = _part("GridSSD", _chosen(old, *_SCAN, own_d_state="d_state", own_n_heads="n_heads"))
    state["latents"] = _latents(old, "LatentTokens", "temperature")
    state["mixer"] = _mixer(old.get("mixer", "hydra"), old)


def _geomano(state: dict[str, Any], old: dict[str, Any]) -> None:
    """Parts of GeoMaNO."""
    names = (
        *("expand", "dt_rank", "scan_directions", "direction_order", "correction_at", "kernel_size", "activation"),
        *("separate_gate", "activate_output", "step_range", "decay_range"),
    )
    own = {f"own_{name}": name for name in ("d_state", "recurrence", "correction")}
    state["patches"] = _patches(old)
    state["mixer"] = _part("GeometricScan", _chosen(old, *names, **own))


def _amo(state: dict[str, Any], old: dict[str, Any]) -> None:
    """Parts of AMO."""
    once = old.get("latents", "each_block") == "once"
    state["patches"] = _patches(old)
    state["latents"] = _latents(old, "LatentAttention", "aggregation") if once else _latents(old, "LatentTokens")
    poles = ("adaptive_poles", "orthogonal", "max_radius")
    if old.get("transform") == "literal":
        state["mixer"] = _part("LiteralExpansions", _chosen(old, *poles))
        return
    names = (*poles, "transform", "d_state", "expand", "kernel_size", "scan_directions", "n_pole_heads")
    state["mixer"] = _part("TakenakaMalmquist", _chosen(old, *names, own_n_poles="n_poles"))


def _mno(state: dict[str, Any], old: dict[str, Any]) -> None:
    """Parts of MNO."""
    host, word = _HOSTS[state.pop("host", "galerkin")], state.pop("mixer", "mamba")
    names = ("kernel_size", "n_frequencies", *_HOST_NAMES[host])
    state["host"] = _part(host, _chosen(old, *names, own_point_order="point_order"))
    state["mixer"] = _mixer(word, old)
    if host == "OFormer" and word in _ATTENTIONS:
        rotary = _chosen(old, "query_heads", "rotary_scales", "query_rotary_scale")
        state["mixer"] = _part("RotaryAttention", state["mixer"]["state"] | rotary)


_PARTS: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "LaMO": _lamo,
    "GeoMaNO": _geomano,
    "AMO": _amo,
    "MNO": _mno,
}
