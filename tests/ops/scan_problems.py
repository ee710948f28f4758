"""Problems of all scans, and what they are to give: the definitions, one number at a time."""

from itertools import product

import numpy as np
import torch
from torch.nn.functional import softplus

from skop.ops import _selective, selective_scan, selective_scan_2d, selective_scan_3d, ssd_scan
from skop.ops.selective_scan._naive import selective_scan_naive
from skop.ops.selective_scan_2d._naive import selective_scan_2d_naive
from skop.ops.ssd_scan import _operation

TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
#: Arguments with an axis, or axes, of tokens.
TOKENS = ("x", "dt", "B", "C")
#: Axes of the arguments of each scan: b samples, t tokens, k paths or directions, g groups, c channels, h heads, p
#: channels of a head, n states.
AXES = {
    "sequence": "x:btc dt:btc A:cn B:btgn C:btgn D:c dt_bias:c R:cn initial_state:bcn",
    "paths": "x:btc dt:btkc A:kcn B:btkn C:btkn D:kc dt_bias:kc R:kcn initial_state:bkcn",
    "heads": "x:bthp dt:bth A:h B:btgn C:btgn D:hp initial_state:bhpn",
    "head_paths": "x:bthp dt:btkh A:kh B:btkn C:btkn D:khp initial_state:bkhpn",
    "head_pairs": "x:bthp dt:btkh A:kh B:btkn C:btkn D:khp",
    "plane": "x:btc dt:btkc A:kcn B:btkn C:btkn D:kc dt_bias:kc R:kcn",
    "space": "x:btc dt:btkc A:kcn B:btkn C:btkn D:kc dt_bias:kc R:kcn",
}
FUNCTIONS = {
    "sequence": selective_scan,
    "paths": selective_scan,
    "plane": selective_scan_2d,
    "space": selective_scan_3d,
}
GRIDS = ("plane", "space")
WITH_STATE = ("sequence", "paths", "heads", "head_paths")
#: Tokens of a small problem, and directions of grids.
SMALL = {"plane": (4, 3), "space": (3, 2, 4)}
DIRECTIONS = {"plane": ((2, 1), (-1, 2), (-2, -1)), "space": ((3, 2, 1), (-1, -2, 3), (2, -3, 1))}
#: All scans with the forms that are compared with their reference, "naive".
FORMS = [(name, backend) for name in AXES for backend in ("torch", "numba") if (name, backend) != ("space", "numba")]
FORMS.remove(("head_pairs", "numba"))  # whose kernel is that of any paths


def names_of(scan):
    """Names of the arguments of a scan that have gradients."""
    return [part.split(":")[0] for part in AXES[scan].split()]


def make(scan, *tokens, without=(), seed=0, dtype=torch.float64, **sizes):
    """Random arguments by name, leaves that need gradients, and the order in which a scan visits the tokens."""
    generator = torch.Generator().manual_seed(seed)
    tokens = tokens or SMALL.get(scan, (13,))
    lengths = {"b": 2, "c": 4, "g": 2, "k": 4 if scan == "head_pairs" else 3, "h": 4, "p": 3, "n": 3} | sizes
    values = {}
    for part in AXES[scan].split():
        name, letters = part.split(":")
        shape = [size for letter in letters for size in (tokens if letter == "t" else (lengths[letter],))]
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name == "A":
            drawn = -0.1 - softplus(drawn)
        elif name == "R":
            drawn = drawn.sigmoid()
        elif name == "dt" and scan.startswith("head"):
            drawn = softplus(drawn)
        values[name] = None if name in without else drawn.to(dtype).requires_grad_()
    return values, order_of(scan, tokens, lengths, generator)


def order_of(scan, tokens, lengths, generator):
    """Directions of the groups, random paths, paths with their reverses, or directions over a grid."""
    if scan in ("sequence", "heads"):
        return {"reverse": tuple(bool(group % 2) for group in range(lengths["g"]))}
    if scan in GRIDS:
        return {"directions": (DIRECTIONS[scan] * 2)[: lengths["k"]]}
    paths = [torch.randperm(*tokens, generator=generator) for _ in range(lengths["k"])]
    if scan == "head_pairs":
        paths = [path for ahead in paths[: len(paths) // 2] for path in (ahead, ahead.flip(0))]
    return {"paths": torch.stack(paths)}


def run(scan, values, backend, **options):
    """Outputs of a scan: y, and the final state if there is one. Selective scans take the softplus of the steps."""
    if scan in WITH_STATE:
        options = {"return_final_state": True} | options
    if not scan.startswith("head"):
        options = {"dt_softplus": True} | options
    found = FUNCTIONS.get(scan, ssd_scan)(**values, **options, backend=backend)
    return found if isinstance(found, tuple) else (found,)


def gradients(values, outputs, seed=1):
    """Gradients of all tensors for random cotangents of the outputs."""
    generator = torch.Generator().manual_seed(seed)
    cotangents = [torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype) for out in outputs]
    return torch.autograd.grad(outputs, [value for value in values.values() if value is not None], cotangents)


def relative_errors(found, expected):
    """Relative errors in the norm; of nothing expected, the value itself counts as infinitely wrong."""
    pairs = [(value.double(), true.double()) for value, true in zip(found, expected, strict=True)]
    return [((value - true).norm() / true.norm().clamp_min(1e-300)).item() for value, true in pairs]


def holes(*tokens, batch=2):
    """Mask with padding at the end of one sample, at the start of another, and holes inside."""
    mask = torch.ones(batch, *tokens, dtype=torch.bool)
    flat = mask.view(batch, -1)
    flat[0, flat.shape[1] - flat.shape[1] // 3 :] = False
    flat[-1, : flat.shape[1] // 5] = False
    flat[:, 1::4] = False
    return mask


def defined(scan, values, mask, reverse=(), paths=None, directions=()):
    """Outputs by the definition, from NumPy's arithmetic with single numbers."""
    given = {name: value.detach().numpy() for name, value in values.items()}
    if scan in GRIDS:
        return (torch.from_numpy(over_grid(**given, directions=directions, mask=mask.numpy())),)
    length, shapes = given["x"].shape[1], {name: value.shape for name, value in given.items()}
    if scan.startswith("head"):  # heads are channels that share their steps and decays
        width, states = given["x"].shape[-1], given["B"].shape[-1]
        given["x"] = given["x"].reshape(*given["x"].shape[:2], -1)
        given["dt"] = np.log(np.expm1(np.repeat(given["dt"], width, axis=-1)))  # of which the softplus is taken
        given["A"] = np.repeat(np.repeat(given["A"], width, axis=-1)[..., None], states, axis=-1)
        given["D"] = given["D"].reshape(*given["D"].shape[:-2], -1)
        start = given.get("initial_state", np.zeros((*shapes["dt"][:1], *shapes["dt"][2:], width, states)))
        given["initial_state"] = start.reshape(*start.shape[:-3], -1, states)
    if paths is None:  # groups are paths with channels of their own
        groups = len(reverse)
        orders = [range(length)[:: -1 if backwards else 1] for backwards in reverse]
        for name, axis in {"x": 2, "dt": 2, "A": 0, "D": 0, "dt_bias": 0, "R": 0, "initial_state": 1}.items():
            if name in given:
                shape = given[name].shape
                given[name] = given[name].reshape(*shape[:axis], groups, -1, *shape[axis + 1 :])
    else:
        orders, given["x"] = paths.tolist(), np.repeat(given["x"][:, :, None], len(paths), axis=2)
    y, final = along_paths(**given, orders=orders, mask=mask.numpy())
    y = y if paths is None else y.sum(2)
    state_shape = shapes.get("initial_state", final.shape)
    outputs = [torch.from_numpy(y.reshape(shapes["x"])), torch.from_numpy(final.reshape(state_shape))]
    return outputs if scan in WITH_STATE else outputs[:1]


def along_paths(x, dt, A, B, C, D, initial_state, orders, mask, dt_bias=None, R=None):
    """Outputs (b, t, k, c) and final states (b, k, c, n) of all paths."""
    y, final = D * x * mask[..., None, None], np.zeros_like(initial_state)
    for b, k, c, n in np.ndindex(*initial_state.shape):
        state = initial_state[b, k, c, n]
        for t in orders[k]:
            if mask[b, t]:
                step = np.log(1 + np.exp(dt[b, t, k, c] + (0 if dt_bias is None else dt_bias[k, c])))
                update = step * B[b, t, k, n] * x[b, t, k, c]
                state = np.exp(step * A[k, c, n]) * state + update
                y[b, t, k, c] += C[b, t, k, n] * (state - (0 if R is None else R[k, c, n]) * update)
        final[b, k, c, n] = state
    return y, final


def steps_along(direction):
    """Unit steps of the passes, in the order of the axes of the grid."""
    return [np.sign(axis) * np.eye(len(direction), dtype=int)[abs(axis) - 1] for axis in direction]


def over_grid(x, dt, A, B, C, D, dt_bias, R, directions, mask):
    """Outputs over a grid: every pass adds the neighbour's own pass to what the pass before gave."""
    grid, y = x.shape[1:-1], D.sum(0) * x * mask[..., None]
    for b, k, c, n in np.ndindex(len(x), *A.shape):
        steps = steps_along(directions[k])
        passes = np.zeros((len(grid), *(size + 2 for size in grid)))  # with a frame of zeros around the grid
        signs = {abs(axis): np.sign(axis) for axis in directions[k]}
        for cell in product(*(range(size)[:: signs[axis]] for axis, size in enumerate(grid, start=1))):
            place, real = np.add(cell, 1), mask[(b, *cell)]
            step = np.log(1 + np.exp(dt[(b, *cell, k, c)] + dt_bias[k, c])) if real else 0.0
            update = step * B[(b, *cell, k, n)] * x[(b, *cell, c)] if real else 0.0
            value = update
            for p in range(len(grid)):
                value = np.exp(step * A[k, c, n]) * passes[(p, *(place - steps[p]))] + value
                passes[(p, *place)] = value
            if real:
                y[(b, *cell, c)] += C[(b, *cell, k, n)] * (value - R[k, c, n] * update)
    return y


# -- What kernels take -----------------------------------------------------------------------------------------------

NAIVE = {
    "selective_scan": selective_scan_naive,
    "selective_scan_2d": selective_scan_2d_naive,
    "ssd_scan": _operation.path_scan_naive,
}
#: Axes of the arguments: s is 1 or the paths, m the paths or 1, q the channels of a head or 1; else as above.
CORE_AXES = {
    "selective_scan": "x:btsc dt:btkc A:kcn B:btkn C:btkn D:kc dt_bias:kc R:kcn initial_state:bkcn",
    "selective_scan_2d": "x:btsc dt:btkc A:kcn B:btkn C:btkn D:kc dt_bias:kc R:kcn",
    "ssd_scan": "x:btshp dt:btkh A:kh B:btmn C:btmn D:khq initial_state:bkhpn",
}
OPTIONAL = ("D", "dt_bias", "R", "initial_state")
ALL_DIRECTIONS = tuple((s * a, t * (3 - a)) for a, s, t in product((1, 2), (1, -1), (1, -1)))


def core_problem(
    name, *tokens, b=2, k=2, c=18, h=3, p=17, n=3, shared=True, own_maps=True, activated=True, without=(), q=1
):
    """Arguments of a scan in float64, rounded to bfloat16 so that every precision holds them."""
    generator = torch.Generator().manual_seed(0)
    sizes = {"b": b, "k": k, "c": c, "h": h, "p": p, "n": n, "q": q}
    sizes |= {"s": 1 if shared or name == "selective_scan_2d" else k, "m": k if own_maps else 1}
    values = {}
    for part in CORE_AXES[name].split():
        key, letters = part.split(":")
        shape = [size for letter in letters for size in (tokens if letter == "t" else (sizes[letter],))]
        value = torch.randn(shape, generator=generator, dtype=torch.float64)
        if key == "dt" and (name == "ssd_scan" or not activated):
            value = softplus(value)
        value = -softplus(value) if key == "A" else value.sigmoid() if key == "R" else value
        values[key] = None if key in without or (key == "dt_bias" and not activated) else value.bfloat16().double()
    paths = torch.stack([torch.randperm(tokens[0], generator=generator) for _ in range(k)]).int()
    if name == "ssd_scan":
        return _operation.Arguments(**values, paths=paths)
    order = ALL_DIRECTIONS[:k] if name == "selective_scan_2d" else paths
    return _selective.Arguments(**({"initial_state": None} | values), order=order, softplus=activated)


def tensors(given):
    """Names and values of the arguments that have gradients."""
    return {key: value for key, value in given._asdict().items() if key in ("x", "dt", "A", "B", "C", *OPTIONAL)}


def cast(given, dtype):
    """Arguments in the precisions that kernels take them in."""
    wide = torch.promote_types(dtype, torch.float32)
    kinds = dict.fromkeys(("x", "B", "C"), dtype)
    values = tensors(given).items()
    return given._replace(**{key: None if value is None else value.to(kinds.get(key, wide)) for key, value in values})


def cotangents_of(outputs):
    """Cotangents of the outputs, rounded to bfloat16."""
    generator = torch.Generator().manual_seed(1)
    drawn = (None if out is None else torch.randn(out.shape, generator=generator) for out in outputs)
    return [
        None if out is None else value.bfloat16().double().to(out.device)
        for out, value in zip(outputs, drawn, strict=True)
    ]


def reference(name, given, final=True):
    """Outputs, and gradients of what is there, in float64 by autograd."""
    leaves = {k: None if v is None else v.detach().clone().requires_grad_() for k, v in tensors(given).items()}
    found = [out for out in NAIVE[name](given._replace(**leaves)) if out is not None]
    count = len(found) if final else 1
    grads = torch.autograd.grad(
        found[:count], [v for v in leaves.values() if v is not None], cotangents_of(found)[:count]
    )
    return [*(out.detach() for out in found), *grads]


def run_kernel(kernels, given, dtype=torch.float64, final=True, cotangents=None):
    """Outputs, and gradients of what is there, of kernels; dtypes and shapes must fit, too."""
    given = cast(given, dtype)
    y, end, kept = kernels.forward(given, True)
    grad_y, grad_end = cotangents or cotangents_of((y, end))
    grad_end = None if end is None or not final else grad_end.to(end)
    grads = kernels.backward(given, kept, grad_y.to(y), grad_end)
    held = list(tensors(given).values())
    assert y.dtype == given.x.dtype
    assert [value is None for value in grads[: len(held)]] == [value is None for value in held]
    found = [(value, grad) for value, grad in zip(held, grads, strict=False) if value is not None]
    for value, grad in found:
        assert (grad.dtype, grad.shape) == (value.dtype, value.shape)
    return [*(out for out in (y, end) if out is not None), *(grad for _, grad in found)]
