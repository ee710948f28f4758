"""MNO's hosts against the official code: stored weights, inputs, outputs and gradients of each with each mixer.

`make_mno_official.py` made the file from the official model files, with small sizes.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from skop.networks import GalerkinNetwork, GNOTNetwork, OFormerNetwork
from skop.parts import GNOT, Attention, GalerkinTransformer, Mamba, OFormer, RotaryAttention

from .problems import changed

GOLDEN = Path(__file__).with_name("mno_official.npz")
GRID, STATES, RANK, WIDTH = (5, 5), 3, 1, 8
KINDS = ("weight", "bias")

DATA = {"n_dims": 2, "n_fields": 1, "n_params": 0, "n_outputs": 2, "n_scalars": 0, "width": WIDTH, "mlp_ratio": 1}
PLACE = {"point_order": "given", "kernel_size": 1, "n_frequencies": 0}
SCANS = Mamba(d_state=STATES)
LINEAR, SOFTMAX = (Attention(kind=kind, n_heads=2) for kind in ("linear", "softmax"))
TWO_EXPERTS = GNOT(mlp_depth=1, n_experts=2, **PLACE)
ONE_EXPERT, PARTS = replace(TWO_EXPERTS, n_experts=1), replace(TWO_EXPERTS, branches="parts")
ON_POINTS = DATA | {"n_params": 1, "depth": 1}
GALERKIN = DATA | {"depth": 2, "host": GalerkinTransformer(
    layer_norm=False, decoder="spectral", decoder_width=3, decoder_depth=2, n_modes=2, **PLACE,
)}  # fmt: skip
OFORMER = DATA | {"depth": 2, "host": OFormer(
    latent_width=WIDTH, residual="normalized", n_fourier=4, fourier_scale=0.5, propagator_width=16, **PLACE,
)}  # fmt: skip
IN_TIME = changed(OFORMER, {"n_outputs": 6, "host__n_steps": 3, "host__n_fourier": 8})
ROTARY = RotaryAttention(n_heads=2, query_heads=4, rotary_scales=(25.0, 5.0), query_rotary_scale=80.0)
ROTARY_IN_TIME = replace(ROTARY, n_heads=1, rotary_scales=(2048.0, 64.0), query_rotary_scale=1024.0)
CONFIGURATIONS = {
    "gnot_mamba": (GNOTNetwork, ON_POINTS | {"host": TWO_EXPERTS, "mixer": SCANS}),
    "gnot_mamba_cross": (
        GNOTNetwork,
        ON_POINTS | {"host": ONE_EXPERT, "mixer": replace(SCANS, scan_directions="cross")},
    ),
    "gnot_linear": (GNOTNetwork, ON_POINTS | {"host": PARTS, "mixer": LINEAR}),
    "gnot_softmax": (GNOTNetwork, ON_POINTS | {"host": PARTS, "mixer": SOFTMAX}),
    "galerkin_mamba": (GalerkinNetwork, GALERKIN | {"mixer": SCANS}),
    "galerkin_linear": (GalerkinNetwork, GALERKIN | {"mixer": LINEAR}),
    "galerkin_softmax": (GalerkinNetwork, GALERKIN | {"mixer": SOFTMAX}),
    "oformer_mamba": (OFormerNetwork, OFORMER | {"mixer": SCANS}),
    "oformer_linear": (OFormerNetwork, OFORMER | {"mixer": ROTARY}),
    "oformer_softmax": (
        OFormerNetwork,
        changed(OFORMER, {"mixer": replace(ROTARY, kind="softmax"), "host__residual": "raw"}),
    ),
    "oformer_in_time_mamba": (OFormerNetwork, IN_TIME | {"mixer": SCANS}),
    "oformer_in_time_linear": (OFormerNetwork, IN_TIME | {"mixer": ROTARY_IN_TIME}),
    "oformer_in_time_softmax": (
        OFormerNetwork,
        changed(IN_TIME, {"mixer": replace(ROTARY_IN_TIME, kind="softmax"), "host__residual": "raw"}),
    ),
}


@cache
def golden(name):
    """Arrays of one network by their names, in float64."""
    arrays = {}
    with np.load(GOLDEN) as file:
        for group in (f"{name}/{part}" for part in ("small", "exact", "after") if f"{name}/{part}" in file):
            shapes = {key: tuple(shape) for key, shape in json.loads(str(file[f"{group}/shapes"])).items()}
            ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes.values()])
            parts = np.split(file[group].astype(np.float64), ends[:-1])
            arrays |= {
                key: torch.from_numpy(part.reshape(shapes[key])) for key, part in zip(shapes, parts, strict=True)
            }
    return arrays


# ---------------------------------------------------------------- names: official -> ours
class Renaming:
    """Official tensors, taken out one by one under our names."""

    def __init__(self, tensors):
        self.tensors, self.ours = dict(tensors), {}

    def move(self, old, new):
        """Take a tensor over as it is."""
        self.ours[new] = self.tensors.pop(old)

    def layer(self, old, new):
        """Take over weight and bias."""
        for kind in KINDS:
            if f"{old}.{kind}" in self.tensors:
                self.move(f"{old}.{kind}", f"{new}.{kind}")

    def mixer(self, old, new):
        """A scan mixer, whose parameters of all directions are one tensor each in ours."""
        biases = self.tensors.pop(f"{old}.dt_projs_bias")
        self.ours[f"{new}.step_bias"] = biases
        for theirs, own in (("A_logs", "log_decay"), ("Ds", "direct")):
            held = self.tensors.pop(f"{old}.{theirs}")
            self.ours[f"{new}.{own}"] = held.reshape(*biases.shape, *held.shape[1:])
        self.move(f"{old}.dt_projs_weight", f"{new}.step_projection")
        for theirs, own in (("x_proj_weight", "direction_projection"), ("ref_proj_weight", "reference_projections.0")):
            if f"{old}.{theirs}" in self.tensors:
                parts = self.tensors.pop(f"{old}.{theirs}").split([RANK, STATES, STATES], dim=1)
                self.ours[f"{new}.{own}.weight"] = torch.cat([part.flatten(0, 1) for part in parts])
        for theirs, own in (("in_proj", "in_projection"), ("out_norm", "norm"), ("out_proj", "out_projection")):
            self.layer(f"{old}.{theirs}", f"{new}.{own}")


def residual_mlp(names, old, new):
    for theirs, own in (("linear_pre", "first"), ("linear_post", "last"), ("linears.0", "layers.0")):
        names.layer(f"{old}.{theirs}", f"{new}.{own}")


def map_gnot(names, mixer):
    """GNOT's tensors under our names."""
    residual_mlp(names, "trunk_mlp", "trunk")
    residual_mlp(names, "out_mlp", "head")
    for branch in range(2 if mixer != "mamba" else 1):
        residual_mlp(names, f"branch_mlps.{branch}", f"branches.{branch}")
        names.layer(f"blocks.0.ln2_branch.{branch}", f"blocks.0.norm_references.{branch}")
        names.layer(f"blocks.0.crossattn.keys.{branch}", f"blocks.0.cross.keys.{branch}")
        names.layer(f"blocks.0.crossattn.values.{branch}", f"blocks.0.cross.values.{branch}")
    norms = {"ln1": "norm_cross", "ln3": "norm_first", "ln4": "norm_mixer", "ln5": "norm_second"}
    for theirs, own in norms.items():
        names.layer(f"blocks.0.{theirs}", f"blocks.0.{own}")
    for layer in (0, 2, 4):
        names.layer(f"blocks.0.gatenet.{layer}", f"blocks.0.gate.{layer}")
    for expert in range(2):
        for layer in (0, 2):
            names.layer(f"blocks.0.moe_mlp1.{expert}.{layer}", f"blocks.0.first.experts.{expert}.{layer}")
            names.layer(f"blocks.0.moe_mlp2.{expert}.{layer}", f"blocks.0.second.experts.{expert}.{layer}")
    if mixer == "mamba":
        names.mixer("blocks.0.selfattn", "blocks.0.mixer")
        names.mixer("blocks.0.crossattn", "blocks.0.cross")
    else:
        parts = {"query": "query", "key": "keys.0", "value": "values.0", "proj": "out_projection"}
        for theirs, own in parts.items():
            names.layer(f"blocks.0.selfattn.{theirs}", f"blocks.0.mixer.{own}")
            names.layer(f"blocks.0.crossattn.{theirs}", f"blocks.0.cross.{own}")


def map_galerkin(names, mixer):
    """Tensors of the Galerkin Transformer, which puts the coordinates after the fields, under our names."""
    names.layer("downscaler.id", "lifting")
    names.ours["lifting.weight"] = fields_last(names.ours["lifting.weight"])
    for block in range(2):
        old, new = f"encoder_layers.{block}", f"blocks.{block}"
        names.layer(f"{old}.ff.lr1", f"{new}.mlp.0")
        names.layer(f"{old}.ff.lr2", f"{new}.mlp.2")
        if mixer == "mamba":
            names.mixer(f"{old}.attn", f"{new}.mixer")
            continue
        for number, own in enumerate(("query", "keys.0", "values.0")):
            names.layer(f"{old}.attn.linears.{number}", f"{new}.mixer.{own}")
        names.layer(f"{old}.attn.fc", f"{new}.mixer.out_projection")
        norms = {"norm_K": "key", "norm_V": "value", "norm_Q": "query"}
        for theirs, own in norms.items():
            for kind in KINDS:
                heads = [names.tensors.pop(f"{old}.attn.{theirs}.{head}.{kind}", None) for head in range(2)]
                if heads[0] is not None:
                    names.ours[f"{new}.mixer.norms.{own}.{kind}"] = torch.stack(heads)
    names.layer("regressor.fc", "decoder.first")
    for layer in range(2):
        old, new = f"regressor.spectral_conv.{layer}", f"decoder.layers.{layer}"
        names.layer(f"{old}.linear", f"{new}.linear")
        signs = [names.tensors.pop(f"{old}.fourier_weight.{sign}") for sign in range(2)]
        names.ours[f"{new}.weight"] = torch.stack(signs)
        names.layer(f"regressor.regressor.{2 * layer}", f"decoder.last.{2 * layer}")


def map_oformer(names, mixer):
    """OFormer's tensors under our names; the coordinates come after the fields in theirs."""
    names.layer("encoder.to_embedding.0", "lifting")
    names.ours["lifting.weight"] = fields_last(names.ours["lifting.weight"])
    for kind in ("to_out.0", "project_to_latent.0"):
        names.layer(f"encoder.{kind}", "to_latent")
    for block in range(2):
        old, new = f"encoder.s_transformer.layers.{block}", f"blocks.{block}"
        # Softmax attention and its feed-forward part hold their normalisations themselves.
        parts = ("0.norm", "0.fn", "1.norm", "1.fn") if mixer == "softmax" else ("0", "1", "2", "3")
        norm_mixer, own_mixer, norm_mlp, mlp = (f"{old}.{part}" for part in parts)
        names.layer(norm_mixer, f"{new}.norm_mixer")
        names.layer(norm_mlp, f"{new}.norm_mlp")
        names.layer(f"{mlp}.net.0", f"{new}.mlp.fc1")
        names.layer(f"{mlp}.net.3", f"{new}.mlp.fc2")
        if mixer == "mamba":
            names.mixer(own_mixer, f"{new}.mixer")
            continue
        parts = names.tensors.pop(f"{own_mixer}.to_qkv.weight").chunk(3)
        for own, held in zip(("query", "keys.0", "values.0"), parts, strict=True):
            names.ours[f"{new}.mixer.{own}.weight"] = held
        names.layer(f"{own_mixer}.to_out.0", f"{new}.mixer.out_projection")
    if "decoder.coordinate_projection.0._B" in names.tensors:
        names.move("decoder.coordinate_projection.0._B", "encoding.frequencies")
    names.layer("decoder.coordinate_projection.1", "encoding.fc1")
    names.layer("decoder.coordinate_projection.3", "encoding.fc2")
    old = "decoder.decoding_transformer"
    names.layer(f"{old}.ffn.net.0", "mlp.fc1")
    names.layer(f"{old}.ffn.net.3", "mlp.fc2")
    if mixer == "mamba":
        names.mixer(f"{old}.cross_attn_module", "cross")
    else:
        for theirs, own in (("q", "query"), ("k", "keys.0"), ("v", "values.0"), ("out.0", "out_projection")):
            names.layer(f"{old}.cross_attn_module.to_{theirs}", f"cross.{own}")
        both = names.tensors.pop(f"{old}.cross_attn_module.to_kv.weight", None)
        if both is not None:
            names.ours["cross.keys.0.weight"], names.ours["cross.values.0.weight"] = both.chunk(2)
    in_time = "decoder.expand_feat.weight" in names.tensors
    names.layer("decoder.expand_feat", "decoder.expand")
    names.layer("decoder.propagator.0.0", "decoder.norms.0")
    for layer in (0, 2, 4):
        names.layer(f"decoder.propagator.0.1.{layer}", f"decoder.steps.0.{layer}")
    for layer in (0, 1, 2, 3, 4, 5):
        names.layer(f"decoder.to_out.{layer}", f"decoder.head.{layer}" if in_time else f"decoder.layers.{layer}")


def fields_last(weight):
    """Columns of one field and two coordinates, the coordinates first."""
    return weight[:, [1, 2, 0]]


def ours(name, prefix="weight/"):
    """Official tensors of a network under our names; none is left over."""
    arrays = golden(name)
    names = Renaming({key.removeprefix(prefix): held for key, held in arrays.items() if key.startswith(prefix)})
    host, *words = name.split("_")
    mixer = next(word for word in words if word in ("mamba", "linear", "softmax"))
    {"gnot": map_gnot, "galerkin": map_galerkin, "oformer": map_oformer}[host](names, mixer)
    assert not names.tensors
    return names.ours


def rebuilt(name, **changes):
    """Our network of a configuration with the official weights."""
    kind, options = CONFIGURATIONS[name]
    network = kind(**changed(options, changes)).double()
    network.load_state_dict(ours(name))
    return network


def close(found, expected, least=0.0):
    """Whether tensors agree to rounding, against the largest entry, or a least size where this is 0 in theory."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * max(float(expected.abs().max()), least))


def run(network, name, grid=GRID, **inputs):
    """Outputs for stored inputs, or others in their place."""
    arrays = golden(name)
    held = {key: arrays[key] for key in ("coords", "fields", "params")} | inputs
    params = held["params"] if CONFIGURATIONS[name][1]["n_params"] else None
    return network(held["coords"], held["fields"], params, grid).field


def test_outputs_and_gradients_are_those_of_the_official_code():
    for name in CONFIGURATIONS:
        network, arrays = rebuilt(name), golden(name)
        inputs = {key: arrays[key].clone().requires_grad_() for key in ("coords", "fields", "params")}
        outputs = run(network, name, **inputs)
        close(outputs, arrays["outputs"])
        (outputs - arrays["target"]).square().mean().backward()
        for key, held in inputs.items():
            if held.grad is not None:
                close(held.grad, arrays[f"gradient/{key}"])
        expected, parameters = ours(name, "gradient/weight/"), dict(network.named_parameters())
        assert set(parameters) == set(expected)
        # The biases of keys have no effect on softmax attention, for one.
        largest = max(float(held.abs().max()) for held in expected.values())
        for key, held in expected.items():
            close(parameters[key].grad, held, least=1e-2 * largest)


@pytest.mark.parametrize(
    ("name", "kind", "options", "schedule", "bound"),
    [
        ("gnot_mamba", torch.optim.AdamW, {"weight_decay": 5e-6}, (1e-3, 0.2, 1e4, 1e4), 1000.0),
        ("galerkin_mamba", torch.optim.Adam, {}, (1e-3, 0.3, 1e4, 1e4), 0.999),
        ("oformer_mamba", torch.optim.Adam, {}, (1e-4, 0.2, 1e2, 1e5), None),
    ],
)
def test_three_steps_of_training_are_those_of_the_official_code(name, kind, options, schedule, bound):
    """With the optimisers, schedules and bounds of the scripts for Darcy flow."""
    network, arrays = rebuilt(name), golden(name)
    rate, up, first, last = schedule
    optimizer = kind(network.parameters(), lr=rate, **options)
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=10, pct_start=up, div_factor=first, final_div_factor=last
    )
    for _ in range(3):
        network.zero_grad()
        (run(network, name) - arrays["target"]).square().mean().backward()
        if bound is not None:
            torch.nn.utils.clip_grad_norm_(network.parameters(), bound)
        optimizer.step()
        cycle.step()
    assert (arrays["outputs_after"] - arrays["outputs"]).abs().max() > 1e-4
    torch.testing.assert_close(run(network, name), arrays["outputs_after"], rtol=0, atol=1e-10)


def test_a_part_that_differs_would_be_noticed():
    for name, changes in [
        ("gnot_mamba", {"mixer__ratio": 0.99}),
        ("oformer_mamba", {"mixer__ratio": 0.99}),
        ("oformer_linear", {"mixer__query_rotary_scale": 79.0}),
        ("oformer_softmax", {"host__residual": "normalized"}),
        ("oformer_in_time_softmax", {"mixer__query_rotary_scale": 1020.0}),
    ]:
        outputs = run(rebuilt(name, **changes), name)
        assert (outputs - golden(name)["outputs"]).abs().max() > 1e-4


def test_exchanged_directions_would_be_noticed():
    network, name = rebuilt("gnot_mamba_cross"), "gnot_mamba_cross"
    network.blocks[0].mixer.directions = network.blocks[0].mixer.directions[::-1]
    assert (run(network, name) - golden(name)["outputs"]).abs().max() > 1e-4


def test_the_file_stays_small():
    assert GOLDEN.stat().st_size < 450_000
