"""Laws of scans along sequences and paths: what comes before what, states that are carried on, and the papers."""

import pytest
import torch
from scan_problems import TOKENS, TOLERANCE, WITH_STATE, defined, gradients, make, run

from skop.modules import direction_paths, direction_set
from skop.ops import selective_scan, ssd_scan
from skop.ops._paths import path_table
from skop.ops.ssd_scan._operation import Arguments, path_scan_torch
from skop.ops.ssd_scan._pairs import scan_pairs

BACKENDS = ("torch", "numba")
LINES = ("sequence", "heads")


@pytest.mark.parametrize("backend", BACKENDS)
def test_causality(backend):
    for scan in (*LINES, "paths", "head_paths"):
        (values, order), (other, _) = make(scan, 40, g=1, k=1), make(scan, 40, g=1, k=1, seed=7)
        path = order["paths"][0] if "paths" in order else torch.arange(40)
        for place in (0, 16, 39):
            changed = dict(values)
            for name in TOKENS:
                changed[name] = values[name].detach().clone()
                changed[name][:, path[place:]] = other[name][:, path[place:]].detach()
            first, second = (run(scan, given, backend, **order)[0] for given in (values, changed))
            torch.testing.assert_close(first[:, path[:place]], second[:, path[:place]], **TOLERANCE)
            assert not torch.isclose(first[:, path[place:]], second[:, path[place:]]).any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_with_r_of_one_a_token_sees_only_those_before_it(backend):
    for scan in ("sequence", "paths"):
        values, order = make(scan, 20, g=1, k=1, without=("D",))
        values["R"] = torch.ones_like(values["R"])
        path = order["paths"][0] if "paths" in order else torch.arange(20)
        changed = values | {"x": values["x"].detach().clone()}
        changed["x"][:, path[11]] += 3.0
        first, second = (run(scan, given, backend, **order)[0] for given in (values, changed))
        torch.testing.assert_close(first[:, path[:12]], second[:, path[:12]], **TOLERANCE)
        assert not torch.isclose(first[:, path[12:]], second[:, path[12:]]).any()
        with_skip = run(scan, changed | {"D": torch.full_like(values["R"][..., 0], 2.0)}, backend, **order)[0]
        torch.testing.assert_close(with_skip - second, 2.0 * changed["x"], **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reversal(backend):
    for scan in LINES:
        values, _ = make(scan, 130)
        flipped = {name: value.flip(1) if name in TOKENS else value for name, value in values.items()}
        y, state = run(scan, values, backend, reverse=True)
        y_flipped, state_flipped = run(scan, flipped, backend)
        torch.testing.assert_close((y, state), (y_flipped.flip(1), state_flipped), **TOLERANCE)


@pytest.mark.parametrize("scan", WITH_STATE)
@pytest.mark.parametrize("backend", ["naive", *BACKENDS])
def test_states_are_carried_from_one_part_to_the_next(scan, backend):
    for cut, reverse in ((1, True), (64, False)):
        values, order = make(scan, 100)
        early, late = torch.randperm(cut), torch.randperm(100 - cut)
        parts, orders = [slice(None, cut), slice(cut, None)], [{"reverse": reverse}] * 2
        if "paths" in order:  # each visits the tokens of the first part before those of the second
            orders = [{"paths": torch.stack([part, part.flip(0), part])} for part in (early, late)]
            whole = {"paths": torch.cat([orders[0]["paths"], orders[1]["paths"] + cut], dim=1)}
        else:
            whole, parts = {"reverse": reverse}, parts[:: -1 if reverse else 1]
        state, ys = values["initial_state"], {}
        for part, own in zip(parts, orders, strict=True):
            given = {k: v[:, part] if k in TOKENS else v for k, v in values.items()} | {"initial_state": state}
            ys[part.start or 0], state = run(scan, given, backend, **own)
        y = torch.cat([ys[start] for start in sorted(ys)], dim=1)
        torch.testing.assert_close((y, state), run(scan, values, backend, **whole), **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_impulse_response_of_constant_coefficients(backend):
    length, step = 150, 0.25
    rates, b, c = (torch.tensor([v]).double() for v in ([-0.125, -1.0], [2.0, -1.0], [0.5, 3.0]))
    x = torch.zeros(1, length, 1).double()
    x[:, 0] = 1.0
    maps = [values.expand(1, length, 1, 2) for values in (b, c)]
    elapsed = torch.arange(length).double()[:, None] * step
    y = selective_scan(x, torch.full_like(x, step), rates, *maps, backend=backend)
    expected = (c * b * step * torch.exp(elapsed * rates)).sum(-1)
    torch.testing.assert_close(y.flatten(), expected, **TOLERANCE)
    y = ssd_scan(x[..., None], torch.full_like(x, step), rates[0, :1], *maps, backend=backend)
    expected = (c * b).sum() * step * torch.exp(elapsed * rates[:, :1]).flatten()
    torch.testing.assert_close(y.flatten(), expected, **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_ssd_scan_is_the_selective_scan_of_states_that_share_their_decay(backend):
    values, _ = make("sequence", 50, g=1, without=("dt_bias", "R"))
    step, rates = values["dt"].exp(), values["A"][:, :1]
    given = values | {"dt": step, "A": rates.expand(-1, 3)}
    expected = run("sequence", given, backend, dt_softplus=False)
    heads = {"x": values["x"].unsqueeze(-1), "dt": step, "A": rates.squeeze(-1), "D": values["D"]}
    heads |= {"B": values["B"], "C": values["C"], "initial_state": values["initial_state"].unsqueeze(2)}
    y, end = run("heads", heads, backend)
    torch.testing.assert_close((y.squeeze(-1), end.squeeze(2)), expected, **TOLERANCE)


def test_a_first_call_under_inference_mode_bars_nothing():
    values, _ = make("sequence", 77)
    path_table.cache_clear()
    with torch.inference_mode():
        inside = run("sequence", values, "torch")
    assert not path_table(77, (False, False), torch.device("cpu")).is_inference()
    found = run("sequence", values, "torch")
    torch.testing.assert_close(inside[0].clone(), found[0], rtol=0, atol=0)
    assert all(grad.isfinite().all() for grad in gradients(values, found))


# -- Paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_paths_are_the_sum_of_single_scans(backend):
    for scan, single in (("paths", "sequence"), ("head_paths", "heads")):
        values, order = make(scan, 40, without=("initial_state",))
        whole, _ = run(scan, values, backend, **order)
        total = torch.zeros_like(whole)
        for k, path in enumerate(order["paths"]):
            own = {name: value[k] for name, value in values.items() if name in ("A", "D", "dt_bias", "R")}
            maps = {name: values[name][:, path, k].unsqueeze(2) for name in ("B", "C")}
            given = {"x": values["x"][:, path], "dt": values["dt"][:, path, k], **own, **maps}
            total = total + run(single, given, "naive")[0][:, path.argsort()]
        torch.testing.assert_close(whole, total, **TOLERANCE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_relabelling_the_tokens_relabels_the_output(backend):
    for scan in ("paths", "head_paths"):
        values, order = make(scan, 40)
        names = torch.randperm(40, generator=torch.Generator().manual_seed(5))
        moved = {k: v[:, names] if k in TOKENS else v for k, v in values.items()}
        first, _ = run(scan, values, backend, **order)
        second, _ = run(scan, moved, backend, paths=names.argsort()[order["paths"]])
        torch.testing.assert_close(second, first[:, names], **TOLERANCE)


#: Rows, rows backwards, columns and columns backwards of the grid of 3 x 3 tokens in section 4.3 of GeoMaNO.
CROSS = torch.tensor(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8],
        [8, 7, 6, 5, 4, 3, 2, 1, 0],
        [0, 3, 6, 1, 4, 7, 2, 5, 8],
        [8, 5, 2, 7, 4, 1, 6, 3, 0],
    ]
)


def weights_of(token, paths, backend, *, decay=0.5, shares=None):
    """What each token of the grid adds to the output of one, with constant coefficients, and dt' B = 3."""
    x = torch.zeros(1, 9, 1, dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, 9, len(paths), 1, dtype=torch.float64)
    rates = torch.full((len(paths), 1, 1), decay, dtype=torch.float64).log()
    R = None if shares is None else torch.tensor(shares, dtype=torch.float64).view(-1, 1, 1)
    y = selective_scan(x, one, rates, 3.0 * one, one, paths=paths, R=R, backend=backend)
    (weights,) = torch.autograd.grad(y[0, token, 0], x)
    return weights.flatten()


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_of_the_paper(backend):
    """GeoMaNO, Eqs. 24 and 25: the last state of a row. Section 4.3: four paths through the token in the middle."""
    expected = 3.0 * 0.5 ** torch.arange(8, -1, -1).double()
    torch.testing.assert_close(weights_of(8, CROSS[:1], backend), expected, **TOLERANCE)
    powers = [
        {0: 4, 1: 3, 2: 2, 3: 1, 4: 0},
        {8: 4, 7: 3, 6: 2, 5: 1, 4: 0},
        {0: 4, 3: 3, 6: 2, 1: 1, 4: 0},
        {8: 4, 5: 3, 2: 2, 7: 1, 4: 0},
    ]
    expected = torch.zeros(4, 9).double()
    for path, terms in enumerate(powers):
        for token, power in terms.items():
            expected[path, token] = 3.0 * 0.5**power
        torch.testing.assert_close(weights_of(4, CROSS[path : path + 1], backend), expected[path], **TOLERANCE)
    for shares, times in [(None, 4), ((0, 0, 0, 1), 3), ((0, 0, 1, 1), 2), ((0, 1, 1, 1), 1), ((1, 1, 1, 1), 0)]:
        expected[:, 4] = 3.0 * times / 4  # Bx_4 is there four times, less what the correction takes off
        torch.testing.assert_close(weights_of(4, CROSS, backend, shares=shares), expected.sum(0), **TOLERANCE)


# -- The plain forms of the SSD scan along paths ---------------------------------------------------------------------


def scan_paths(grid, name):
    """Paths of a named set of directions, each followed by its reverse."""
    return direction_paths(tuple(grid), direction_set(len(grid), name, "paper"))


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
    return lambda *arguments: ssd_scan(*arguments[:-1], paths=arguments[-1], backend=backend)


FORMS = {name: by_name(name) for name in ("torch", "naive", "numba", None)} | {"gathered": gathered, "pairs": pairs}


def of_heads(paths, *, shared=False, direct="channel", **sizes):
    """Arguments of the SSD scan for some paths."""
    values, _ = make("head_paths", paths.shape[1], k=len(paths), **({"h": 2, "n": 2} | sizes))
    values = {name: value.detach() for name, value in values.items()}
    if shared:
        values |= {name: values[name][:, :, :1] for name in ("B", "C")}
    values["D"] = {"channel": values["D"], "head": values["D"][..., 0], None: None}[direct]
    return [values[name] for name in ("x", "dt", "A", "B", "C", "D")]


def values_and_gradients(function, arguments):
    """Output, and the gradient of a weighted sum of it by every argument."""
    leaves = [None if tensor is None else tensor.clone().requires_grad_() for tensor in arguments]
    y = function(*leaves)
    weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return [y, *torch.autograd.grad((y * weight).sum(), [leaf for leaf in leaves if leaf is not None])]


@pytest.mark.parametrize(("grid", "scan", "shared", "direct"), [
    ((5,), "forward", False, "head"),
    ((5,), "bidirectional", True, None),
    ((2, 3), "cross", False, "channel"),
    ((2, 2, 2), "row_corners", True, "head"),
    ((1, 1), "cross", False, "head"),
    ((1,), "cross", True, "channel"),
])  # fmt: skip
def test_all_forms_are_the_definition(grid, scan, shared, direct):
    paths = scan_paths(grid, scan)
    arguments = of_heads(paths, shared=shared, direct=direct)
    names = dict(zip(("x", "dt", "A", "B", "C", "D"), arguments, strict=True))
    names["B"], names["C"] = (names[name].expand(-1, -1, len(paths), -1) for name in ("B", "C"))
    skip = 0.0 * names["A"] if direct is None else names["D"]
    names["D"] = skip if skip.ndim == 3 else skip[..., None].expand(-1, -1, 3)
    everywhere = torch.ones(arguments[0].shape[:2], dtype=torch.bool)
    (expected,) = defined("head_pairs", names, everywhere, paths=paths)
    reference = values_and_gradients(lambda *given: FORMS["naive"](*given, paths), arguments)
    for name, form in FORMS.items():
        if name == "pairs" and scan == "forward":
            continue
        y, *found = values_and_gradients(lambda *given, form=form: form(*given, paths), arguments)
        pair = [y, *found], [expected, *reference[1:]]
        torch.testing.assert_close(*pair, rtol=1e-9, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


def test_plain_torch_forms_all_pairs_up_to_128_tokens_only():
    for length in (128, 129):
        paths = scan_paths((length,), "bidirectional")
        arguments = of_heads(paths, b=1, h=1, p=1)
        y = ssd_scan(*arguments, paths=paths, backend="torch")
        assert torch.equal(y, pairs(*arguments, paths)) == (length == 128)
        torch.testing.assert_close(y, gathered(*arguments, paths), **TOLERANCE)


@pytest.mark.parametrize("order", [[[0, 1, 2]], [[0, 1, 2], [0, 1, 2]], [[0, 1, 2], [2, 1, 0], [1, 0, 2]]])
def test_paths_without_their_reverse_are_gathered(order):
    paths = torch.tensor(order)
    arguments = of_heads(paths)
    torch.testing.assert_close(by_name("torch")(*arguments, paths), by_name("naive")(*arguments, paths), **TOLERANCE)


@pytest.mark.parametrize("shared", [False, True])
def test_derivatives_of_all_pairs(shared):
    for grid in ((2, 2), (1,)):
        paths = scan_paths(grid, "cross")
        leaves = [tensor.requires_grad_() for tensor in of_heads(paths, b=1, h=1, p=2, shared=shared)]
        assert torch.autograd.gradcheck(lambda *given, paths=paths: pairs(*given, paths), leaves)
        assert torch.autograd.gradgradcheck(lambda *given, paths=paths: pairs(*given, paths), leaves, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_that_is_forgotten_at_once_leaves_the_own_token(dtype):
    paths = scan_paths((5, 5), "cross")
    x, dt, A, B, C, D = of_heads(paths)
    given = [tensor.to(dtype).requires_grad_() for tensor in (x, torch.ones_like(dt), torch.full_like(A, -50), B, C, D)]
    y = pairs(*given, paths)
    own = (B * C).sum(-1).sum(2)[..., None, None] + D.sum(0)
    torch.testing.assert_close(y, (own * x).to(dtype), rtol=1e-5, atol=1e-5)
    for gradient in torch.autograd.grad(y.square().sum(), given):
        assert gradient.isfinite().all()


def test_vanishing_steps_give_the_direct_term_and_finite_gradients():
    for size in (0.0, 1e-45, 1e-30):
        paths = scan_paths((3, 3), "cross")
        x, dt, A, B, C, D = (tensor.float() for tensor in of_heads(paths))
        given = [tensor.requires_grad_() for tensor in (x, torch.full_like(dt, size), A, B, C, D)]
        y = pairs(*given, paths)
        torch.testing.assert_close(y, D.sum(0) * x)
        for gradient in torch.autograd.grad(y.square().sum(), given):
            assert gradient.isfinite().all()
