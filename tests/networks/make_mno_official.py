"""Make `mno_official.npz`: weights, inputs, outputs and gradients of MNO's official networks, made small.

    python tests/networks/make_mno_official.py PATH_OF_OFFICIAL_CODE

PATH is the directory with the authors' `MambaGNOT`, `MambaGalerkinTransformer` and `MambaOFormer`. Needs torch and
einops. The model files are imported unmodified and called with small sizes; dgl, timm, fvcore, torchinfo and the CUDA
selective scan are replaced by stand-ins, the scan by the recurrence token by token, so that no GPU is needed.
Everything is computed in float64; every weight is random, also those that start at 0 or 1, and rounded to float16, so
that the file is small and exact. The tests read the file and do not run this script.

What is changed on the way: the number of states, which GNOT and OFormer write down; casts to float32, which become
casts to float64; and the dropout of the Galerkin host's attention, which is called without its rate and mode, drops
half of the scores in training and in tests alike, and is switched off here.
"""

import contextlib
import importlib
import json
import math
import sys
import types
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

TARGET = Path(__file__).with_name("mno_official.npz")
WIDTH, STATES, GRID, BATCH = 8, 3, (5, 5), 2
POINTS = math.prod(GRID)


# ---------------------------------------------------------------- stand-ins
class SelectiveScan:
    """The recurrence token by token: u, delta (b, k d, l), A (k d, n), B, C (b, k, n, l), D and delta_bias (k d)."""

    @staticmethod
    def apply(u, delta, A, B, C, D=None, delta_bias=None, delta_softplus=False, nrows=1):
        copies = u.shape[1] // B.shape[1]
        B, C = (maps.repeat_interleave(copies, dim=1) for maps in (B, C))
        step = F.softplus(delta + delta_bias[:, None]) if delta_softplus else delta + delta_bias[:, None]
        state, outputs = u.new_zeros(*u.shape[:2], A.shape[1]), []
        for place in range(u.shape[2]):
            now = step[:, :, place, None]
            state = (now * A).exp() * state + now * B[..., place] * u[:, :, place, None]
            outputs.append((state * C[..., place]).sum(-1))
        return torch.stack(outputs, dim=-1) + D[:, None] * u


class Graph:
    """What the official GNOT asks of a batch of graphs, all with as many nodes."""

    def __init__(self, coords):
        self.coords = coords

    def batch_num_nodes(self):
        return [self.coords.shape[1]] * len(self.coords)


def module(name, **held):
    made = types.ModuleType(name)
    made.__dict__.update(held, __path__=held.pop("path", []))
    sys.modules[name] = made


def install_stand_ins(root):
    def unbatch(graph):
        return [types.SimpleNamespace(ndata={"x": own}) for own in graph.coords]

    module("dgl", unbatch=unbatch)
    module("timm")
    module("timm.models")
    module("timm.models.layers", DropPath=nn.Identity, trunc_normal_=nn.init.trunc_normal_)
    module("fvcore")
    names = ("FlopCountAnalysis", "flop_count_str", "flop_count", "parameter_count")
    module("fvcore.nn", **dict.fromkeys(names))
    module("torchinfo", summary=None)
    module("selective_scan_cuda")
    # Only `MultipleTensors` is asked for, a list; the file itself needs much else.
    module("utils", MultipleTensors=list)
    # The package's own imports need plotting libraries; the model files do not use them.
    module("libs", path=[str(root / "MambaGalerkinTransformer" / "libs")])
    module("libs.utils_ft")
    sys.path[:0] = [str(root / "MambaGNOT"), str(root / "MambaOFormer")]


@contextlib.contextmanager
def official_on_cpu():
    """torch as the official code needs it here: float64 throughout, and no dropout."""
    held = torch.Tensor.float, torch.float, torch.float32, F.dropout
    torch.Tensor.float = lambda tensor: tensor.double()
    torch.float = torch.float32 = torch.float64
    F.dropout = lambda values, *args, **options: values
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.Tensor.float, torch.float, torch.float32, F.dropout = held
        torch.set_default_dtype(torch.float32)


def shrink_scans():
    """Let the scan mixers use the stand-in, and few states."""
    for name in ("models.mamba_ops", "models.mamba_ops_4", "libs.mamba_ops", "nn_module.mamba_ops"):
        scans = importlib.import_module(name)
        scans.SelectiveScan = SelectiveScan
        for kind in (scans.SS2D, scans.CrossSS2D):

            def build(self, config, built=kind.__init__):
                config.ssm_d_state = STATES
                built(self, config)

            kind.__init__ = build


# ---------------------------------------------------------------- the networks, made small
def gnot(kind, n_branches=1):
    """GNOT; attention reads as many input functions as are asked for."""
    file, name = {
        "mamba": ("mmgpt_mamba", "MambaGNOT"),
        "mamba_cross": ("mmgpt_mamba_c4", "MambaGNOT_C4"),
        "linear": ("mmgpt", "GNOT"),
        "softmax": ("mmgpt_st", "STGNOT"),
    }[kind]
    sizes = [3, 1][:n_branches]
    network = getattr(importlib.import_module(f"models.{file}"), name)(
        trunk_size=3, branch_sizes=sizes, space_dim=2, output_size=2, n_layers=1, n_hidden=WIDTH, n_head=2,
        n_experts=1 if kind == "mamba_cross" else 2, n_inner=1, mlp_layers=1,
        attn_type="standard" if kind == "softmax" else "linear",
    )  # fmt: skip

    def run(coords, fields, params):
        inputs = [torch.cat([coords, fields], dim=-1)]
        if n_branches == 2:
            inputs.append(params.unsqueeze(1))
        return network(Graph(coords), params, inputs).unflatten(0, (BATCH, POINTS))

    return network, run


def galerkin(kind):
    """The Galerkin Transformer on a grid with an odd number of points along each axis."""
    network = importlib.import_module("libs.model_mamba").FourierTransformerNew(
        node_feats=1, pos_dim=2, spacial_dim=2, n_targets=2, n_hidden=WIDTH, num_encoder_layers=2, n_head=2,
        dim_feedforward=WIDTH, attention_type=kind, xavier_init=0.01, diagonal_weight=0.01, symmetric_init=False,
        layer_norm=False, attn_norm=True, norm_eps=1e-7 if kind == "softmax" else 1e-5, batch_norm=False,
        return_attn_weight=False, return_latent=False, decoder_type="ifft2", spacial_fc=True, freq_dim=3,
        num_regressor_layers=2, fourier_modes=2, regressor_activation="silu", last_activation=True, dropout=0.0,
        ffn_dropout=0.0, encoder_dropout=0.0, decoder_dropout=0.0, debug=False, ssm_d_state=STATES, ssm_ratio=2.0,
        ssm_rank_ratio=2.0, forward_type="v2",
    )  # fmt: skip
    return network, lambda coords, fields, params: network(fields, coords)


def oformer(kind):
    """OFormer as its script for Darcy flow has it."""
    tail = {"mamba": "_mamba", "linear": "", "softmax": "_st"}[kind]
    encoder = importlib.import_module(f"nn_module.encoder_module{tail}")
    decoder = importlib.import_module(f"nn_module.decoder_module{tail}")
    network = nn.ModuleDict({
        "encoder": encoder.SpatialEncoder2D(3, WIDTH, WIDTH, 2, 2, res=5, use_ln=True),
        "decoder": decoder.PointWiseDecoder2DSimple(WIDTH, 2, scale=0.5, res=5),
    })  # fmt: skip

    def run(coords, fields, params):
        latents = network["encoder"](torch.cat([fields, coords], dim=-1), coords)
        return network["decoder"](latents, coords, coords)

    return network, run


def oformer_in_time(kind, steps=3):
    """OFormer as its scripts for problems in time have it."""
    tail = {"mamba": "_mamba", "linear": "", "softmax": "_st"}[kind]
    encoder = importlib.import_module(f"nn_module.encoder_module{tail}")
    decoder = importlib.import_module(f"nn_module.decoder_module{tail}")
    network = nn.ModuleDict({
        "encoder": encoder.SpatialTemporalEncoder2D(3, WIDTH, WIDTH, 1, 2),
        "decoder": decoder.PointWiseDecoder2D(2 * WIDTH, 2, 1, 1, scale=8),
    })  # fmt: skip

    def run(coords, fields, params):
        latents = network["encoder"](torch.cat([fields, coords], dim=-1), coords)
        return network["decoder"].rollout(latents, coords, steps, coords).mT

    return network, run


CASES = {
    "gnot_mamba": partial(gnot, "mamba"),
    "gnot_mamba_cross": partial(gnot, "mamba_cross"),
    "gnot_linear": partial(gnot, "linear", 2),
    "gnot_softmax": partial(gnot, "softmax", 2),
    "galerkin_mamba": partial(galerkin, "mamba"),
    "galerkin_linear": partial(galerkin, "galerkin"),
    "galerkin_softmax": partial(galerkin, "softmax"),
    "oformer_mamba": partial(oformer, "mamba"),
    "oformer_linear": partial(oformer, "linear"),
    "oformer_softmax": partial(oformer, "softmax"),
    "oformer_in_time_mamba": partial(oformer_in_time, "mamba"),
    "oformer_in_time_linear": partial(oformer_in_time, "linear"),
    "oformer_in_time_softmax": partial(oformer_in_time, "softmax"),
}


# ---------------------------------------------------------------- recording
def rounded(values):
    """Numbers that float16 holds exactly."""
    return values.to(torch.float16).double()


def randomize(network, generator):
    """Random weights of a sensible size in every tensor."""
    noise = partial(torch.randn, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            last = name.rpartition(".")[2]
            if last in ("A_logs", "Ds", "dt_projs_bias") or parameter.ndim < 2:
                values = parameter + 0.3 * noise(parameter.shape)
            elif "fourier_weight" in name:
                values = 0.5 * noise(parameter.shape)
            else:
                values = noise(parameter.shape) / math.sqrt(parameter.shape[-1])
            parameter.copy_(rounded(values))


#: Optimiser, its options, those of its schedule and the bound of gradients, as the scripts for Darcy flow have them.
TRAINING = {
    "gnot": (torch.optim.AdamW, {"weight_decay": 5e-6}, (1e-3, 0.2, 1e4, 1e4), 1000.0),
    "galerkin": (torch.optim.Adam, {}, (1e-3, 0.3, 1e4, 1e4), 0.999),
    "oformer": (torch.optim.Adam, {}, (1e-4, 0.2, 1e2, 1e5), None),
}


def trained_outputs(network, run, inputs, target, training):
    """Outputs after three steps on one batch, of ten that the schedule is made for."""
    kind, options, (rate, up, first, last), bound = training
    # OFormer's script has an optimiser for the encoder and one for the decoder.
    parts = network.children() if isinstance(network, nn.ModuleDict) else [network]
    optimizers = [kind(part.parameters(), lr=rate, **options) for part in parts]
    schedules = [
        torch.optim.lr_scheduler.OneCycleLR(
            optimizer, rate, total_steps=10, pct_start=up, div_factor=first, final_div_factor=last
        )
        for optimizer in optimizers
    ]
    for _ in range(3):
        network.zero_grad()
        (run(*inputs) - target).square().mean().backward()
        if bound is not None:
            nn.utils.clip_grad_norm_(network.parameters(), bound)
        for stepped in (*optimizers, *schedules):
            stepped.step()
    with torch.no_grad():
        return run(*inputs)


def record(make, training):
    """Weights, inputs, target, outputs and gradients of one network, and its outputs after some training, if asked."""
    generator = torch.Generator().manual_seed(0)
    with official_on_cpu():
        torch.manual_seed(0)
        network, run = make()
        network.double()
        randomize(network, generator)
        coords = rounded(torch.rand(BATCH, POINTS, 2, generator=generator)).requires_grad_()
        fields = rounded(torch.randn(BATCH, POINTS, 1, generator=generator)).requires_grad_()
        params = rounded(torch.randn(BATCH, 1, generator=generator)).requires_grad_()
        outputs = run(coords, fields, params)
        target = rounded(torch.randn(outputs.shape, generator=generator))
        (outputs - target).square().mean().backward()
    inputs = {"coords": coords, "fields": fields, "params": params}
    trained = {key: held for key, held in network.named_parameters() if held.requires_grad}
    fixed = {key: held for key, held in network.named_parameters() if not held.requires_grad}
    small = inputs | {"target": target} | {f"weight/{key}": held for key, held in (trained | fixed).items()}
    exact = {"outputs": outputs} | {f"gradient/{key}": held.grad for key, held in inputs.items()}
    exact |= {f"gradient/weight/{key}": held.grad for key, held in trained.items()}
    # Copies, since training goes on with the same tensors.
    small, exact = packed(small, np.float16), packed(exact, np.float64)
    if training is None:
        return small, exact
    with official_on_cpu():
        after = trained_outputs(network, run, [held.detach() for held in inputs.values()], target, training)
    return small, exact, packed({"outputs_after": after}, np.float64)


def packed(group, kind):
    """Arrays of a group as one, with their names and shapes."""
    held = {key: values.detach().numpy() for key, values in group.items() if values is not None}
    flat = np.concatenate([values.ravel() for values in held.values()])
    assert np.array_equal(flat.astype(kind), flat)
    return flat.astype(kind), json.dumps({key: values.shape for key, values in held.items()})


def main():
    torch.set_num_threads(1)
    install_stand_ins(Path(sys.argv[1]).resolve())
    shrink_scans()
    found = {}
    for name, make in CASES.items():
        training = TRAINING.get(name.removesuffix("_mamba"))
        for group, (flat, shapes) in zip(("small", "exact", "after"), record(make, training), strict=False):
            found |= {f"{name}/{group}": flat, f"{name}/{group}/shapes": shapes}
    np.savez_compressed(TARGET, **found)
    print(f"{len(found)} arrays, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
