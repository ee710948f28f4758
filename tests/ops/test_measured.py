"""Choices between our kernels and those of mamba_ssm: by times that are given here, never taken."""

import sys
import warnings

import pytest
import torch
from mamba_ssm_stand_in import allow, forget, public_problems, put, run, selective_scan_fn, weights
from torch.utils.checkpoint import checkpoint

from skop.ops import _dispatch, _measured, measured_backends, record_backends, selective_scan, selective_scan_2d

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """No choice from outside, and nothing remembered of other tests nor left to them."""
    monkeypatch.delenv("SKOP_BACKEND", raising=False)
    forget()
    yield
    monkeypatch.undo()
    forget()


@pytest.fixture
def _standing_in(monkeypatch):
    """The functions above as mamba_ssm, allowed on CPUs beside our kernels."""
    put(monkeypatch)
    allow(monkeypatch)


standing_in = pytest.mark.usefixtures("_standing_in")


class Times:
    """Given times of the kernels, and how often they were asked for."""

    def __init__(self, ours, theirs):
        self.given, self.asked = {False: ours, True: theirs}, 0

    def __call__(self, run, device):
        self.asked += 1
        assert device == CPU
        run()
        return self.given[run.args[0].func is _dispatch._run_foreign]


@pytest.fixture
def times(monkeypatch):
    """Put given times in the place of measured ones."""

    def give(ours=2.0, theirs=1.0):
        given = Times(ours, theirs)
        monkeypatch.setattr(_measured, "_seconds", given)
        return given

    return give


@standing_in
@pytest.mark.parametrize("name", public_problems())
def test_the_faster_kernel_runs_and_is_recorded(times, name):
    scan, leaves = public_problems()[name]
    given = times(ours=2.0, theirs=1.0)
    first, used = run(scan, None, leaves)
    assert used == {"mamba_ssm"}
    asked = given.asked
    assert asked > 0
    again, used = run(scan, None, leaves)
    assert (used, given.asked) == ({"mamba_ssm"}, asked)
    (measurement,) = measured_backends()
    assert measurement.backend == "mamba_ssm"
    assert dict(measurement.seconds) == {"numba": 2.0, "mamba_ssm": 1.0}
    assert measurement.problem.operation == ("ssd_scan" if "ssd" in name else "selective_scan")
    for value, same in zip(first, again, strict=True):
        assert torch.equal(value, same)


@standing_in
@pytest.mark.parametrize("theirs", [2.0, 3.0])
def test_ours_runs_unless_theirs_is_faster(times, theirs):
    scan, leaves = public_problems()["s6"]
    times(ours=2.0, theirs=theirs)
    assert run(scan, None, leaves)[1] == {"numba"}
    assert [measurement.backend for measurement in measured_backends()] == ["numba"]


@standing_in
def test_similar_problems_are_measured_once(times):
    given = times()

    def asked(length, dtype=torch.float32, grad=True, batch=2, **options):
        before = given.asked
        x, maps = torch.ones(batch, length, 2, dtype=dtype), torch.ones(batch, length, 1, 3, dtype=dtype)
        selective_scan(x.requires_grad_(grad), x.float(), -torch.ones(2, 3), maps, maps, **options)
        return given.asked > before

    assert asked(33)
    assert [asked(length) for length in (34, 50, 64)] == [False] * 3
    assert [asked(length) for length in (32, 65, 128, 129)] == [True, True, False, True]
    assert [asked(50, grad=False), asked(60, grad=False)] == [True, False]
    assert [asked(50, torch.bfloat16), asked(60, torch.bfloat16)] == [True, False]
    assert [asked(50, batch=3), asked(50, batch=4)] == [True, False]
    assert [asked(50, R=torch.ones(2, 3)), asked(50, D=torch.ones(2))] == [True, True]
    with torch.no_grad():
        assert not asked(50)


@standing_in
@pytest.mark.parametrize("options", [
    {"initial_state": torch.ones(1, 2, 3)},
    {"x": torch.ones(1, 9, 2, dtype=torch.float64)},
    {"A": -torch.ones(2, 257), "B": torch.ones(1, 9, 1, 257), "C": torch.ones(1, 9, 1, 257)},
], ids=["initial state", "float64", "many states"])  # fmt: skip
def test_what_theirs_cannot_do_ours_does(times, options):
    given = times()
    x, maps = torch.ones(1, 9, 2), torch.ones(1, 9, 1, 3)
    values = {"x": x, "dt": x, "A": -torch.ones(2, 3), "B": maps, "C": maps} | options
    with record_backends() as used, warnings.catch_warnings():
        warnings.simplefilter("error")
        selective_scan(**values)
    assert (used, given.asked) == ({"numba"}, 0)
    reason = "no initial_state|no torch.float64|at most 256 states, and these are 257"
    with pytest.raises(ValueError, match=f"backend is 'mamba_ssm', but selective_scan cannot run so: .*({reason})"):
        selective_scan(**values, backend="mamba_ssm")


def wrong_everywhere(*arguments, **options):
    """Off by one percent."""
    y, state = selective_scan_fn(*arguments, **options)
    return 1.01 * y, state


def wrong_when_long(*arguments, **options):
    """Right in the self-check, off by one percent beyond it."""
    y, state = selective_scan_fn(*arguments, **options)
    return (1.01 * y if y.shape[2] > 100 else y), state


def wrong_gradients_when_long(u, *arguments, **options):
    """Right in the self-check, with wrong gradients beyond it."""
    u = 0.5 * u + 0.5 * u.detach() if u.shape[2] > 100 else u
    return selective_scan_fn(u, *arguments, **options)


def refused_when_long(*arguments, **options):
    """Right in the self-check, too large beyond it."""
    if arguments[0].shape[2] > 100:
        raise torch.OutOfMemoryError("no memory left")
    return selective_scan_fn(*arguments, **options)


def not_built(*arguments, **options):
    """Installed without the extension."""
    raise RuntimeError("selective_scan_cuda is not installed")


@pytest.mark.parametrize("function", [wrong_when_long, wrong_gradients_when_long, refused_when_long])
def test_results_must_agree_on_the_problem_itself(monkeypatch, times, function):
    put(monkeypatch, s6=function)
    allow(monkeypatch)
    times(ours=2.0, theirs=1.0)
    scan, leaves = public_problems(length=60)["s6"]
    assert run(scan, None, leaves)[1] == {"mamba_ssm"}
    scan, leaves = public_problems(length=120)["s6"]
    assert run(scan, None, leaves)[1] == {"numba"}
    assert dict(measured_backends()[1].seconds) == {"numba": 2.0, "mamba_ssm": float("inf")}


def test_a_problem_with_nan_runs_as_ever(monkeypatch, times):
    put(monkeypatch)
    allow(monkeypatch)
    times()
    x, maps = torch.full((1, 9, 2), torch.nan), torch.ones(1, 9, 1, 3)
    with record_backends() as used:
        assert selective_scan(x, torch.ones_like(x), -torch.ones(2, 3), maps, maps).isnan().all()
    assert used == {"numba"}


@pytest.mark.parametrize(("function", "reason"), [
    (wrong_everywhere, r"off by \d.*e-0\d in its self-check"),
    (not_built, "failed its self-check .*RuntimeError: selective_scan_cuda is not installed"),
])  # fmt: skip
def test_what_fails_the_self_check_is_not_used(monkeypatch, times, function, reason):
    put(monkeypatch, s6=function)
    allow(monkeypatch)
    given = times()
    scan, leaves = public_problems()["s6"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(scan, None, leaves)[1] == {"numba"}
    assert given.asked == 0
    with pytest.raises(ValueError, match=f"backend is 'mamba_ssm', but selective_scan cannot run so: .*{reason}"):
        scan("mamba_ssm", *leaves)


def test_nothing_is_said_where_it_is_not_installed(monkeypatch, times):
    monkeypatch.setitem(sys.modules, "mamba_ssm", None)
    allow(monkeypatch)
    given = times()
    for scan, leaves in public_problems().values():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert run(scan, None, leaves)[1] == {"numba"}
        with pytest.raises(ValueError, match=r"it is not installed. Install it with: pip install 'skop\[cuda\]'"):
            scan("mamba_ssm", *leaves)
    assert given.asked == 0
    assert measured_backends() == []


def test_an_installation_that_cannot_be_imported(monkeypatch, times):
    put(monkeypatch)
    allow(monkeypatch)
    given = times()
    original = _dispatch.import_module

    def refuse(name):
        if name.endswith("_mamba_ssm"):
            raise OSError("libcudart.so: cannot open")
        return original(name)

    monkeypatch.setattr(_dispatch, "import_module", refuse)
    scan, leaves = public_problems()["ssd"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(scan, None, leaves)[1] == {"numba"}
    assert given.asked == 0
    with pytest.raises(ValueError, match=r"kernels cannot be loaded .libcudart.so: cannot open"):
        scan("mamba_ssm", *leaves)


def test_it_is_for_cuda(monkeypatch):
    put(monkeypatch)
    scan, leaves = public_problems()["s6"]
    with pytest.raises(ValueError, match="the mamba_ssm kernels are for cuda tensors, and these are on cpu"):
        scan("mamba_ssm", *leaves)
    assert run(scan, None, leaves)[1] == {"numba"}


@standing_in
def test_the_environment_may_ask_for_it(monkeypatch, times):
    given = times()
    monkeypatch.setenv("SKOP_BACKEND", "mamba_ssm")
    for scan, leaves in public_problems().values():
        assert run(scan, None, leaves)[1] == {"mamba_ssm"}
    assert given.asked == 0
    x, maps = torch.ones(1, 9, 2), torch.ones(1, 9, 1, 3)
    with pytest.raises(ValueError, match=r"SKOP_BACKEND is 'mamba_ssm', but .* cannot run so: .* no initial"):
        selective_scan(x, x, -torch.ones(2, 3), maps, maps, initial_state=torch.ones(1, 2, 3))
    grid, maps = torch.ones(1, 3, 4, 1, 2), torch.ones(1, 3, 4, 1, 3)
    with pytest.raises(ValueError, match=r"SKOP_BACKEND is 'mamba_ssm'.*: mamba_ssm has no selective_scan_2d"):
        selective_scan_2d(grid[..., 0, :], grid, -torch.ones(1, 2, 3), maps, maps)


@standing_in
@pytest.mark.parametrize("name", ["torch", "naive", "numba"])
def test_what_is_asked_for_is_not_measured(monkeypatch, times, name):
    given = times()
    scan, leaves = public_problems()["ssd"]
    assert run(scan, name, leaves)[1] == {name}
    monkeypatch.setenv("SKOP_BACKEND", name)
    assert run(scan, None, leaves)[1] == {name}
    assert given.asked == 0


@standing_in
@pytest.mark.parametrize("warn_only", [False, True])
def test_deterministic_algorithms_are_ours(times, warn_only):
    given = times()
    scan, leaves = public_problems()["s6"]
    run(scan, None, leaves)
    asked = given.asked
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        for name, (scan, leaves) in public_problems().items():
            assert run(scan, None, leaves)[1] == {"numba"}, name
            with pytest.raises(ValueError, match="mamba_ssm adds up gradients in no fixed order"):
                scan("mamba_ssm", *leaves)
    finally:
        torch.use_deterministic_algorithms(False)
    assert given.asked == asked


@standing_in
@pytest.mark.parametrize("reentrant", [False, True])
def test_measuring_within_a_checkpoint(times, reentrant):
    times()
    scan, leaves = public_problems()["s6 paths"]
    y = checkpoint(lambda *values: scan(None, *values)[0], *leaves, use_reentrant=reentrant)
    y.backward(weights(y))
    exact, _ = run(scan, "naive", leaves)
    for leaf, true in zip(leaves, exact[1:], strict=True):
        assert (leaf.grad - true).norm() <= 1e-5 * true.norm()


@standing_in
@pytest.mark.parametrize("name", public_problems())
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("backend", [None, "mamba_ssm"])
def test_training_after_a_first_call_without_gradients(times, name, mode, backend):
    times()
    scan, leaves = public_problems()[name]
    with mode():
        before = scan(backend, *leaves)
    assert not any(value.requires_grad for value in before)
    found, used = run(scan, backend, leaves)
    assert used == {"mamba_ssm"}
    for value, true in zip(before, found, strict=False):
        torch.testing.assert_close(value, true)


@standing_in
def test_autocast_and_a_default_device_elsewhere_change_nothing(times):
    times()
    scan, leaves = public_problems()["s6"]
    expected, _ = run(scan, "mamba_ssm", leaves)
    forget()
    with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        outputs = scan(None, *leaves)
        with CPU:
            cotangents = [weights(value) for value in outputs]
        grads = torch.autograd.grad(outputs, leaves, cotangents)
    for value, true in zip([*outputs, *grads], expected, strict=True):
        assert torch.equal(value, true)


def test_a_real_clock_gives_seconds():
    calls = []
    assert 0 <= _measured._seconds(lambda: calls.append(None), CPU) < 60
    assert calls == [None]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_choice_on_a_gpu_and_none_while_a_graph_is_captured():
    pytest.importorskip("mamba_ssm")
    x, maps, rates = torch.rand(1, 50, 8).cuda(), torch.rand(1, 50, 1, 4).cuda(), -torch.rand(8, 4).cuda()
    for backend in ("triton", None):
        selective_scan(x, x, rates, maps, maps, backend=backend)
    names = {measurement.backend for measurement in measured_backends()}
    assert names <= {"triton", "mamba_ssm"}
    forget()
    selective_scan(x, x, rates, maps, maps, backend="triton")
    graph = torch.cuda.CUDAGraph()
    with record_backends() as used, torch.cuda.graph(graph):
        selective_scan(x, x, rates, maps, maps)
    assert (used, measured_backends()) == ({"triton"}, [])
