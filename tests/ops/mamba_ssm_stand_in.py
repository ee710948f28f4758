"""What the tests of mamba_ssm's kernels share: functions in their place, and problems.

Where there is no GPU, functions with the published layouts and limits stand in for those of mamba_ssm: like
them they have first derivatives only, without a word about others, and no gradient of the last state of S6.
"""

import sys
from types import ModuleType

import torch
from torch.nn.functional import softplus

from skop.ops import _dispatch, record_backends, selective_scan, ssd_scan

CACHES = (_dispatch._problem, _dispatch._kernels, _dispatch._warn_once)
S6_MODULE, SSD_MODULE = "mamba_ssm.ops.selective_scan_interface", "mamba_ssm.ops.triton.ssd_combined"


def plain_s6(u, delta, A, B, C, D, delta_bias, delta_softplus):
    """Selective scan of u, delta (b, D, L) with A (D, N), B, C (b, G, N, L)."""
    if delta_bias is not None:
        delta = delta + delta_bias[:, None]
    steps = softplus(delta) if delta_softplus else delta
    share = len(A) // B.shape[1]
    maps_in, maps_out = (values.repeat_interleave(share, 1) for values in (B, C))
    state, outputs = u.new_zeros(len(u), *A.shape), []
    for t in range(u.shape[2]):
        step = steps[:, :, t, None]
        state = torch.exp(step * A) * state + step * maps_in[..., t] * u[:, :, t, None]
        outputs.append((state * maps_out[..., t]).sum(-1))
    y = torch.stack(outputs, 2)
    return (y if D is None else y + D[:, None] * u), state


def plain_ssd(x, dt, A, B, C, D, initial_states, dt_limit):
    """State-space-dual scan of x (b, l, h, p), dt (b, l, h) with A (h,), B, C (b, l, g, n)."""
    steps = dt.clamp(*dt_limit)
    share = len(A) // B.shape[2]
    maps_in, maps_out = (values.repeat_interleave(share, 2) for values in (B.to(dt.dtype), C.to(dt.dtype)))
    inputs = x.to(dt.dtype)
    state = dt.new_zeros(*x[:, 0].shape, B.shape[3]) if initial_states is None else initial_states
    outputs = []
    for t in range(x.shape[1]):
        step = steps[:, t, :, None, None]
        state = torch.exp(step * A[:, None, None]) * state + step * inputs[:, t, ..., None] * maps_in[:, t, :, None]
        outputs.append((state * maps_out[:, t, :, None]).sum(-1))
    y = torch.stack(outputs, 1)
    if D is not None:
        y = y + (D if D.ndim == 2 else D[:, None]) * inputs
    return y.to(x.dtype), state


def first_derivatives(ctx, function, *grads):
    """Gradients of what was saved, with no graph: what a backward pass by a kernel gives."""
    leaves = [None if value is None else value.detach().requires_grad_() for value in ctx.saved_tensors[1:]]
    with torch.enable_grad():
        outputs = [value for value, grad in zip(function(*leaves), grads, strict=True) if grad is not None]
    sources = [value for value in leaves if value is not None]
    cotangents = [grad for grad in grads if grad is not None]
    with torch.no_grad():
        found = iter(torch.autograd.grad(outputs, sources, cotangents))
        return [None if value is None else next(found) for value in leaves]


class S6(torch.autograd.Function):
    """Selective scan with the gradients of y only."""

    @staticmethod
    def forward(ctx, u, delta, A, B, C, D, z, delta_bias, delta_softplus, return_last_state):
        y, state = plain_s6(u, delta, A, B, C, D, delta_bias, delta_softplus)
        ctx.save_for_backward(y, u, delta, A, B, C, D, delta_bias)
        ctx.softplus = delta_softplus
        return (y, state) if return_last_state else y

    @staticmethod
    def backward(ctx, grad, *ignored):
        *results, bias = first_derivatives(ctx, lambda *given: plain_s6(*given, ctx.softplus)[:1], grad)
        return (*results, None, bias, None, None)


def selective_scan_fn(
    u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False, return_last_state=False
):
    """Published: u, delta (b, D, L), A (D, N), B, C (b, G, N, L), D, delta_bias (D,); one dtype for all with tokens."""
    batch, channels, length = u.shape
    groups, states = B.shape[1:3]
    assert z is None
    assert (delta.shape, A.shape, channels % groups) == (u.shape, (channels, states), 0)
    assert B.shape == C.shape == (batch, groups, states, length)
    assert states <= 256
    assert delta.dtype == B.dtype == C.dtype == u.dtype
    wide = torch.promote_types(u.dtype, torch.float32)
    assert A.dtype == wide
    assert all(value is None or (value.shape, value.dtype) == ((channels,), wide) for value in (D, delta_bias))
    return S6.apply(u, delta, A, B, C, D, z, delta_bias, delta_softplus, return_last_state)


class SSD(torch.autograd.Function):
    """State-space-dual scan that keeps its y, as a gate would need it."""

    @staticmethod
    def forward(ctx, x, dt, A, B, C, D, initial_states, dt_limit):
        y, state = plain_ssd(x, dt, A, B, C, D, initial_states, dt_limit)
        ctx.save_for_backward(y, x, dt, A, B, C, D, initial_states)
        ctx.limit = dt_limit
        return y, state

    @staticmethod
    def backward(ctx, *grads):
        return (*first_derivatives(ctx, lambda *given: plain_ssd(*given, ctx.limit), *grads), None)


def mamba_chunk_scan_combined(
    x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None, initial_states=None, seq_idx=None, cu_seqlens=None,
    dt_softplus=False, dt_limit=(0.0, float("inf")), return_final_states=False,
):  # fmt: skip
    """Published: x (b, l, h, p), dt (b, l, h), A (h,), B, C (b, l, g, n), D (h,) or (h, p), states (b, h, p, n)."""
    batch, length, heads, channels = x.shape
    assert chunk_size in (64, 128, 256)
    assert not any((z, dt_bias, seq_idx, cu_seqlens, dt_softplus))
    assert (dt.shape, A.shape, heads % B.shape[2]) == ((batch, length, heads), (heads,), 0)
    assert B.shape == C.shape == (batch, length, *B.shape[2:])
    assert B.dtype == C.dtype == x.dtype
    assert D is None or D.shape in ((heads,), (heads, channels))
    assert initial_states is None or initial_states.shape == (batch, heads, channels, B.shape[3])
    y, state = SSD.apply(x, dt, A, B, C, D, initial_states, dt_limit)
    return (y, state) if return_final_states else y


def put(monkeypatch, s6=selective_scan_fn, ssd=mamba_chunk_scan_combined):
    """Let functions be imported from mamba_ssm."""
    package, one, other = (ModuleType(name) for name in ("mamba_ssm", S6_MODULE, SSD_MODULE))
    one.selective_scan_fn, other.mamba_chunk_scan_combined = s6, ssd
    for module in (package, one, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def forget():
    """Let everything be checked once more."""
    for cached in CACHES:
        cached.cache_clear()


def allow(monkeypatch):
    """Let mamba_ssm be asked for on CPUs."""
    monkeypatch.setattr(_dispatch, "_DEVICES", _dispatch._DEVICES | {"mamba_ssm": "cpu"})


def weights(value):
    """Cotangent that differs from place to place."""
    return torch.arange(1, value.numel() + 1).cos().view_as(value).to(value.dtype)


def normal(*shape, seed=0):
    """Random numbers in float64."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


def public_problems(dtype=torch.float32, length=30):
    """The public scans with everything that mamba_ssm takes, as functions of the backend and leaves."""
    mask = torch.ones(2, length, dtype=torch.bool)
    mask[1, length - 7 :] = False

    def some(*shape, seed=0):
        return normal(*shape, seed=seed).to(dtype).requires_grad_()

    def rates(*shape):
        return (-normal(*shape).exp()).float().requires_grad_()

    def parameters(*shape):
        return normal(*shape, seed=7).float().requires_grad_()

    x, maps, both = some(2, length, 4), [some(2, length, 2, 3, seed=s) for s in (1, 2)], {"reverse": (False, True)}
    dt, wide = some(2, length, 4, seed=5), some(2, length, 2, 4, seed=5)
    paths = torch.stack([torch.randperm(length), torch.arange(length)])
    heads, steps = some(2, length, 4, 5), some(2, length, 4, seed=6)
    skip = {"dt_bias": parameters(4), "R": parameters(4, 3)}
    path_skip = {"dt_bias": parameters(2, 4), "R": parameters(2, 4, 3)}

    def s6(backend, *values):
        given = values[:6]
        options = {"dt_bias": values[6], "R": values[7], "mask": mask, "dt_softplus": True, "backend": backend}
        return selective_scan(*given, **options, **both, return_final_state=True)

    def s6_paths(backend, *values):
        options = {"dt_bias": values[6], "R": values[7], "mask": mask, "dt_softplus": True, "backend": backend}
        return (selective_scan(*values[:6], **options, paths=paths),)

    def ssd(backend, x, dt, A, B, C, D, start):
        options = {"mask": mask, "backend": backend, "return_final_state": True, "initial_state": start}
        return ssd_scan(x, softplus(dt), A, B, C, D, **options, **both)

    def ssd_paths(backend, x, dt, *values):
        return (ssd_scan(x, softplus(dt), *values, paths=paths, backend=backend),)

    return {
        "s6": (s6, [x, dt, rates(4, 3), *maps, parameters(4), *skip.values()]),
        "s6 paths": (s6_paths, [x, wide, rates(2, 4, 3), *maps, parameters(2, 4), *path_skip.values()]),
        "ssd": (ssd, [heads, steps, rates(4), *maps, parameters(4), parameters(2, 4, 5, 3)]),
        "ssd paths": (ssd_paths, [heads, wide, rates(2, 4), *maps, parameters(2, 4, 5)]),
    }


def run(scan, backend, leaves):
    """Outputs and gradients, and what ran."""
    with record_backends() as used:
        outputs = scan(backend, *leaves)
    return [*outputs, *torch.autograd.grad(outputs, leaves, [weights(value) for value in outputs])], used
