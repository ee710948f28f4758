"""Which implementation of a scan runs, what is said when a kernel cannot, and derivatives through kernels."""

import contextlib
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus
from torch.utils._python_dispatch import TorchDispatchMode

import skop
import skop.ops
from skop.exceptions import KernelWarning
from skop.ops import _dispatch, record_backends, selective_scan, ssd_scan, traceable_scans
from skop.ops._dispatch import Operation, n_states
from skop.ops.selective_scan import SELECTIVE_SCAN, _cpu
from skop.ops.selective_scan_2d import SELECTIVE_SCAN_2D
from skop.ops.ssd_scan._operation import SSD_SCAN

CPU, META = torch.device("cpu"), torch.device("meta")
CACHES = (_dispatch._problem, _dispatch._kernels, _dispatch._warn_once)
NAMES = ("x", "dt", "A", "B", "C", "D", "dt_bias", "R", "initial_state")


def forget():
    """Let the kernels be checked, and warned of, once more."""
    for cached in CACHES:
        cached.cache_clear()


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """No choice from outside, no scan is small, and nothing remembered of other tests nor left to them."""
    monkeypatch.delenv("SKOP_BACKEND", raising=False)
    monkeypatch.setattr(_dispatch, "n_states", lambda *arguments: 2**40)
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


def choose(backend=None, device=CPU, dtype=torch.float32, **options):
    """Choice for the selective scan."""
    return SELECTIVE_SCAN.choose(backend, device, dtype, **options)


def sized(scan, states):
    """Arguments of a scan of one state for each channel and so many states in all, and its operation."""
    tokens, paths = states // 64, torch.arange(states // 64)[None]
    one = torch.ones(2, tokens, 1, 64)
    maps, rates, grid = one[..., :1], -torch.ones(1, 64, 1), (2, 1, tokens)
    return {
        "selective_scan": lambda **more: skop.ops.selective_scan(
            one[:, :, 0], one, rates, maps, maps, paths=paths, **more
        ),
        "selective_scan_2d": lambda **more: skop.ops.selective_scan_2d(
            one.view(*grid, 64), one.view(*grid, 1, 64), rates, *[maps.view(*grid, 1, 1)] * 2, **more
        ),
        "ssd_scan": lambda **more: skop.ops.ssd_scan(
            one.view(2, tokens, 2, 32), one[..., :2], rates[..., :2, 0], maps, maps, paths=paths, **more
        ),
        "ssd_scan of groups": lambda **more: skop.ops.ssd_scan(
            one.view(2, tokens, 2, 32), one[:, :, 0, :2], rates[0, :2, 0], maps, maps, **more
        ),
    }[scan]


def weights(value):
    """Cotangent that differs from place to place."""
    return torch.arange(1, value.numel() + 1).cos().view_as(value).to(value.dtype)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, pytest.param(torch.bfloat16, marks=pytest.mark.exhaustive)]
)
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


LIMITS = {
    "selective_scan": SELECTIVE_SCAN.small,
    "selective_scan_2d": SELECTIVE_SCAN_2D.small,
    "ssd_scan": SSD_SCAN.small,
    "ssd_scan of groups": SSD_SCAN.small,
}


@pytest.mark.parametrize("name", LIMITS)
def test_small_scans_run_in_plain_torch_unless_a_kernel_is_asked_for(monkeypatch, name):
    monkeypatch.setattr(_dispatch, "n_states", n_states)
    monkeypatch.setattr(_dispatch, "_problem", lambda *asked: None)
    for states, expected in [(LIMITS[name], "torch"), (LIMITS[name] + 64, "numba")]:
        scan = sized(name, states)
        with record_backends() as used:
            y = scan()
        assert used == {expected}
        with record_backends() as used:
            asked = scan(backend="numba")
        assert used == {"numba"}
        torch.testing.assert_close(y, asked, rtol=1e-4, atol=1e-4)
    monkeypatch.setenv("SKOP_BACKEND", "numba")
    with record_backends() as used:
        sized(name, 64)()
    assert used == {"numba"}


def test_the_page_states_the_limits():
    page = (Path(__file__).parents[2] / "docs/user_guide/kernels.md").read_text()
    assert f"| `ssd_scan` | {SSD_SCAN.small:,} states |" in page
    assert SELECTIVE_SCAN.small == SELECTIVE_SCAN_2D.small
    assert f"| `selective_scan`, `selective_scan_2d` | {SELECTIVE_SCAN.small:,} states," in page


@pytest.mark.parametrize("batch", [1, 1000])
def test_a_scan_of_one_token_compiles_nothing_in_any_company(monkeypatch, batch):
    """As in a table, and whatever the other samples of the batch."""
    monkeypatch.setattr(_dispatch, "n_states", n_states)
    monkeypatch.setattr(_dispatch, "_problem", lambda *asked: pytest.fail(f"{asked} was to be compiled"))
    x, maps = torch.ones(batch, 1, 256), torch.ones(batch, 1, 1, 16)
    with record_backends() as used:
        selective_scan(x.requires_grad_(), x, -torch.ones(256, 16), maps, maps)
        skop.ops.ssd_scan(x.unflatten(2, (4, 64)), x[..., :4], -torch.ones(4), maps, maps)
    assert used == {"torch"}


def first_fits():
    """Small problems, as a newcomer tries: a table, fields and point sets; for each, an estimator as it comes."""
    generator = np.random.default_rng(0)
    table, fields, lines = (generator.normal(size=size) for size in [(20, 4), (3, 8, 8, 1), (3, 64, 1)])
    clouds = [(generator.random((500, 2)), generator.normal(size=(500, 1))) for _ in range(3)]
    return {
        "table": (skop.LaMORegressor, table, table[:, 0]),
        "fields": (skop.LaMORegressor, fields, fields**2),
        "fields on lines": (skop.LaMORegressor, lines, lines**2),
        "point sets": (skop.LaMORegressor, clouds, [values for _, values in clouds]),
        "table of GeoMaNO": (skop.GeoMaNORegressor, table, table[:, 0]),
    }


@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
@pytest.mark.parametrize("kind", first_fits())
def test_a_first_fit_of_a_small_problem_compiles_nothing(monkeypatch, kind):
    monkeypatch.setattr(_dispatch, "n_states", n_states)
    monkeypatch.setattr(_dispatch, "_problem", lambda *asked: pytest.fail(f"{asked} was to be compiled"))
    estimator, X, y = first_fits()[kind]
    assert estimator(max_iter=1, random_state=0).fit(X, y).backend_ == "torch"


def test_states_are_counted_for_one_sample():
    x, dt, maps = torch.ones(5, 7, 1, 3), torch.ones(5, 7, 2, 3), torch.ones(5, 7, 2, 4)
    assert n_states(x, dt, maps) == 7 * 2 * 3 * 4
    assert n_states(x.unsqueeze(-1).expand(-1, -1, -1, -1, 6), dt, maps) == 7 * 2 * 3 * 6 * 4
    assert n_states(x[:, :, None], dt[:, :, None], maps[:, :, None]) == 7 * 2 * 3 * 4


def test_a_process_that_only_predicts_does_not_compile_the_backward_pass(monkeypatch):
    calls, forward, backward = [], _cpu.forward, _cpu.backward
    monkeypatch.setattr(_cpu, "forward", lambda *given: calls.append("forward") or forward(*given))
    monkeypatch.setattr(_cpu, "backward", lambda *given: calls.append("backward") or backward(*given))
    values = make(dtype=torch.float32)
    with torch.no_grad():
        scan(values)
    scan({name: value.detach() for name, value in values.items()})
    assert set(calls) == {"forward"}
    scan(values)  # gradients may follow
    assert "backward" in calls


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
        f"grad {name}": changing(NAMES.index(name), one_percent, "backward")
        for name in ("x", "A", "R", "initial_state")
    },
    "grad x one_nan": changing(0, one_nan, "backward"),
}


@pytest.mark.parametrize("breakage", BROKEN.values(), ids=BROKEN)
def test_broken_kernels_are_warned_of_once_and_replaced(monkeypatch, breakage):
    reason = breakage(monkeypatch)
    values = make(dtype=torch.float32)
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

    def picky(given, keep):
        if given.x.dtype == torch.float64:
            raise NotImplementedError("float64")
        return original(given, keep)

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


@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch's compiler, about caches that it looks into
def test_a_step_that_is_compiled_is_the_step_bit_by_bit():
    def step(values):
        y = scan(values, "numba")
        y.square().sum().backward()
        return y

    plain, compiled = make(), make()
    assert torch.equal(torch.compile(step, backend="eager")(compiled), step(plain))
    for name, value in plain.items():
        assert torch.equal(compiled[name].grad, value.grad), name


def test_records_nest():
    values = make(3)
    with record_backends() as outer:
        scan(values, "naive")
        with record_backends() as inner:
            scan(values, "torch")
        with record_backends() as other:
            paths = torch.arange(3)[None]
            maps = torch.ones(1, 3, 1, 1)
            selective_scan(maps[..., 0], maps, -torch.ones(1, 1, 1), maps, maps, paths=paths)
        scan(values, "numba")
    scan(values, "naive")
    assert (outer, inner, other) == ({"naive", "torch", "numba"}, {"torch"}, {"numba"})


def test_records_end_where_an_error_is_raised():
    with pytest.raises(ZeroDivisionError), record_backends() as used:
        raise ZeroDivisionError
    scan(make(3), "naive")
    assert used == set()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_no_checkpoints_are_kept(monkeypatch, mode):
    values = make(dtype=torch.float32)
    expected = scan(values, "numba", return_final_state=True)
    choose(dtype=torch.float32, gradients=False)
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


@pytest.mark.parametrize("length", [5, 37])
def test_scans_for_exports_are_the_reference(length):
    """Chunks without shared buffers."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    given = normal(2, length, 4, 3), normal(2, length, 4).exp(), -normal(4).exp()
    given += normal(2, length, 2, 5), normal(2, length, 2, 5)
    for options in (
        {"D": normal(4), "initial_state": normal(2, 4, 3, 5), "reverse": (True, False), "return_final_state": True},
        {"reverse": True, "return_final_state": True},
    ):
        expected = ssd_scan(*given, chunk_size=8, backend="naive", **options)
        with traceable_scans(), record_backends() as used:
            found = ssd_scan(*given, chunk_size=8, backend="numba", **options)
        assert used == {"torch"}
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("length", [1, 5, 64, 150])
def test_selective_scans_for_exports_are_the_reference_in_few_operations(length, monkeypatch):
    """Segments of blocks, which a length of 150 fills up with steps of size zero."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    given = normal(2, length, 3), normal(2, length, 2, 3), -normal(2, 3, 4).exp()
    given += normal(2, length, 2, 4), normal(2, length, 2, 4), normal(2, 3)
    options = {"paths": torch.stack([torch.randperm(length, generator=generator) for _ in range(2)])}
    options |= {"dt_bias": normal(2, 3), "dt_softplus": True, "R": normal(2, 3, 4), "return_final_state": True}
    for start in (None, normal(2, 2, 3, 4)):
        expected = selective_scan(*given, **options, initial_state=start, backend="naive")
        with traceable_scans(), record_backends() as used, CountedOperations() as counted:
            found = selective_scan(*given, **options, initial_state=start, backend="numba")
        assert used == {"torch"}
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    # The reference has some 13 for each token.
    assert counted.number < 150 + 3 * length


class CountedOperations(TorchDispatchMode):
    """Number of the operations within the block."""

    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.number += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "operation", [SELECTIVE_SCAN, SELECTIVE_SCAN_2D, SSD_SCAN], ids=lambda operation: operation.name
)
def test_kernels_read_lazily_negated_tensors(operation):
    """Of the arguments and of the cotangent, as from the imaginary part of a conjugate."""
    given = operation.example()

    def outputs(turn):
        leaves = [None if value is None else value.clone().requires_grad_() for value in given[: operation.n_tensors]]
        turned = [None if leaf is None else turn(leaf) for leaf in leaves]
        y = operation.run("numba", given._make((*turned, *given[operation.n_tensors :])))[0]
        grads = torch.autograd.grad(
            y, [leaf for leaf in leaves if leaf is not None], turn(torch.ones_like(y)), allow_unused=True
        )
        return [y.detach(), *(value for value in grads if value is not None)]

    def negate(value):
        turned = torch._neg_view(-value)
        assert turned.is_neg()
        return turned

    for value, true in zip(outputs(negate), outputs(lambda value: value), strict=True):
        torch.testing.assert_close(value, true, rtol=0, atol=0)
