"""Which implementation of a scan runs, what is said when a kernel cannot, and derivatives through kernels."""

import contextlib
import warnings

import pytest
import torch
from torch.nn.functional import softplus

import skop.ops
from skop.exceptions import KernelWarning
from skop.ops import _dispatch, record_backends, selective_path_scan, selective_scan
from skop.ops._dispatch import Operation
from skop.ops.selective_scan import _cpu
from skop.ops.selective_scan._operation import SELECTIVE_SCAN

CPU, META = torch.device("cpu"), torch.device("meta")
CACHES = (_dispatch._problem, _dispatch._kernels, _dispatch._warn_once)
NAMES = ("x", "dt", "A", "B", "C", "D", "dt_bias", "R", "initial_state")


def forget():
    """Let the kernels be checked, and warned of, once more."""
    for cached in CACHES:
        cached.cache_clear()


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """No choice from outside, and nothing remembered of other tests nor left to them."""
    monkeypatch.delenv("SKOP_BACKEND", raising=False)
    forget()
    yield
    monkeypatch.undo()
    forget()


def make(length=40, *, dtype=torch.float64, channels=3, states=2, seed=0):
    """Random arguments of a scan by name; leaves that need gradients."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    values = {
        "x": normal(1, length, channels),
        "dt": normal(1, length, channels),
        "A": -softplus(normal(channels, states)),
        "B": normal(1, length, 1, states),
        "C": normal(1, length, 1, states),
        "D": normal(channels),
        "dt_bias": normal(channels),
        "R": normal(channels, states),
        "initial_state": normal(1, channels, states),
    }
    return {name: value.to(dtype).requires_grad_() for name, value in values.items()}


def scan(values, backend=None, **options):
    """Scan with a softplus."""
    return selective_scan(**values, dt_softplus=True, backend=backend, **options)


def choose(backend=None, device=CPU, dtype=torch.float32):
    """Choice for the selective scan."""
    return SELECTIVE_SCAN.choose(backend, device, dtype)


def weights(value):
    """Cotangent that differs from place to place."""
    return torch.arange(1, value.numel() + 1).cos().view_as(value).to(value.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_kernel_of_the_device_is_the_default(dtype):
    assert choose(dtype=dtype) == "numba"
    assert choose(device=META, dtype=dtype) == "torch"


@pytest.mark.parametrize("name", ["naive", "torch", "numba"])
def test_arguments_go_before_the_environment(monkeypatch, name):
    monkeypatch.setenv("SKOP_BACKEND", name)
    assert choose() == name
    assert choose("torch") == "torch"
    monkeypatch.setenv("SKOP_BACKEND", "")
    assert choose() == "numba"


def test_unknown_names_are_named(monkeypatch):
    with pytest.raises(ValueError, match=r"backend is 'fast'; expected None or one of .*'numba'"):
        scan(make(), "fast")
    monkeypatch.setenv("SKOP_BACKEND", "Numba")
    with pytest.raises(ValueError, match="SKOP_BACKEND is 'Numba'; expected None or one of"):
        scan(make())


@pytest.mark.parametrize(("name", "device", "reason"), [
    ("triton", CPU, "the triton kernels are for cuda tensors, and these are on cpu"),
    ("numba", META, "the numba kernels are for cpu tensors, and these are on meta"),
])  # fmt: skip
def test_what_cannot_run_is_refused_with_the_reason(monkeypatch, name, device, reason):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match=f"backend is '{name}', but selective_scan cannot run so: {reason}"):
        choose(name, device)
    monkeypatch.setenv("SKOP_BACKEND", name)
    with pytest.raises(ValueError, match=f"SKOP_BACKEND is '{name}', but selective_scan cannot run so: {reason}"):
        choose(None, device)


def missing(monkeypatch):
    """Kernels that cannot be imported."""

    def refuse(name):
        raise ImportError(f"No module named 'numba', for {name}")

    monkeypatch.setattr(_dispatch, "import_module", refuse)
    return "cannot be loaded .No module named 'numba', for skop.ops.selective_scan._cpu.; install what they need"


def raising(monkeypatch):
    """A kernel that a driver or a compiler refuses."""

    def refuse(*arguments):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(_cpu, "forward", refuse)
    return "failed its self-check on cpu in torch.float32 .RuntimeError: no such instruction"


def changing(place, change, function="forward"):
    """A kernel with one result changed."""

    def patch(monkeypatch):
        original = getattr(_cpu, function)

        def changed(*arguments):
            results = list(original(*arguments))
            results[place] = change(results[place])
            return tuple(results)

        monkeypatch.setattr(_cpu, function, changed)
        return r"is off by (nan|\d.*e-0\d) in its self-check on cpu in torch.float32"

    return patch


def one_percent(value):
    """Off by one percent."""
    return value * 1.01


def one_nan(value):
    """NaN at the last place."""
    return value.flatten().index_fill(0, torch.tensor([value.numel() - 1]), torch.nan).view_as(value)


BROKEN = {
    "missing": missing,
    "raising": raising,
    **{f"y {change.__name__}": changing(0, change) for change in (one_percent, one_nan)},
    **{f"final {change.__name__}": changing(1, change) for change in (one_percent, one_nan)},
    **{
        f"grad {name} {change.__name__}": changing(place, change, "backward")
        for place, name in enumerate(NAMES)
        for change in (one_percent, one_nan)
    },
}


@pytest.mark.parametrize("breakage", BROKEN.values(), ids=BROKEN)
def test_broken_kernels_are_warned_of_once_and_replaced(monkeypatch, breakage):
    reason = breakage(monkeypatch)
    values = {name: value.detach() for name, value in make(dtype=torch.float32).items()}
    with pytest.warns(KernelWarning) as warned, record_backends() as used:
        y = scan(values)
    assert used == {"torch"}
    (warning,) = warned
    assert warning.message.args[0].startswith("selective_scan runs in plain torch, which is much slower: the numba")
    with pytest.raises(ValueError, match=f"backend is 'numba', but selective_scan cannot run so: .*{reason}"):
        scan(values, "numba")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = scan(values)
    torch.testing.assert_close(y, again, rtol=0, atol=0)
    torch.testing.assert_close(y, scan(values, "naive"), rtol=1e-4, atol=1e-5)


def test_only_the_precision_that_fails_is_replaced(monkeypatch):
    original = _cpu.forward

    def picky(x, *rest):
        if x.dtype == torch.float64:
            raise NotImplementedError("float64")
        return original(x, *rest)

    monkeypatch.setattr(_cpu, "forward", picky)
    with pytest.warns(KernelWarning, match="on cpu in torch.float64"):
        assert choose(dtype=torch.float64) == "torch"
    assert choose(dtype=torch.float32) == "numba"


def test_an_operation_without_kernels_falls_back():
    lone = Operation("no_such_scan", SELECTIVE_SCAN.plain, 9, SELECTIVE_SCAN.example)
    with pytest.warns(KernelWarning, match=r"no_such_scan runs in plain torch.*No module named 'skop.ops.no_such"):
        assert lone.choose(None, CPU, torch.float32) == "torch"


def test_the_self_check_happens_once_and_under_any_settings(monkeypatch):
    calls, original = [], _cpu.forward
    monkeypatch.setattr(_cpu, "forward", lambda *arguments: calls.append(None) or original(*arguments))
    values = {name: value.detach() for name, value in make(dtype=torch.float32).items()}
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        scan(values, "numba")
    first = len(calls)
    scan(values)
    scan(values, "numba")
    assert len(calls) - first == 2


@pytest.mark.parametrize("early", [True, False])
def test_a_default_device_elsewhere_does_not_matter(early):
    values = make()
    expected = scan(values, "naive", return_final_state=True)
    if not early:
        choose(dtype=torch.float64)
    with warnings.catch_warnings(), META:
        warnings.simplefilter("error")
        outputs = scan(values, return_final_state=True)
        assert [value.device for value in outputs] == [CPU, CPU]
        with CPU:
            cotangents = [weights(value) for value in outputs]
        grads = torch.autograd.grad(outputs, list(values.values()), cotangents)
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(grads, torch.autograd.grad(expected, list(values.values()), cotangents))


def test_a_first_call_within_a_transform_of_functions_spoils_nothing():
    values = {name: value.detach() for name, value in make().items()}
    with contextlib.suppress(RuntimeError), warnings.catch_warnings():  # kernels have no rules for transforms
        warnings.simplefilter("error")
        torch.func.grad(lambda x: scan(values | {"x": x}).sum())(values["x"])
    assert choose(dtype=torch.float64) == "numba"


def test_records_nest():
    values = make(3)
    with record_backends() as outer:
        scan(values, "naive")
        with record_backends() as inner:
            scan(values, "torch")
        with record_backends() as other:
            paths = torch.arange(3)[None]
            maps = torch.ones(1, 3, 1, 1)
            selective_path_scan(maps[..., 0], maps, -torch.ones(1, 1, 1), maps, maps, paths=paths)
        scan(values, "numba")
    scan(values, "naive")
    assert (outer, inner, other) == ({"naive", "torch", "numba"}, {"torch"}, {"numba"})


def test_records_end_where_an_error_is_raised():
    with pytest.raises(ZeroDivisionError), record_backends() as used:
        raise ZeroDivisionError
    scan(make(3), "naive")
    assert used == set()


def test_gradcheck_and_gradgradcheck_through_the_kernel():
    values = make(4, channels=2, states=2)

    def outputs(*arguments):
        return scan(dict(zip(NAMES, arguments, strict=True)), "numba", return_final_state=True)

    assert torch.autograd.gradcheck(outputs, tuple(values.values()))
    assert torch.autograd.gradgradcheck(outputs, tuple(values.values()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_first_derivatives_that_can_be_differentiated_equal_those_that_cannot(dtype):
    values = make(dtype=dtype)
    leaves = list(values.values())
    y, final = scan(values, "numba", return_final_state=True)
    y_grad, final_grad = weights(y), weights(final)
    plain = torch.autograd.grad((y, final), leaves, (y_grad, final_grad), retain_graph=True)
    graph = torch.autograd.grad((y, final), leaves, (y_grad, final_grad), create_graph=True)
    assert all(grad.requires_grad for grad in graph)
    bound = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2}[dtype]
    for one, other in zip(plain, graph, strict=True):
        assert one.dtype == other.dtype
        assert (one - other).norm() <= bound * one.norm()


def test_second_derivative_where_arguments_depend_on_each_other():
    def penalty(backend):
        base = make(9)["x"]
        maps = base[:, :, None, :2], base[:, :, None, 1:].sin()
        y = selective_scan(base, base.exp(), -torch.ones(3, 2).double(), *maps, backend=backend)
        (slope,) = torch.autograd.grad(y.square().sum(), base, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), base)[0]

    torch.testing.assert_close(penalty("numba"), penalty("naive"), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_gradient_of_one_argument_only(name):
    def gradient(backend, create_graph):
        values = {key: value.detach().requires_grad_(key == name) for key, value in make().items()}
        y, final = scan(values, backend, return_final_state=True)
        output = y if name in ("C", "D", "R") else final
        return torch.autograd.grad(output, values[name], weights(output), create_graph=create_graph)[0]

    for create_graph in (False, True):
        torch.testing.assert_close(gradient("numba", create_graph), gradient("naive", create_graph))


def test_backward_twice_and_expanded_cotangents():
    values = make()
    y = scan(values, "numba")
    first = torch.autograd.grad(y.sum(), list(values.values()), retain_graph=True)
    second = torch.autograd.grad(y, list(values.values()), torch.ones_like(y))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_no_checkpoints_are_kept(monkeypatch, mode):
    values = make(dtype=torch.float32)
    expected = scan(values, "numba", return_final_state=True)
    kept, original = [], _cpu.forward

    def spy(*arguments):
        results = original(*arguments)
        kept.append(results[-1] is not None)
        return results

    monkeypatch.setattr(_cpu, "forward", spy)
    with mode():
        outputs = scan(values, "numba", return_final_state=True)
    scan({name: value.detach() for name, value in values.items()}, "numba")
    scan(values, "numba")
    assert kept == [False, False, True]
    assert not any(value.requires_grad for value in outputs)
    for value, true in zip(outputs, expected, strict=True):
        assert torch.equal(value, true)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_training_after_a_first_call_without_gradients(mode):
    values = make(41)
    with mode():
        scan(values)
    y = scan(values)
    grads = torch.autograd.grad(y, list(values.values()), weights(y))
    slow = scan(values, "naive")
    torch.testing.assert_close(grads, torch.autograd.grad(slow, list(values.values()), weights(y)))


def test_autocast_changes_nothing():
    values = make(dtype=torch.float32)
    expected = scan(values, "numba")
    grads = torch.autograd.grad(expected, list(values.values()), weights(expected))
    with torch.autocast("cpu", torch.bfloat16):
        y = scan(values, "numba")
        inside = torch.autograd.grad(y, list(values.values()), weights(y))
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, expected, rtol=0, atol=0)
    torch.testing.assert_close(inside, grads, rtol=0, atol=0)


def grid_problem():
    """Arguments of a scan over a grid, and of the SSD scan."""
    grid = [torch.rand(1, 3, 4, 2), torch.rand(1, 3, 4, 1, 2), -torch.rand(1, 2, 3), *torch.rand(2, 1, 3, 4, 1, 3)]
    sequence = [torch.rand(1, 5, 2, 3), torch.rand(1, 5, 2), -torch.rand(2), *torch.rand(2, 1, 5, 1, 4)]
    return {"selective_scan_2d": grid, "ssd_scan": sequence}


@pytest.mark.parametrize("name", ["selective_scan_2d", "ssd_scan"])
def test_a_default_device_elsewhere_does_not_matter_to_the_other_scans(name):
    values = [value.requires_grad_() for value in grid_problem()[name]]
    options = {"return_final_state": True} if name == "ssd_scan" else {}
    with META:
        outputs = getattr(skop.ops, name)(*values, backend="numba", **options)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        grads = torch.autograd.grad(sum(value.sum() for value in outputs), values)
    assert {value.device for value in (*outputs, *grads)} == {CPU}
    assert all(value.isfinite().all() for value in grads)
