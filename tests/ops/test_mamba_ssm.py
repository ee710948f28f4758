"""Kernels of mamba_ssm as implementations of our scans: what is passed to them and made of their results.

On CPUs functions stand in for them, see `mamba_ssm_stand_in`.
"""

import sys

import pytest
import torch
from mamba_ssm_stand_in import allow, forget, normal, public_problems, put, run, selective_scan_fn, weights

from skop.ops import _dispatch, _mamba_ssm, _selective, selective_scan, selective_scan_2d
from skop.ops._arguments import cast
from skop.ops.selective_scan import SELECTIVE_SCAN
from skop.ops.ssd_scan import SSD_SCAN, _operation


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


LENGTH = 17
FORWARDS = torch.arange(LENGTH, dtype=torch.int32)
MIXED = torch.stack([torch.randperm(LENGTH, generator=torch.Generator().manual_seed(seed)).int() for seed in range(3)])
ORDERS = {
    "forwards": FORWARDS[None],
    "backwards": FORWARDS.flip(0)[None],
    "both backwards": FORWARDS.flip(0).repeat(2, 1),
    "both forwards": FORWARDS.repeat(2, 1),
    "there and back": torch.stack([FORWARDS, FORWARDS.flip(0)]),
    "three paths": MIXED,
}


def s6_problem(paths, *, shared=False, bare=False, steps=True):
    """Arguments of the operation in float64."""
    k, channels, states = len(paths), 3, 2
    x = normal(2, LENGTH, 1 if shared else k, channels)
    maps = [normal(2, LENGTH, k, states, seed=seed) for seed in (1, 2)]
    dt = normal(2, LENGTH, k, channels, seed=3)
    dt = dt if steps else dt.exp()
    extras = [None] * 3 if bare else [normal(k, channels), normal(k, channels, seed=4), normal(k, channels, states)]
    rates = -normal(k, channels, states, seed=5).exp()
    return _selective.Arguments(x, dt, rates, *maps, *extras, None, paths, steps)


def ssd_problem(paths, *, shared=False, bare=False, shared_maps=False, skip_per_head=False):
    """Arguments of the operation in float64."""
    k, heads, channels, states = len(paths), 2, 3, 4
    x = normal(2, LENGTH, 1 if shared else k, heads, channels)
    maps = [normal(2, LENGTH, 1 if shared_maps else k, states, seed=seed) for seed in (1, 2)]
    skip = None if bare else normal(k, heads, 1 if skip_per_head else channels)
    start = None if bare else normal(2, k, heads, channels, states)
    dt, rates = normal(2, LENGTH, k, heads, seed=3).exp(), -normal(k, heads, seed=5).exp()
    return _operation.Arguments(x, dt, rates, *maps, skip, start, paths)


def expect_the_reference(operation, arguments, only=None):
    """Compare outputs and gradients with the definition, in float64."""
    count = operation.n_tensors
    found = []
    for scan in (_dispatch._kernel(operation, "mamba_ssm"), operation.plain["naive"]):
        leaves = [None if value is None else value.clone().requires_grad_() for value in arguments[:count]]
        outputs = scan(arguments._make((*leaves, *arguments[count:])))
        chosen = outputs if only is None else outputs[only : only + 1]
        sources = [value for value in leaves if value is not None]
        grads = torch.autograd.grad(chosen, sources, [weights(v) for v in chosen], allow_unused=True)
        found.append([*outputs, *(torch.zeros(()).double() if grad is None else grad for grad in grads)])
    for value, true in zip(*found, strict=True):
        torch.testing.assert_close(value, true.expand_as(value), rtol=1e-10, atol=1e-10)
    assert all(value.is_contiguous() for value in found[0][:2])


@standing_in
def test_s6_is_the_reference():
    for order, shared, bare, steps in [
        ("forwards", False, False, True),
        ("backwards", False, True, False),
        ("both backwards", True, False, True),
        ("there and back", True, True, False),
        ("three paths", True, False, False),
        ("three paths", False, False, True),
    ]:
        expect_the_reference(SELECTIVE_SCAN, s6_problem(ORDERS[order], shared=shared, bare=bare, steps=steps))


@standing_in
def test_ssd_is_the_reference():
    for order, shared, shared_maps, options in [
        ("forwards", False, False, {}),
        ("backwards", False, True, {"bare": True}),
        ("both backwards", True, False, {"skip_per_head": True}),
        ("both forwards", False, True, {}),
        ("there and back", True, True, {}),
        ("three paths", True, False, {}),
        ("three paths", False, True, {"skip_per_head": True}),
    ]:
        expect_the_reference(SSD_SCAN, ssd_problem(ORDERS[order], shared=shared, shared_maps=shared_maps, **options))


@standing_in
def test_gradients_of_one_output_only():
    for only in (0, 1):
        expect_the_reference(SELECTIVE_SCAN, s6_problem(MIXED), only)
        expect_the_reference(SSD_SCAN, ssd_problem(MIXED), only)


@standing_in
@pytest.mark.parametrize(("operation", "problem", "shared"), [
    (SELECTIVE_SCAN, s6_problem, True),
    (SSD_SCAN, ssd_problem, False),
])  # fmt: skip
def test_second_derivatives_are_right(operation, problem, shared):
    arguments = problem(torch.tensor([[0, 1, 2], [1, 2, 0]], dtype=torch.int32), shared=shared)
    count = operation.n_tensors
    tensors = [value[:1, :3] if place in (0, 1, 3, 4) else value for place, value in enumerate(arguments[:count])]
    if operation is SSD_SCAN:
        tensors[6] = tensors[6][:1]
    given = [place for place, value in enumerate(tensors) if value is not None]
    scan = _dispatch._kernel(operation, "mamba_ssm")

    def outputs(*leaves):
        values = list(tensors)
        for place, leaf in zip(given, leaves, strict=True):
            values[place] = leaf
        return scan(arguments._make((*values, *arguments[count:])))

    leaves = [tensors[place].clone().requires_grad_() for place in given]
    assert torch.autograd.gradcheck(outputs, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(outputs, leaves, fast_mode=True)


@standing_in
def test_the_gradients_of_some_arguments_only():
    arguments = s6_problem(MIXED)
    for argument in ("x", "dt", "A", "B", "C", "D", "dt_bias", "R"):
        found = []
        for name in ("mamba_ssm", "numba"):
            leaf = getattr(arguments, argument).clone().requires_grad_()
            outputs = _dispatch._kernel(SELECTIVE_SCAN, name)(arguments._replace(**{argument: leaf}))
            found.append(sum(torch.autograd.grad(v, leaf, weights(v), allow_unused=True)[0] for v in outputs[:1]))
        torch.testing.assert_close(*found)


@standing_in
def test_public_functions_by_name():
    for name, dtype, bound in [
        ("s6", torch.float32, 1e-5),
        ("s6 paths", torch.bfloat16, 2e-2),
        ("ssd", torch.bfloat16, 2e-2),
        ("ssd paths", torch.float32, 1e-5),
    ]:
        scan, leaves = public_problems(dtype)[name]
        found, used = run(scan, "mamba_ssm", leaves)
        exact, _ = run(scan, "naive", [value.detach().double().requires_grad_() for value in leaves])
        assert used == {"mamba_ssm"}
        assert found[0].dtype == dtype
        for value, true in zip(found, exact, strict=True):
            assert (value.double() - true).norm() <= bound * true.norm()


@standing_in
def test_results_may_be_written_to():
    for name in ["s6", "ssd paths"]:
        scan, leaves = public_problems()[name]
        expected, _ = run(scan, "naive", leaves)
        y = scan("mamba_ssm", *leaves)[0]
        cotangent = weights(y)
        y += 1
        grads = torch.autograd.grad(y, leaves, cotangent, retain_graph=True)
        again = torch.autograd.grad(y, leaves, cotangent)
        torch.testing.assert_close(y - 1, expected[0], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(grads, again, rtol=0, atol=0)


@standing_in
@pytest.mark.parametrize(("operation", "problem"), [(SELECTIVE_SCAN, s6_problem), (SSD_SCAN, ssd_problem)])
def test_what_the_kernel_keeps_is_not_written_to(operation, problem):
    arguments = problem(ORDERS["forwards"], bare=True)
    leaves = [value[..., :1].clone().requires_grad_() for value in arguments[:2]]
    if operation is SELECTIVE_SCAN:
        arguments = arguments._replace(A=arguments.A[:, :1])
    else:
        leaves[1] = arguments.dt.clone().requires_grad_()
    y, final_state = _dispatch._kernel(operation, "mamba_ssm")(arguments._replace(x=leaves[0], dt=leaves[1]))
    sources = torch.autograd.grad(y, leaves, weights(y), retain_graph=True)
    cotangent = weights(y)
    y.mul_(2)
    final_state.zero_()
    torch.testing.assert_close(torch.autograd.grad(y, leaves, cotangent / 2), sources)


REFUSED = {
    "no initial_state": {"initial_state": torch.ones(1, 2, 3)},
    "no torch.float64": {"x": torch.ones(1, 9, 2, dtype=torch.float64)},
    "at most 256 states, and these are 257": {
        "A": -torch.ones(2, 257),
        **dict.fromkeys("BC", torch.ones(1, 9, 1, 257)),
    },
}


@standing_in
@pytest.mark.parametrize("reason", REFUSED)
def test_what_it_cannot_do_is_refused_with_the_reason(monkeypatch, reason):
    x, maps = torch.ones(1, 9, 2), torch.ones(1, 9, 1, 3)
    values = {"x": x, "dt": x, "A": -torch.ones(2, 3), "B": maps, "C": maps} | REFUSED[reason]
    with pytest.raises(ValueError, match=f"backend is 'mamba_ssm', but selective_scan cannot run so: .*{reason}"):
        selective_scan(**values, backend="mamba_ssm")
    monkeypatch.setenv("SKOP_BACKEND", "mamba_ssm")
    with pytest.raises(ValueError, match=f"SKOP_BACKEND is 'mamba_ssm', but selective_scan cannot run so: .*{reason}"):
        selective_scan(**values)


@standing_in
def test_it_runs_only_where_it_is_asked_for(monkeypatch):
    """A choice by speed could differ from process to process of one training."""
    for name, (scan, leaves) in public_problems().items():
        assert run(scan, None, leaves)[1] <= {"numba", "torch"}, name
    monkeypatch.setenv("SKOP_BACKEND", "mamba_ssm")
    for name, (scan, leaves) in public_problems().items():
        assert run(scan, None, leaves)[1] == {"mamba_ssm"}, name
    grid, maps = torch.ones(1, 3, 4, 1, 2), torch.ones(1, 3, 4, 1, 3)
    with pytest.raises(ValueError, match=r"SKOP_BACKEND is 'mamba_ssm'.*: mamba_ssm has no selective_scan_2d"):
        selective_scan_2d(grid[..., 0, :], grid, -torch.ones(1, 2, 3), maps, maps)


def test_it_is_for_cuda(monkeypatch):
    put(monkeypatch)
    scan, leaves = public_problems()["s6"]
    with pytest.raises(ValueError, match="the mamba_ssm kernels are for cuda tensors, and these are on cpu"):
        scan("mamba_ssm", *leaves)


def wrong(*arguments, **options):
    """Off by one percent."""
    y, state = selective_scan_fn(*arguments, **options)
    return 1.01 * y, state


def not_built(*arguments, **options):
    """Installed without the extension."""
    raise RuntimeError("selective_scan_cuda is not installed")


@pytest.mark.parametrize(("function", "reason"), [
    (wrong, r"off by \d.*e-0\d in its self-check"),
    (not_built, "failed its self-check .*RuntimeError: selective_scan_cuda is not installed"),
])  # fmt: skip
def test_what_fails_the_self_check_is_refused(monkeypatch, function, reason):
    put(monkeypatch, s6=function)
    allow(monkeypatch)
    scan, leaves = public_problems()["s6"]
    with pytest.raises(ValueError, match=f"backend is 'mamba_ssm', but selective_scan cannot run so: .*{reason}"):
        scan("mamba_ssm", *leaves)


def test_an_installation_that_is_missing_or_cannot_be_imported(monkeypatch):
    allow(monkeypatch)
    monkeypatch.setitem(sys.modules, "mamba_ssm", None)
    scan, leaves = public_problems()["ssd"]
    with pytest.raises(ValueError, match=r"it is not installed. Install it with: pip install mamba-ssm"):
        scan("mamba_ssm", *leaves)
    put(monkeypatch)
    forget()

    def refuse(name):
        raise OSError(f"libcudart.so: cannot open, for {name}")

    monkeypatch.setattr(_dispatch, "import_module", refuse)
    with pytest.raises(ValueError, match=r"kernels cannot be loaded .libcudart.so: cannot open"):
        scan("mamba_ssm", *leaves)


@standing_in
def test_deterministic_algorithms_are_refused():
    torch.use_deterministic_algorithms(True)
    try:
        for scan, leaves in public_problems().values():
            with pytest.raises(ValueError, match="mamba_ssm adds up gradients in no fixed order"):
                scan("mamba_ssm", *leaves)
    finally:
        torch.use_deterministic_algorithms(False)


@standing_in
@pytest.mark.parametrize(("name", "mode"), [("s6 paths", torch.no_grad), ("ssd", torch.inference_mode)])
def test_training_after_a_first_call_without_gradients(name, mode):
    scan, leaves = public_problems()[name]
    with mode():
        before = scan("mamba_ssm", *leaves)
    assert not any(value.requires_grad for value in before)
    found, _ = run(scan, "mamba_ssm", leaves)
    for value, true in zip(before, found, strict=False):
        torch.testing.assert_close(value, true)


@standing_in
def test_autocast_and_a_default_device_elsewhere_change_nothing():
    scan, leaves = public_problems()["s6"]
    expected, _ = run(scan, "mamba_ssm", leaves)
    forget()
    with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        outputs = scan("mamba_ssm", *leaves)
        with torch.device("cpu"):
            cotangents = [weights(value) for value in outputs]
        grads = torch.autograd.grad(outputs, leaves, cotangents)
    for value, true in zip([*outputs, *grads], expected, strict=True):
        assert torch.equal(value, true)


def test_a_table_of_paths_is_looked_at_once_and_forgotten_with_it(monkeypatch):
    looks, equal = [], torch.equal
    monkeypatch.setattr(torch, "equal", lambda *given: looks.append(None) or equal(*given))
    paths, before = MIXED.clone(), len(_mamba_ssm._known)
    found = [_mamba_ssm._order(paths) for _ in range(3)]
    assert found[0] is found[1] is found[2]
    assert (len(looks), len(_mamba_ssm._known)) == (2, before + 1)
    del paths
    assert len(_mamba_ssm._known) == before


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("operation", [SELECTIVE_SCAN, SSD_SCAN], ids=lambda operation: operation.name)
def test_the_real_kernels(operation, dtype):
    pytest.importorskip("mamba_ssm")
    reason = _dispatch._problem(operation, "mamba_ssm", torch.device("cuda", 0), dtype, True)
    if reason is not None:  # an installation without its extension, or TF32 in the place of float32
        pytest.skip(reason)
    problem = s6_problem if operation is SELECTIVE_SCAN else ssd_problem
    for paths in ORDERS.values():
        arguments = problem(paths)
        narrow = cast(arguments, torch.float32, dtype)
        there = narrow._make(value.to("cuda") if isinstance(value, torch.Tensor) else value for value in narrow)
        scans = (_dispatch._kernel(operation, "mamba_ssm"), operation.plain["naive"])
        given = (there, cast(narrow, torch.float64))
        found = [
            _dispatch._outputs_and_gradients(scan, operation.n_tensors, values)
            for scan, values in zip(scans, given, strict=True)
        ]
        for value, true in zip(*found, strict=True):
            assert (value.cpu().double() - true).norm() <= _dispatch._TOLERANCE[dtype] * true.norm()
