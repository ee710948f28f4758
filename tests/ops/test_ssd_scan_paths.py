"""The SSD scan along paths: every form against a loop over tokens in visiting order, values and gradients.

Notation as in `skop.ops.ssd_scan`: x input, dt step, A decay, B and C maps, D skip.
"""

import pytest
import torch

from skop.modules import direction_paths, direction_set
from skop.ops import ssd_scan
from skop.ops.ssd_scan._operation import Arguments, path_scan_torch
from skop.ops.ssd_scan._pairs import scan_pairs


def scan_paths(grid, name):
    """Paths of a named set of directions, each followed by its reverse."""
    return direction_paths(tuple(grid), direction_set(len(grid), name, "paper"))


NAMES = ("x", "dt", "A", "B", "C", "D")


def walk(x, dt, A, B, C, D, paths):
    """Token by token along each path, state by state: h = exp(dt A) h + dt x B, y = h C + D x."""
    batch, length, heads, head_dim = x.shape
    y = [[torch.zeros(heads, head_dim, dtype=x.dtype) for _ in range(length)] for _ in range(batch)]
    for sample in range(batch):
        for path, order in enumerate(paths.tolist()):
            maps = path if B.shape[2] > 1 else 0
            state = torch.zeros(heads, head_dim, B.shape[-1], dtype=x.dtype)
            for token in order:
                step = dt[sample, token, path]
                entry = torch.einsum("h,hp,n->hpn", step, x[sample, token], B[sample, token, maps])
                state = torch.exp(step * A[path])[:, None, None] * state + entry
                out = state @ C[sample, token, maps]
                if D is not None:
                    out = out + (D[path] if D.ndim == 3 else D[path][:, None]) * x[sample, token]
                y[sample][token] = y[sample][token] + out
    return torch.stack([torch.stack(tokens) for tokens in y])


def gathered(x, dt, A, B, C, D, paths):
    """The chunked form, which plain torch uses for long sequences and paths without their reverse."""
    skip = None if D is None else D.reshape(*A.shape, -1)
    return path_scan_torch(Arguments(x.unsqueeze(2), dt, A, B, C, skip, None, paths, chunk_size=4))[0].squeeze(2)


def pairs(x, dt, A, B, C, D, paths):
    """All pairs of tokens, which plain torch uses for few tokens."""
    y = scan_pairs(x, dt, A, B, C, paths)
    return y if D is None else y + D.reshape(*A.shape, -1).sum(0) * x


def by_name(backend):
    """The public function."""

    def scan(*arguments):
        *tensors, paths = arguments
        return ssd_scan(*tensors, paths=paths, backend=backend)

    return scan


FORMS = {name: by_name(name) for name in ("torch", "naive", "numba", None)} | {"gathered": gathered, "pairs": pairs}


def make_arguments(paths, *, batch=2, heads=2, head_dim=3, d_state=2, shared=False, direct="head", seed=0):
    """Random arguments in float64 for some paths."""
    generator = torch.Generator().manual_seed(seed)
    n_paths, length = paths.shape

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    maps = (batch, length, 1 if shared else n_paths, d_state)
    shapes = {None: None, "head": (n_paths, heads), "channel": (n_paths, heads, head_dim)}
    return [
        normal(batch, length, heads, head_dim),
        normal(batch, length, n_paths, heads).exp() / 3,
        -normal(n_paths, heads).exp(),
        normal(*maps),
        normal(*maps),
        None if direct is None else normal(*shapes[direct]),
    ]


def values_and_gradients(function, arguments, weight):
    """Output, and the gradient of its weighted sum by every argument."""
    leaves = [None if tensor is None else tensor.clone().requires_grad_() for tensor in arguments]
    y = function(*leaves)
    given = [leaf for leaf in leaves if leaf is not None]
    return [y, *torch.autograd.grad((y * weight).sum(), given)]


@pytest.mark.parametrize(("grid", "scan", "shared", "direct"), [
    ((5,), "forward", False, "head"),
    ((5,), "bidirectional", True, None),
    ((2, 3), "cross", False, "channel"),
    ((2, 3), "row_corners", True, "head"),
    ((2, 2, 2), "cross", True, "channel"),
    ((2, 2, 2), "row_corners", False, None),
    ((1, 1), "cross", False, "head"),
    ((1,), "cross", True, "channel"),
])  # fmt: skip
def test_all_forms_are_the_walk_along_the_paths(grid, scan, shared, direct):
    paths = scan_paths(grid, scan)
    arguments = make_arguments(paths, shared=shared, direct=direct)
    weight = torch.randn(arguments[0].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = values_and_gradients(lambda *given: walk(*given, paths), arguments, weight)
    for name, form in FORMS.items():
        if name == "pairs" and scan == "forward":
            continue
        found = values_and_gradients(lambda *given, form=form: form(*given, paths), arguments, weight)
        for ours, reference in zip(found, expected, strict=True):
            torch.testing.assert_close(
                ours, reference, rtol=1e-9, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}"
            )


def test_plain_torch_forms_all_pairs_up_to_128_tokens_only():
    for length, form in [(128, pairs), (129, None)]:
        paths = scan_paths((length,), "bidirectional")
        arguments = make_arguments(paths, batch=1, heads=1, head_dim=1)
        y = ssd_scan(*arguments, paths=paths, backend="torch")
        same = torch.equal(y, pairs(*arguments, paths))
        assert same == (form is pairs)
        torch.testing.assert_close(y, gathered(*arguments, paths), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", ["torch", "naive", "numba"])
def test_states_are_carried_from_one_part_of_the_paths_to_the_next(backend):
    """Two scans, of the tokens that the paths visit first and of the others, are one."""
    generator = torch.Generator().manual_seed(3)
    parts = [torch.rand(3, length, generator=generator).argsort(1) for length in (12, 8)]
    paths = torch.cat([parts[0], parts[1] + 12], dim=1)
    x, dt, A, B, C, D = make_arguments(paths)
    options, state, ys = {"backend": backend, "return_final_state": True}, None, []
    for part, order in zip((slice(0, 12), slice(12, 20)), parts, strict=True):
        given = x[:, part], dt[:, part], A, B[:, part], C[:, part], D
        y, state = ssd_scan(*given, paths=order, initial_state=state, **options)
        assert state.shape == (2, 3, 2, 3, 2)
        ys.append(y)
    whole = ssd_scan(x, dt, A, B, C, D, paths=paths, **options)
    torch.testing.assert_close((torch.cat(ys, dim=1), state), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", ["torch", "naive", "numba"])
@pytest.mark.parametrize("scan", ["bidirectional", "forward"])
def test_what_masked_tokens_hold_changes_nothing(backend, scan):
    paths = scan_paths((7,), scan)
    arguments, mask = make_arguments(paths, batch=1), torch.tensor([[True, False, True, True, False, True, True]])
    spoiled = [tensor.clone() for tensor in arguments]
    for place in (0, 1, 3, 4):
        spoiled[place][~mask] = torch.nan
    y = ssd_scan(*spoiled, paths=paths, mask=mask, backend=backend)
    kept = mask[0].nonzero().flatten()
    short = [tensor[:, kept] if place in (0, 1, 3, 4) else tensor for place, tensor in enumerate(arguments)]
    expected = walk(*short, scan_paths((5,), scan))
    torch.testing.assert_close(y[:, kept], expected, rtol=1e-9, atol=1e-10)
    assert (y[~mask] == 0).all()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("grid", [(2, 2), (1,)])
def test_first_and_second_derivatives_of_all_pairs(grid, shared):
    paths = scan_paths(grid, "cross")
    arguments = make_arguments(paths, batch=1, heads=1, head_dim=2, d_state=2, shared=shared)
    leaves = [tensor.requires_grad_() for tensor in arguments]

    def scan(*given):
        return pairs(*given, paths)

    assert torch.autograd.gradcheck(scan, leaves)
    assert torch.autograd.gradgradcheck(scan, leaves)


@pytest.mark.parametrize("shared", [False, True])
def test_derivatives_that_can_be_differentiated_equal_those_of_the_other_form(shared):
    paths = scan_paths((2, 2), "cross")
    leaves = [tensor.requires_grad_() for tensor in make_arguments(paths, shared=shared)]
    found = []
    for form in (pairs, gathered):
        grads = torch.autograd.grad(form(*leaves, paths).sin().sum(), leaves, create_graph=True)
        total = sum(grad.square().sum() for grad in grads)
        found.append([*grads, *torch.autograd.grad(total, leaves)])
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-10)


def test_one_argument_alone_may_want_a_gradient():
    paths = scan_paths((2, 2), "row_corners")
    for place in range(len(NAMES)):
        arguments = make_arguments(paths)
        leaf = arguments[place].requires_grad_()
        gradients = [torch.autograd.grad(form(*arguments, paths).sin().sum(), leaf)[0] for form in (pairs, gathered)]
        torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_that_is_forgotten_at_once_leaves_the_own_token(dtype):
    paths = scan_paths((5, 5), "cross")
    x, dt, A, B, C, D = make_arguments(paths)
    given = [tensor.to(dtype).requires_grad_() for tensor in (x, torch.ones_like(dt), torch.full_like(A, -50), B, C, D)]
    y = pairs(*given, paths)
    own = (B * C).sum(-1).sum(2)[..., None] + D.sum(0)
    torch.testing.assert_close(y, (own[..., None] * x).to(dtype), rtol=1e-5, atol=1e-5)
    for gradient in torch.autograd.grad(y.square().sum(), given):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-30])
def test_vanishing_steps_give_the_direct_term_and_finite_gradients(size):
    paths = scan_paths((3, 3), "cross")
    x, dt, A, B, C, D = (tensor.float() for tensor in make_arguments(paths))
    given = [tensor.requires_grad_() for tensor in (x, torch.full_like(dt, size), A, B, C, D)]
    y = pairs(*given, paths)
    torch.testing.assert_close(y, D.sum(0)[..., None] * x)
    for gradient in torch.autograd.grad(y.square().sum(), given):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("backend", ["torch", pytest.param("numba", marks=pytest.mark.exhaustive)])
def test_half_precision_is_rounded_once_at_the_end(backend):
    paths = scan_paths((6, 6), "cross")
    halves = [tensor.bfloat16() for tensor in make_arguments(paths)]
    y = ssd_scan(*halves, paths=paths, backend=backend)
    assert y.dtype == torch.bfloat16
    exact = ssd_scan(*(tensor.double() for tensor in halves), paths=paths, backend="naive")
    # Half a unit in the last of bfloat16's eight digits, and no more for the sums.
    torch.testing.assert_close(y.double(), exact, rtol=2**-8, atol=1e-4)


@pytest.mark.parametrize("backend", ["torch", "numba", None])
def test_autocast_does_not_touch_the_recurrence(backend):
    paths = scan_paths((4, 4), "cross")
    given = [tensor.float() for tensor in make_arguments(paths)]
    plain = ssd_scan(*given, paths=paths, backend=backend)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = ssd_scan(*given, paths=paths, backend=backend)
    assert cast.dtype == torch.float32
    torch.testing.assert_close(cast, plain, rtol=0, atol=0)


def test_the_sum_of_two_sets_of_paths_is_the_sum_of_their_outputs():
    paths = scan_paths((3, 4), "cross")
    x, dt, A, B, C, D = make_arguments(paths)
    halves = [
        ssd_scan(x, dt[:, :, part], A[part], B[:, :, part], C[:, :, part], D[part], paths=paths[part])
        for part in (slice(0, 2), slice(2, 4))
    ]
    torch.testing.assert_close(ssd_scan(x, dt, A, B, C, D, paths=paths), sum(halves))


@pytest.mark.parametrize("order", [[[0, 1, 2]], [[0, 1, 2], [0, 1, 2]], [[0, 1, 2], [2, 1, 0], [1, 0, 2]]])
def test_paths_without_their_reverse_are_gathered(order):
    paths = torch.tensor(order)
    arguments = make_arguments(paths)
    torch.testing.assert_close(ssd_scan(*arguments, paths=paths, backend="torch"), walk(*arguments, paths))


def test_errors_name_the_argument():
    paths = scan_paths((4,), "bidirectional")
    given = dict(zip(NAMES, make_arguments(paths), strict=True)) | {"paths": paths}
    for name in ("dt", "A", "B", "C", "D", "paths"):
        value = given[name][..., :-1] if name != "B" else given[name][:, :-1]
        with pytest.raises(ValueError, match=rf"^{name} has shape"):
            ssd_scan(**(given | {name: value}))
    for change, message in [
        ({"backend": "fastest"}, "backend is 'fastest'"),
        ({"reverse": True}, "reverse is True; with paths expected False: add the reversed path"),
        ({"chunk_size": 0}, "chunk_size is 0"),
        ({"initial_state": torch.ones(2, 2, 3, 2)}, r"initial_state has shape .* = \(2, 2, 2, 3, 2\)"),
        ({"mask": torch.ones(2, 4)}, "mask has dtype torch.float32"),
    ]:
        with pytest.raises(ValueError, match=message):
            ssd_scan(**(given | change))
