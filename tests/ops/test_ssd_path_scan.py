"""The sum over scan paths: every form against a loop over tokens in visiting order, values and gradients.

Letters as in `skop.ops.ssd_path_scan`: x input, dt step, A decay, B and C maps, D direct term.
"""

import pytest
import torch

from skop.modules import scan_paths
from skop.ops import ssd_path_scan
from skop.ops.ssd_path_scan import _PAIRS_TOKENS

GRIDS = [(5,), (2, 3), (2, 2, 2)]
SCANS = ["unidirectional", "bidirectional", "multidirectional", "corner"]
NAMES = ("x", "dt", "A", "B", "C", "D")


@pytest.fixture(autouse=True, params=["torch", "numba"])
def default_backend(request, monkeypatch):
    """What runs where a test names no backend."""
    monkeypatch.setenv("SKOP_BACKEND", request.param)
    return request.param


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


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize(("shared", "direct"), [(False, "head"), (True, "channel"), (False, None)])
def test_all_forms_are_the_walk_along_the_paths(grid, scan, shared, direct):
    paths = scan_paths(grid, scan)
    arguments = make_arguments(paths, shared=shared, direct=direct)
    weight = torch.randn(arguments[0].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = values_and_gradients(lambda *given: walk(*given, paths), arguments, weight)
    backends = ["torch", "naive", None] + (["pairs"] if scan != "unidirectional" else [])
    for backend in backends:
        found = values_and_gradients(
            lambda *given, backend=backend: ssd_path_scan(*given, paths=paths, backend=backend), arguments, weight
        )
        for ours, reference in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, reference, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("backend", ["pairs", "torch", "naive"])
def test_a_single_token_meets_every_path_once(backend):
    paths = scan_paths((1, 1), "multidirectional")
    x, dt, A, B, C, D = make_arguments(paths)
    own = (dt * (B * C).sum(-1, keepdim=True)).sum(2) + D.sum(0)
    torch.testing.assert_close(ssd_path_scan(x, dt, A, B, C, D, paths=paths, backend=backend), own[..., None] * x)


def test_long_sequences_are_gathered_and_agree_with_all_pairs(default_backend):
    paths = scan_paths((_PAIRS_TOKENS + 2,), "bidirectional")
    arguments = make_arguments(paths, batch=1, heads=1, head_dim=1)
    chosen = ssd_path_scan(*arguments, paths=paths)
    assert torch.equal(chosen, ssd_path_scan(*arguments, paths=paths, backend=default_backend))
    torch.testing.assert_close(chosen, ssd_path_scan(*arguments, paths=paths, backend="pairs"), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shared", [False, True])
def test_first_and_second_derivatives_of_all_pairs(shared):
    paths = scan_paths((2, 2), "multidirectional")
    arguments = make_arguments(paths, batch=1, heads=1, head_dim=2, d_state=2, shared=shared)
    leaves = [tensor.requires_grad_() for tensor in arguments]

    def scan(*given):
        return ssd_path_scan(*given, paths=paths, backend="pairs")

    assert torch.autograd.gradcheck(scan, leaves)
    assert torch.autograd.gradgradcheck(scan, leaves)


@pytest.mark.parametrize("name", NAMES)
def test_one_argument_alone_may_want_a_gradient(name):
    paths = scan_paths((2, 2), "corner")
    arguments = make_arguments(paths)
    leaf = arguments[NAMES.index(name)].requires_grad_()
    gradients = [
        torch.autograd.grad(ssd_path_scan(*arguments, paths=paths, backend=backend).sin().sum(), leaf)[0]
        for backend in ("pairs", "naive")
    ]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_that_is_forgotten_at_once_leaves_the_own_token(dtype):
    paths = scan_paths((5, 5), "multidirectional")
    x, dt, A, B, C, D = make_arguments(paths)
    given = [tensor.to(dtype).requires_grad_() for tensor in (x, torch.ones_like(dt), torch.full_like(A, -50), B, C, D)]
    y = ssd_path_scan(*given, paths=paths, backend="pairs")
    own = (B * C).sum(-1).sum(2)[..., None] + D.sum(0)
    torch.testing.assert_close(y, (own[..., None] * x).to(dtype), rtol=1e-5, atol=1e-5)
    for gradient in torch.autograd.grad(y.square().sum(), given):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-30])
def test_vanishing_steps_give_the_direct_term_and_finite_gradients(size):
    paths = scan_paths((3, 3), "multidirectional")
    x, dt, A, B, C, D = (tensor.float() for tensor in make_arguments(paths))
    given = [tensor.requires_grad_() for tensor in (x, torch.full_like(dt, size), A, B, C, D)]
    y = ssd_path_scan(*given, paths=paths, backend="pairs")
    torch.testing.assert_close(y, D.sum(0)[..., None] * x)
    for gradient in torch.autograd.grad(y.square().sum(), given):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("backend", ["pairs", "torch"])
def test_half_precision_is_rounded_once_at_the_end(backend):
    paths = scan_paths((6, 6), "multidirectional")
    halves = [tensor.bfloat16() for tensor in make_arguments(paths)]
    y = ssd_path_scan(*halves, paths=paths, backend=backend)
    assert y.dtype == torch.bfloat16
    exact = ssd_path_scan(*(tensor.double() for tensor in halves), paths=paths, backend="naive")
    # Half a unit in the last of bfloat16's eight digits, and no more for the sums.
    torch.testing.assert_close(y.double(), exact, rtol=2**-8, atol=1e-4)


@pytest.mark.parametrize("backend", ["pairs", "torch", None])
def test_autocast_does_not_touch_the_recurrence(backend):
    paths = scan_paths((4, 4), "multidirectional")
    given = [tensor.float() for tensor in make_arguments(paths)]
    plain = ssd_path_scan(*given, paths=paths, backend=backend)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = ssd_path_scan(*given, paths=paths, backend=backend)
    assert cast.dtype == torch.float32
    torch.testing.assert_close(cast, plain, rtol=0, atol=0)


def test_the_sum_of_two_sets_of_paths_is_the_sum_of_their_outputs():
    paths = scan_paths((3, 4), "multidirectional")
    x, dt, A, B, C, D = make_arguments(paths)
    halves = [
        ssd_path_scan(x, dt[:, :, part], A[part], B[:, :, part], C[:, :, part], D[part], paths=paths[part])
        for part in (slice(0, 2), slice(2, 4))
    ]
    torch.testing.assert_close(ssd_path_scan(x, dt, A, B, C, D, paths=paths), sum(halves))


@pytest.mark.parametrize("order", [[[0, 1, 2]], [[0, 1, 2], [0, 1, 2]], [[0, 1, 2], [2, 1, 0], [1, 0, 2]]])
def test_all_pairs_refuses_paths_without_their_reverse(order):
    paths = torch.tensor(order)
    arguments = make_arguments(paths)
    with pytest.raises(ValueError, match=r"pairs.*opposite"):
        ssd_path_scan(*arguments, paths=paths, backend="pairs")
    torch.testing.assert_close(ssd_path_scan(*arguments, paths=paths), walk(*arguments, paths))


@pytest.mark.parametrize("name", ["dt", "A", "B", "C", "D", "paths"])
def test_errors_name_the_argument(name):
    paths = scan_paths((4,), "bidirectional")
    given = dict(zip(NAMES, make_arguments(paths), strict=True)) | {"paths": paths}
    given[name] = given[name][..., :-1] if name != "B" else given[name][:, :-1]
    with pytest.raises(ValueError, match=rf"^{name} has shape"):
        ssd_path_scan(**given)


def test_an_unknown_backend_is_refused():
    paths = scan_paths((4,), "bidirectional")
    with pytest.raises(ValueError, match="backend"):
        ssd_path_scan(*make_arguments(paths), paths=paths, backend="fastest")
