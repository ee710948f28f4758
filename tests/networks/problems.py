"""Small patch networks in float64 and inputs for them, which the tests of this folder share."""

import math
from dataclasses import replace
from functools import partial

import torch

from skop import parts
from skop.data import unit_grid
from skop.networks import AMOPatchNetwork, GeoMaNONetwork, LaMOPatchNetwork
from skop.parts import (
    GNOT,
    Attention,
    GalerkinTransformer,
    GeometricScan,
    GridSSD,
    Hydra,
    LatentAttention,
    LatentTokens,
    Mamba,
    Mixer,
    OFormer,
    Patches,
    RotaryAttention,
    TakenakaMalmquist,
)

#: Keywords of the networks that the tests of this folder start from.
LAMO_GRID = {
    "width": 8, "depth": 1, "mlp_ratio": 4.0, "patches": Patches(size=2, conv_channels=0),
    "scan": GridSSD(d_state=2, path_weights="own", decay_range=(1.0, 1.0)),
}  # fmt: skip
GEOMANO = {
    "width": 6, "depth": 1, "mlp_ratio": 4.0, "patches": Patches(size=2, conv_channels=0, lifting_width=5),
    "mixer": GeometricScan(
        recurrence="grid", direction_order="vmamba", correction=None, activation="silu", separate_gate=False,
        activate_output=True, step_range=(0.2, 1.0), decay_range=None,
    ),
}  # fmt: skip
LAMO_POINTS = {
    "width": 8, "depth": 2, "mlp_ratio": 1.0, "structured": False, "mixer": Hydra(d_state=2, n_heads=2),
    "latents": LatentTokens(n_tokens=3, n_heads=2, n_centred_heads=0, n_frequencies=0, weight_init="trunc_normal"),
}  # fmt: skip
POLES = TakenakaMalmquist(n_poles=3, d_state=2, max_radius=0.9)
AMO_GRID = {
    "width": 8, "depth": 1, "mlp_ratio": 2.0, "patches": Patches(size=2, conv_channels=0),
    "mixer": replace(POLES, scan_directions="cross"),
}  # fmt: skip
AMO_POINTS = {
    "width": 8, "depth": 2, "mlp_ratio": 2.0, "mixer": POLES,
    "latents": LatentAttention(n_tokens=6, n_heads=2, n_centred_heads=0, n_frequencies=0),
}  # fmt: skip

#: Heads of attention, which OFormer has one of.
HEADS = {"gnot": 2, "galerkin": 2, "oformer": 1}
ROTARY = {"query_heads": 2, "rotary_scales": (8.0, 4.0), "query_rotary_scale": 8.0}
PLACE = {"kernel_size": 1, "n_frequencies": 1}
MNO = {
    "gnot": {"mlp_ratio": 2, "host": GNOT(mlp_depth=1, n_experts=2, branches="parts", **PLACE)},
    "galerkin": {"mlp_ratio": 1, "host": GalerkinTransformer(decoder="pointwise", decoder_width=6, n_modes=3, **PLACE)},
    "oformer": {"mlp_ratio": 1, "host": OFormer(
        latent_width=8, residual="normalized", n_fourier=4, propagator_width=12, propagator_depth=2, **PLACE,
    )},
}  # fmt: skip

#: A mixer of each class that fits any network, and of each kind of attention.
MIXERS = [
    kind()
    for kind in vars(parts).values()
    if isinstance(kind, type) and issubclass(kind, Mixer) and kind not in (Mixer, RotaryAttention)
] + [Attention(kind=kind) for kind in Attention.kind_of_attention]


def mno_mixer(host, mixer):
    """One of the three mixers by its word; parts stay as they are."""
    if not isinstance(mixer, str):
        return mixer
    if mixer == "mamba":
        return Mamba(d_state=2)
    kind, rotary = (RotaryAttention, ROTARY) if host == "oformer" else (Attention, {})
    return kind(kind=mixer, n_heads=HEADS[host], **rotary)


def changed(keywords, changes):
    """Keywords with changes, those of a part by names such as ``patches__size``."""
    for name, value in changes.items():
        part, _, inner = name.partition("__")
        keywords = keywords | {part: replace(keywords[part], **{inner: value}) if inner else value}
    return keywords


def make_patches(kind, sizes, grid, *, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, seed=0, dtype=torch.float64,
                 **changes):  # fmt: skip
    torch.manual_seed(seed)
    data = {"n_dims": len(grid), "n_fields": n_fields, "n_params": n_params, "grid_shape": grid}
    data |= {"n_outputs": n_outputs, "n_scalars": n_scalars}
    return kind(**data, **changed(sizes, changes)).to(dtype).eval()


make_lamo = partial(make_patches, LaMOPatchNetwork, LAMO_GRID)
make_amo = partial(make_patches, AMOPatchNetwork, AMO_GRID)
make_geomano = partial(make_patches, GeoMaNONetwork, GEOMANO)


def coords_of(grid):
    return torch.from_numpy(unit_grid(grid))


def fields_on(grid, batch=2, channels=1):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, math.prod(grid), channels, generator=generator, dtype=torch.float64)
