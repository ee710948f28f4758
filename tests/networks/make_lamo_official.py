"""Make `lamo_official.npz`: weights, inputs, outputs and gradients of the official LaMO networks, made small.

    python tests/networks/make_lamo_official.py PATH_OF_OFFICIAL_CHECKOUT

PATH is a checkout of github.com/M3RG-IITD/LaMO (MIT licence), the directory with `model/`; the stored file is from
commit c434a63. Needs torch and einops. The model files are imported unmodified and called with small sizes; mamba_ssm,
causal_conv1d, triton and timm are replaced by plain-torch stand-ins, written from the semantics of mamba_ssm 2.2.2, so
that no GPU is needed. Everything is computed in float64. Every weight is random, also those that start at 0 or 1, and
rounded to float16, so that the file is small and exact. The tests read the file and do not run this script.
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

TARGET = Path(__file__).with_name("lamo_official.npz")


# ---------------------------------------------------------------- stand-ins for mamba_ssm, timm, triton
def _step(dt, dt_bias, dt_softplus, dt_limit):
    dt = dt if dt_bias is None else dt + dt_bias
    dt = F.softplus(dt) if dt_softplus else dt
    return dt.clamp(*dt_limit) if tuple(dt_limit) != (0.0, float("inf")) else dt


def ssd(x, dt, A, B, C, D=None, initial_states=None, block=64):
    """h_t = exp(dt_t A) h_{t-1} + dt_t x_t B_t^T, y_t = h_t C_t + D x_t, in blocks; x (b l h p), B, C (b l g n)."""
    batch, length, heads, channels = x.shape
    B, C = (maps.repeat_interleave(heads // maps.shape[2], dim=2) for maps in (B, C))
    state = x.new_zeros(batch, heads, channels, B.shape[-1]) if initial_states is None else initial_states
    outputs = []
    for start in range(0, length, block):
        part = slice(start, start + block)
        xs, ds, bs, cs = x[:, part], dt[:, part], B[:, part], C[:, part]
        logs = (ds * A).cumsum(1)  # (b, t, h), decay from the start of the block through t
        gap = logs.unsqueeze(2) - logs.unsqueeze(1)  # (b, t, s, h)
        causal = torch.ones(ds.shape[1], ds.shape[1], dtype=torch.bool).tril()[None, :, :, None]
        decay = torch.where(causal, gap, -torch.inf).exp()
        scores = torch.einsum("bthn,bshn->btsh", cs, bs) * decay * ds.unsqueeze(1)
        y = torch.einsum("btsh,bshp->bthp", scores, xs)
        y = y + torch.einsum("bthn,bhpn->bthp", cs, state) * logs.exp().unsqueeze(-1)
        left = (logs[:, -1:] - logs).exp() * ds
        state = state * logs[:, -1].exp()[:, :, None, None] + torch.einsum("bsh,bshp,bshn->bhpn", left, xs, bs)
        outputs.append(y)
    y = torch.cat(outputs, dim=1)
    if D is not None:
        y = y + (D if D.ndim == 2 else D.unsqueeze(-1)) * x
    return y, state


def mamba_chunk_scan_combined(
    x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None, initial_states=None, seq_idx=None, cu_seqlens=None,
    dt_softplus=False, dt_limit=(0.0, float("inf")), return_final_states=False,
):  # fmt: skip
    assert seq_idx is None
    assert cu_seqlens is None
    y, state = ssd(x, _step(dt, dt_bias, dt_softplus, dt_limit), A, B, C, D, initial_states, block=chunk_size)
    y = y if z is None else y * F.silu(z)
    return (y, state) if return_final_states else y


def rms_norm_gated(x, weight, z=None, eps=1e-5, norm_before_gate=True):
    if z is not None and not norm_before_gate:
        x = x * F.silu(z)
    x = x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight
    return x * F.silu(z) if z is not None and norm_before_gate else x


class RMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-5, group_size=None, norm_before_gate=True, device=None, dtype=None):
        super().__init__()
        assert group_size in (None, hidden_size)
        self.eps, self.norm_before_gate = eps, norm_before_gate
        self.weight = nn.Parameter(torch.ones(hidden_size, device=device, dtype=dtype))

    def forward(self, x, z=None):
        return rms_norm_gated(x, self.weight, z, self.eps, self.norm_before_gate)


def mamba_split_conv1d_scan_combined(
    zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, chunk_size, initial_states=None, seq_idx=None,
    dt_limit=(0.0, float("inf")), return_final_states=False, activation="silu", rmsnorm_weight=None, rmsnorm_eps=1e-6,
    outproj_weight=None, outproj_bias=None, headdim=None, ngroups=1, norm_before_gate=True,
):  # fmt: skip
    heads = len(D)
    width = heads * (headdim if D.ndim == 1 else D.shape[1])
    states = (zxbcdt.shape[-1] - 2 * width - heads) // ngroups // 2
    z, streams, dt = zxbcdt.split([width, width + 2 * ngroups * states, heads], dim=-1)
    kernel = conv1d_weight.shape[-1]
    padded = F.pad(streams.transpose(1, 2), (kernel - 1, 0))
    streams = F.silu(F.conv1d(padded, conv1d_weight.unsqueeze(1), conv1d_bias, groups=len(conv1d_weight)))
    x, B, C = streams.transpose(1, 2).split([width, ngroups * states, ngroups * states], dim=-1)
    y, _ = ssd(
        x.unflatten(-1, (heads, -1)), _step(dt, dt_bias, True, dt_limit), A, B.unflatten(-1, (ngroups, -1)),
        C.unflatten(-1, (ngroups, -1)), D, initial_states,
    )  # fmt: skip
    y = y.flatten(-2)
    y = y * F.silu(z) if rmsnorm_weight is None else rms_norm_gated(y, rmsnorm_weight, z, rmsnorm_eps, norm_before_gate)
    return y if outproj_weight is None else F.linear(y, outproj_weight, outproj_bias)


def _mamba_chunk_scan_combined_fwd(
    x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None, initial_states=None, seq_idx=None, cu_seqlens=None,
    dt_softplus=False, dt_limit=(0.0, float("inf")),
):  # fmt: skip
    assert z is None
    y, state = ssd(x, _step(dt, dt_bias, dt_softplus, dt_limit), A, B, C, D, initial_states)
    return y, None, None, None, None, state


def _mamba_chunk_scan_combined_bwd(
    dout, x, dt, A, B, C, out, chunk_size, D=None, z=None, dt_bias=None, initial_states=None, dfinal_states=None,
    seq_idx=None, dt_softplus=False, dt_limit=(0.0, float("inf")), **_,
):  # fmt: skip
    named = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "dt_bias": dt_bias, "initial_states": initial_states}
    leaves = {name: held.detach().requires_grad_() for name, held in named.items() if held is not None}
    with torch.enable_grad():
        step = _step(leaves["dt"], leaves.get("dt_bias"), dt_softplus, dt_limit)
        y, _ = ssd(leaves["x"], step, *(leaves[name] for name in "ABC"), None, leaves.get("initial_states"))
    found = dict(zip(leaves, torch.autograd.grad(y, list(leaves.values()), dout), strict=True))
    order = ("x", "dt", "A", "B", "C", "D", "z", "dt_bias", "initial_states")
    return tuple(found.get(name) for name in order)


def _layer_norm_fwd(x, weight, bias, eps, z=None, out=None, group_size=None, norm_before_gate=True, is_rms_norm=False):
    assert is_rms_norm
    assert bias is None
    assert group_size is None
    rstd = (x.square().mean(-1) + eps).rsqrt()
    return rms_norm_gated(x, weight, z, eps, norm_before_gate), None, rstd


def _layer_norm_bwd(
    dy, x, weight, bias, eps, mean, rstd, z=None, group_size=None, norm_before_gate=True, is_rms_norm=False,
    recompute_output=False, dz=None, out=None,
):  # fmt: skip
    leaves = [held.detach().requires_grad_() for held in (x, weight, z)]
    with torch.enable_grad():
        y = rms_norm_gated(*leaves, eps, norm_before_gate)
    dx, dweight, own_dz = torch.autograd.grad(y, leaves, dy)
    result = (dx, dweight, None, own_dz)
    return (*result, y.detach()) if recompute_output else result


class DropPath(nn.Module):  # every drop rate of the scripts is 0
    def __init__(self, drop_prob=0.0):
        super().__init__()
        self.drop_prob = drop_prob


def _pair(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


def install_stand_ins():
    def module(name, **held):
        made = types.ModuleType(name)
        made.__dict__.update(held, __path__=[])
        sys.modules[name] = made

    for name in ("mamba_ssm", "mamba_ssm.ops", "mamba_ssm.ops.triton", "mamba_ssm.distributed", "timm", "timm.models"):
        module(name)
    module("mamba_ssm.ops.triton.ssd_combined", mamba_chunk_scan_combined=mamba_chunk_scan_combined,
           mamba_split_conv1d_scan_combined=mamba_split_conv1d_scan_combined,
           _mamba_chunk_scan_combined_fwd=_mamba_chunk_scan_combined_fwd,
           _mamba_chunk_scan_combined_bwd=_mamba_chunk_scan_combined_bwd)  # fmt: skip
    module("mamba_ssm.ops.triton.layernorm_gated", RMSNorm=RMSNorm, _layer_norm_fwd=_layer_norm_fwd,
           _layer_norm_bwd=_layer_norm_bwd)  # fmt: skip
    module("mamba_ssm.ops.triton.selective_state_update", selective_state_update=None)
    module("mamba_ssm.distributed.tensor_parallel", ColumnParallelLinear=None, RowParallelLinear=None)
    module("mamba_ssm.distributed.distributed_utils", all_reduce=None, reduce_scatter=None)
    module("causal_conv1d", causal_conv1d_fn=None, causal_conv1d_update=None)
    module("timm.models.layers", DropPath=DropPath, to_2tuple=_pair, trunc_normal_=nn.init.trunc_normal_)
    try:
        importlib.import_module("triton.language")
    except ImportError:  # only decorates the CUDA form of the cross scan
        names = {"tensor": object, "constexpr": int}
        module("triton.language", **names)
        module("triton", jit=lambda function: function, language=sys.modules["triton.language"])


@contextlib.contextmanager
def official_on_cpu(double):
    """torch as the official code needs it: no CUDA device to enter; casts to float32 become casts to float64."""
    held = torch.cuda.device, torch.Tensor.float, torch.float, torch.float32
    torch.cuda.device = lambda device: contextlib.nullcontext()
    if double:
        torch.Tensor.float = lambda tensor: tensor.double()
        torch.float = torch.float32 = torch.float64
    try:
        yield
    finally:
        torch.cuda.device, torch.Tensor.float, torch.float, torch.float32 = held


# ---------------------------------------------------------------- the six networks, made small
GRIDS = {"darcy": (9, 10), "navier_stokes": (6, 4), "plasticity": (5, 3), "airfoil": (4, 5), "pipe": (3, 4)}
N_POINTS = {"elasticity": 11}
N_FIELDS = {"darcy": 1, "navier_stokes": 3, "plasticity": 1}


def smaller(module, name, **changes):
    """Let a module of the official code build one of its parts with other sizes than those it writes down."""
    kind = getattr(module, name)
    setattr(module, name, lambda *args, **options: kind(*args, **(options | changes)))


def shrink():
    """Sizes that the official code does not take as arguments: states and heads."""
    grid = importlib.import_module("model.LaMO_Regular_Grid")
    smaller(grid, "mamba_4D", d_state=3, dt_rank=2)
    shared = importlib.import_module("model.Latent_SSM_shared")
    unshared = importlib.import_module("model.Latent_SSM_unshared")
    hydra = shared.Hydra
    # The airfoil's one state and expansion of 1 stay.
    shared.Hydra = lambda **options: hydra(**(options | {"d_state": min(options["d_state"], 3), "headdim": 4}))
    smaller(unshared, "Mamba2", d_state=3, headdim=4)


def build(name):
    """Official network with the arguments of its script, but for sizes."""
    grid = GRIDS.get(name)
    if name in ("darcy", "navier_stokes"):
        padded = (16, 16) if name == "darcy" else grid
        sizes = {"H_img": grid[0], "W_img": grid[1], "H": padded[0], "W": padded[1], "embed_dims": [8], "depths": [2]}
        return importlib.import_module("model.LaMO_Regular_Grid").Model(
            space_dim=2, fun_dim=N_FIELDS[name], out_chans=1, num_heads=[8], mlp_ratios=[4], qkv_bias=False,
            qk_scale=None, drop_rate=0.0, attn_drop_rate=0.0, drop_path_rate=0.0, norm_layer=nn.LayerNorm,
            patch_sizes=[2], num_scales=1, get_last_output=False, **sizes,
        )  # fmt: skip
    common = {"space_dim": 2, "n_layers": 2, "n_hidden": 8, "n_head": 2, "slice_num": 5, "unified_pos": 0}
    if name == "elasticity":
        network = importlib.import_module("model.LaMO_Irregular_Mesh_shared")
        return network.Model(dropout=0.0, Time_Input=False, mlp_ratio=1, fun_dim=0, out_dim=1, ref=8, **common)
    common |= {"H": grid[0], "W": grid[1]}
    if name == "airfoil":
        network = importlib.import_module("model.LaMO_Structured_Mesh_2D_shared")
        return network.Model(dropout=0.0, Time_Input=False, mlp_ratio=1, fun_dim=0, out_dim=1, ref=8, **common)
    network = importlib.import_module("model.LaMO_Structured_Mesh_2D_unshared")
    if name == "plasticity":
        return network.Model(Time_Input=True, fun_dim=1, out_dim=4, mlp_ratio=1, **common)
    return network.Model(dropout=0.0, Time_Input=False, mlp_ratio=2, fun_dim=0, out_dim=1, ref=8, **common)


def rounded(values):
    """Numbers that float16 holds exactly."""
    return values.half().double()


def randomize(network, generator):
    """Random weights of a sensible size in every tensor."""
    noise = partial(torch.randn, generator=generator, dtype=torch.float64)
    shifted = ("A_log", "A_log_b", "A_logs", "Ds", "dt_projs_bias", "dt_bias", "dt_bias_b")
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("temperature"):
                values = 0.4 + torch.rand(parameter.shape, generator=generator, dtype=torch.float64)
            elif name.endswith(shifted) or parameter.ndim < 2:
                values = parameter + 0.3 * noise(parameter.shape)
            elif name.endswith(("pos_embed1", "init_states")):
                values = 0.5 * noise(parameter.shape)
            elif name.endswith(("patch_embed1.WE", "in_project_slice.weight")):
                values = noise(parameter.shape)
            else:
                fan_in = parameter.shape[-1] if name.endswith("x_proj_weight") else parameter[0].numel()
                values = noise(parameter.shape) / math.sqrt(fan_in)
            parameter.copy_(rounded(values))


def record(name):
    """Weights, inputs, target, outputs and gradients of one network, by key."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    network = build(name).double()
    randomize(network, generator)
    points, batch = N_POINTS.get(name) or math.prod(GRIDS[name]), 2
    coords = rounded(torch.rand(batch, points, 2, generator=generator)).requires_grad_()
    fields = times = None
    if name in N_FIELDS:
        fields = rounded(torch.randn(batch, points, N_FIELDS[name], generator=generator)).requires_grad_()
    if name == "plasticity":
        times = rounded(torch.rand(batch, 1, generator=generator))
    with official_on_cpu(double=True):
        if name in ("darcy", "navier_stokes"):
            outputs = network(coords, fields).unsqueeze(-1)
        else:
            outputs = network(coords, fields) if times is None else network(coords, fields, T=times)
        target = rounded(torch.randn(outputs.shape, generator=generator))
        ((outputs - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)).sum().backward()
    small = {"coords": coords, "fields": fields, "times": times, "target": target}
    small |= {f"weight/{key}": held for key, held in network.named_parameters()}
    exact = {"outputs": outputs, "gradient/coords": coords.grad}
    exact |= {"gradient/fields": None if fields is None else fields.grad}
    exact |= {f"gradient/weight/{key}": held.grad for key, held in network.named_parameters()}
    return {f"{name}/small": packed(small, np.float16), f"{name}/exact": packed(exact, np.float64)}


def packed(group, kind):
    """Arrays of a group as one, with their names and shapes."""
    held = {key: values.detach().numpy() for key, values in group.items() if values is not None}
    flat = np.concatenate([values.ravel() for values in held.values()])
    assert np.array_equal(flat.astype(kind), flat)
    return flat.astype(kind), json.dumps({key: values.shape for key, values in held.items()})


def main():
    torch.set_num_threads(1)
    sys.path.insert(0, sys.argv[1])
    install_stand_ins()
    shrink()
    found = {}
    for name in ("darcy", "navier_stokes", "elasticity", "plasticity", "airfoil", "pipe"):
        for key, (flat, shapes) in record(name).items():
            found |= {key: flat, f"{key}/shapes": shapes}
    np.savez_compressed(TARGET, **found)
    print(f"{len(found)} arrays, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
