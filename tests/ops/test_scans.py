"""Laws of all scans, for each of their forms: definition, reference, derivatives, masks, precision, and refusals."""

import pytest
import torch
from scan_problems import (
    AXES,
    FORMS,
    GRIDS,
    TOKENS,
    TOLERANCE,
    WITH_STATE,
    defined,
    gradients,
    holes,
    make,
    names_of,
    relative_errors,
    run,
)

forms = pytest.mark.parametrize(("scan", "backend"), FORMS)
SELECTIVE = [name for name in AXES if not name.startswith("head")]


@pytest.mark.parametrize(("scan", "backend"), [*((name, "naive") for name in AXES), *FORMS])
def test_definition(scan, backend):
    for masked in (False, True):
        values, order = make(scan, c=2, g=2, h=2, p=2, n=2)
        mask = holes(*values["x"].shape[1 : len(values["x"].shape) - (2 if scan.startswith("head") else 1)])
        mask = mask if masked else torch.ones_like(mask)
        expected = defined(scan, values, mask, **order)
        torch.testing.assert_close(run(scan, values, backend, mask=mask, **order), tuple(expected), **TOLERANCE)


#: Sizes of problems, with what is left out of them; "masked" and "softplus" are for the call.
LINES = [
    {"tokens": (1,)},
    {"tokens": (2,), "g": 1, "k": 1, "without": ("D", "R", "dt_bias", "initial_state"), "softplus": False},
    {"tokens": (63,), "g": 4, "masked": True, "n": 1},
    {"tokens": (64,), "b": 1, "without": ("R",), "masked": True, "softplus": False},
    {"tokens": (65,), "without": ("D", "initial_state"), "c": 130, "n": 2},
    {"tokens": (130,), "without": ("dt_bias", "R"), "c": 37, "g": 1, "h": 1, "p": 1, "k": 2, "masked": True},
    {"tokens": (300,), "without": ("initial_state",), "c": 1, "g": 1, "n": 5},
]
NO_END = [{"tokens": (n,), "return_final_state": False} for n in (20, 140)]
CHUNKS = [{"tokens": (2,), "chunk_size": 1}, {"tokens": (64,), "chunk_size": 7, "g": 4, "masked": True}]
CASES = {
    "sequence": [*LINES, *NO_END],
    "paths": [*LINES, *NO_END],
    "heads": [*LINES, *NO_END, *CHUNKS],
    "head_paths": [*LINES, *NO_END, *CHUNKS],
    "head_pairs": [case | {"k": 2} for case in LINES],
    "plane": [
        {"tokens": (1, 1)},
        {"tokens": (1, 9), "without": ("R",), "softplus": False, "c": 37},
        {"tokens": (9, 1), "without": ("D", "dt_bias"), "masked": True, "n": 1},
        {"tokens": (7, 5), "k": 6, "masked": True, "softplus": False, "c": 1},
        {"tokens": (5, 12), "without": ("D", "R", "dt_bias"), "b": 1, "c": 64},
        {"tokens": (33, 20), "k": 2, "masked": True},
    ],
    "space": [
        {"tokens": (1, 1, 1)},
        {"tokens": (1, 7, 1), "without": ("R",), "softplus": False},
        {"tokens": (4, 1, 5), "without": ("D", "dt_bias"), "masked": True},
        {"tokens": (5, 4, 3), "k": 6, "masked": True},
        {"tokens": (17, 3, 4), "k": 2, "without": ("D", "R", "dt_bias"), "softplus": False},
    ],
}


@forms
def test_reference(scan, backend):
    for case in CASES[scan]:
        sizes = dict(case)
        tokens, masked, softplus = sizes.pop("tokens"), sizes.pop("masked", False), sizes.pop("softplus", True)
        options = {name: sizes.pop(name) for name in ("chunk_size", "return_final_state") if name in sizes}
        values, order = make(scan, *tokens, **sizes)
        if not softplus and scan in SELECTIVE:
            values |= {"dt": values["dt"].detach().exp().requires_grad_(), "dt_bias": None}
            options["dt_softplus"] = False
        options |= order | {"mask": holes(*tokens, batch=len(values["x"])) if masked else None}
        fast, slow = (run(scan, values, choice, **options) for choice in (backend, "naive"))
        found = (*fast, *gradients(values, fast)), (*slow, *gradients(values, slow))
        torch.testing.assert_close(*found, **TOLERANCE, msg=lambda text, case=case: f"{case}: {text}")


@pytest.mark.parametrize(("scan", "tokens", "sizes"), [
    ("sequence", (40,), {"b": 9, "c": 640, "n": 16}),
    ("plane", (19, 41), {"b": 5, "c": 200, "k": 1}),
])  # fmt: skip
def test_large_problems_are_cut_into_blocks(scan, tokens, sizes):
    values, order = make(scan, *tokens, **sizes)
    fast, slow = (run(scan, values, choice, **order) for choice in ("torch", "naive"))
    torch.testing.assert_close((*fast, *gradients(values, fast)), (*slow, *gradients(values, slow)), **TOLERANCE)


# -- Derivatives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scan", "backend"), [*((name, "naive") for name in AXES), *FORMS])
def test_first_and_second_derivatives(scan, backend):
    tokens = {"plane": (2, 2), "space": (2, 1, 2)}.get(scan, (4,))
    values, order = make(scan, *tokens, b=1, c=2, k=2, h=2, p=1, n=2)
    mask = torch.ones(1, *tokens, dtype=torch.bool)
    mask.view(-1)[1] = False

    def function(*arguments):
        return run(scan, dict(zip(values, arguments, strict=True)), backend, mask=mask, **order)

    assert torch.autograd.gradcheck(function, tuple(values.values()))
    assert torch.autograd.gradgradcheck(function, tuple(values.values()), fast_mode=True)


@forms
def test_derivatives_of_one_output_and_by_one_argument(scan, backend):
    def derivatives(choice, names, part, graph=False):
        values, order = make(scan)
        values = {name: value.detach().requires_grad_(name in names) for name, value in values.items()}
        output = run(scan, values, choice, **order)[part]
        return torch.autograd.grad(output.sin().sum(), [values[name] for name in names], create_graph=graph)

    whole = names_of(scan)
    wanted = [([name], 0, graph) for name in whole for graph in (False, True)]
    wanted += [(whole, 0, False), (whole, 0, True)]
    if scan in WITH_STATE:
        wanted.append(([name for name in whole if name not in ("C", "D", "R")], 1, False))
    for names, part, graph in wanted:
        found, expected = (derivatives(choice, names, part, graph) for choice in (backend, "naive"))
        torch.testing.assert_close(found, expected, **TOLERANCE, msg=lambda text, names=names: f"{names}: {text}")


@forms
def test_second_derivative_where_arguments_depend_on_each_other(scan, backend):
    values, order = make(scan)
    sizes = {name: value.detach() for name, value in values.items()}

    def penalty(choice):
        base = torch.linspace(0.1, 0.9, 4, dtype=torch.float64, requires_grad=True)
        given = {name: value * base[number % 4] for number, (name, value) in enumerate(sizes.items())}
        (slope,) = torch.autograd.grad(run(scan, given, choice, **order)[0].square().sum(), base, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), base)[0]

    torch.testing.assert_close(penalty(backend), penalty("naive"), **TOLERANCE)


@forms
def test_backward_leaves_the_cotangent_and_what_it_kept_alone(scan, backend):
    values, order = make(scan)
    (y, *_), leaves = run(scan, values, backend, **order), list(values.values())
    cotangent = torch.randn_like(y)
    before = cotangent.clone()
    first = torch.autograd.grad(y, leaves, cotangent, retain_graph=True, allow_unused=True)
    second = torch.autograd.grad(y, leaves, cotangent, retain_graph=True, allow_unused=True)
    torch.testing.assert_close((cotangent, *second), (before, *first), rtol=0, atol=0)
    expanded = torch.autograd.grad(y.sum(), leaves, retain_graph=True)
    torch.testing.assert_close(expanded, torch.autograd.grad(y, leaves, torch.ones_like(y)), **TOLERANCE)


# -- What the inputs may be ------------------------------------------------------------------------------------------


@forms
def test_linear_in_the_input_the_start_and_the_correction(scan, backend):
    (values, order), (other, _) = make(scan), make(scan, seed=1)
    linear = [name for name in ("x", "initial_state") if name in values]
    mixed = values | {name: 2 * values[name] - other[name] for name in linear}
    both = run(scan, values, backend, **order), run(scan, values | {k: other[k] for k in linear}, backend, **order)
    expected = tuple(2 * one - two for one, two in zip(*both, strict=True))
    torch.testing.assert_close(run(scan, mixed, backend, **order), expected, **TOLERANCE)
    if "R" in values:
        ones = torch.ones_like(values["R"])
        none, half, one, zero = (
            run(scan, values | {"R": share}, backend, **order)[0] for share in (None, 0.3 * ones, ones, 0 * ones)
        )
        torch.testing.assert_close(half, 0.7 * none + 0.3 * one, **TOLERANCE)
        torch.testing.assert_close(zero, none, **TOLERANCE)


@forms
def test_what_masked_tokens_hold_changes_nothing(scan, backend):
    for softplus in (True, False) if scan in SELECTIVE else (True,):
        values, order = make(scan)
        if not softplus:
            values |= {"dt": values["dt"].detach().exp().requires_grad_(), "dt_bias": None}
            order = order | {"dt_softplus": False}
        tokens = values["B"].ndim - 3
        mask, spoiled = holes(*values["x"].shape[1 : 1 + tokens]), dict(values)
        for name in TOKENS:
            hidden = ~mask.view(*mask.shape, *(1,) * (values[name].ndim - mask.ndim))
            spoiled[name] = values[name].detach().masked_fill(hidden, torch.nan).requires_grad_()
        found, expected = (run(scan, given, backend, mask=mask, **order) for given in (spoiled, values))
        torch.testing.assert_close(found, expected, **TOLERANCE)
        assert (found[0][~mask] == 0).all()
        torch.testing.assert_close(gradients(spoiled, found), gradients(values, expected), **TOLERANCE)
        if scan in WITH_STATE:  # and a sample that is masked as a whole keeps its state
            whole = torch.tensor([[True], [False]]).expand_as(mask)
            y, state = run(scan, spoiled | {"initial_state": values["initial_state"]}, backend, mask=whole, **order)
            torch.testing.assert_close(state[1], values["initial_state"][1], rtol=0, atol=0)
            assert (y[1] == 0).all()


@forms
def test_strided_arguments(scan, backend):
    values, order = make(scan)
    values = {name: value.detach() for name, value in values.items()}
    strided = {k: v.transpose(0, -1).contiguous().transpose(0, -1) for k, v in values.items()}
    turned = {k: v.T.contiguous().T if k == "paths" else v for k, v in order.items()}
    expected = run(scan, values, "naive", **order)
    found = run(scan, strided, backend, **turned)
    torch.testing.assert_close(found, expected, **TOLERANCE)
    assert scan != "heads" or found[0].is_contiguous()
    shared = values | {"x": values["x"][:1].expand_as(values["x"]), "B": values["B"][:, :1].expand_as(values["B"])}
    found, expected = (run(scan, shared, choice, **order) for choice in (backend, "naive"))
    torch.testing.assert_close(found, expected, **TOLERANCE)


@forms
def test_nan_is_not_lost(scan, backend):
    for name in names_of(scan):
        values, order = make(scan)
        values = {k: v.detach().clone() for k, v in values.items()}
        values[name].view(-1)[-1] = torch.nan
        found, expected = (run(scan, values, choice, **order) for choice in (backend, "naive"))
        assert expected[0].isnan().any(), name
        for output, true in zip(found, expected, strict=True):
            hit = output.isnan()[true.isnan()]
            # Of all pairs of tokens, the first token of a path does not meet the decay.
            assert hit.any() if (scan, name) == ("head_pairs", "A") else hit.all(), name


# -- Precision -------------------------------------------------------------------------------------------------------


@forms
def test_float32_error_of_many_tokens(scan, backend):
    tokens = {"plane": (40, 44), "space": (16, 14, 12), "head_pairs": (64,)}.get(scan, (4096,))
    values, order = make(scan, *tokens, b=1, k=2, dtype=torch.float32)
    exact = {name: value.detach().double().requires_grad_() for name, value in values.items()}
    found, expected = run(scan, values, backend, **order), run(scan, exact, "torch", **order)
    pairs = (*found, *gradients(values, found)), (*expected, *gradients(exact, expected))
    errors = relative_errors(*pairs)
    assert max(errors) < 1e-5, errors


@forms
def test_low_precision_is_rounded_once_at_the_end(scan, backend):
    dtype = torch.bfloat16 if backend == "torch" else torch.float16
    values, order = make(scan, dtype=dtype)
    exact = {name: value.detach().double() for name, value in values.items()}
    found, expected = run(scan, values, backend, **order), run(scan, exact, "naive", **order)
    assert [output.dtype for output in found] == [dtype, torch.float32][: len(found)]
    # Half a unit in the last digit, and no more for the sums.
    bound = {"rtol": torch.finfo(dtype).eps / 2, "atol": 1e-4}
    torch.testing.assert_close(found[0].double(), expected[0], **bound)
    torch.testing.assert_close(found[1:], tuple(output.float() for output in expected[1:]), rtol=1e-5, atol=1e-5)
    for grad, value in zip(gradients(values, found), values.values(), strict=True):
        assert (grad.dtype, grad.shape) == (dtype, value.shape)


@forms
def test_autocast_has_no_influence(scan, backend):
    values, order = make(scan, dtype=torch.float32)
    found = run(scan, values, backend, **order)
    expected = (*found, *gradients(values, found))
    with torch.autocast("cpu", torch.bfloat16):
        found = run(scan, values, backend, **order)
        # All pairs leave a product to autograd, which follows autocast where the backward pass is within it, too.
        inside = gradients(values, found) if scan != "head_pairs" else None
    inside = inside or gradients(values, found)
    torch.testing.assert_close((*found, *inside), expected, rtol=0, atol=0)


@forms
def test_strong_decay_neither_overflows_nor_loses_the_own_token(scan, backend):
    for tokens in [(12, 15)] if scan == "plane" else [(6, 5, 7)] if scan == "space" else [(40,), (200,)]:
        values, order = make(scan, *tokens, dtype=torch.float32, without=("D", "R", "dt_bias", "initial_state"))
        values |= {"dt": torch.ones_like(values["dt"]), "A": torch.full_like(values["A"], -50.0)}
        values = {name: value if value is None else value.requires_grad_() for name, value in values.items()}
        options = {} if scan.startswith("head") else {"dt_softplus": False}
        y, *_ = run(scan, values, backend, **options, **order)
        own = (values["B"] * values["C"]).sum(-1)  # of each group or path
        own = own.repeat_interleave(2, dim=-1) if scan in ("sequence", "heads") else own.sum(-1, keepdim=True)
        own = own.unsqueeze(-1) if scan.startswith("head") else own
        torch.testing.assert_close(y, own * values["x"], rtol=1e-5, atol=1e-5)
        assert all(grad.isfinite().all() for grad in gradients(values, [y]))


@forms
def test_weak_decay_adds_up_the_inputs(scan, backend):
    tokens = {"plane": (9, 11), "space": (4, 5, 6), "head_pairs": (100,)}.get(scan, (300,))
    values, order = make(scan, *tokens, without=("D", "R", "dt_bias", "initial_state"), g=1, k=2, c=1, h=1, p=1, n=1)
    values = {name: None if value is None else torch.ones_like(value) for name, value in values.items()}
    values |= {"dt": 1e-3 * values["dt"], "A": -1e-6 * values["A"]}
    single = {name: None if value is None else value.float() for name, value in values.items()}
    options = order if scan.startswith("head") else {"dt_softplus": False, **order}
    found, expected = run(scan, single, backend, **options), run(scan, values, "naive", **options)
    torch.testing.assert_close(found[0].double(), expected[0], rtol=1e-5, atol=0)


# -- Refusals --------------------------------------------------------------------------------------------------------

SHAPES = {  # of a sequence of 5 tokens, and of grids of 4 x 5 and 3 x 4 x 5
    "sequence": [
        ("x", (2, 3, 4, 1), r"\(2, 3, 4, 1\); expected \(batch, length, channels\)"),
        ("x", (2, 0, 4), "none of them 0"),
        ("x", (0, 5, 4), "none of them 0"),
        ("x", (2, 5, 0), "none of them 0"),
        ("B", (2, 5, 2, 0), "none of them 0"),
        ("dt", (2, 5), r"\(2, 5\); expected \(batch, length, channels\) = \(2, 5, 4\)"),
        ("A", (4,), r"\(4,\); expected \(channels, d_state\) = \(4, 3\)"),
        ("B", (2, 5, 10), r".* expected \(batch, length, groups, d_state\)"),
        ("B", (2, 6, 2, 3), r".* = \(2, 5, 2, 3\)"),
        ("C", (2, 5, 2, 4), r".* d_state\) = \(2, 5, 2, 3\)"),
        ("D", (3,), r"\(3,\); expected \(channels,\) = \(4,\)"),
        ("dt_bias", (3,), r"\(3,\); expected \(channels,\) = \(4,\)"),
        ("R", (4,), r"\(4,\); expected \(channels, d_state\) = \(4, 3\)"),
        ("initial_state", (2, 5, 4), r".* = \(2, 4, 3\)"),
        ("mask", (2, 4), r"\(2, 4\)"),
    ],
    "paths": [
        ("x", (2, 3), r"\(2, 3\); expected \(batch, length, channels\)"),
        ("dt", (2, 5, 4), r"\(2, 5, 4\); expected .* = \(2, 5, 3, 4\)"),
        ("A", (3, 4), r"\(3, 4\); expected .* = \(3, 4, 3\)"),
        ("B", (2, 6, 3, 3), r".* = \(2, 5, 3, 3\)"),
        ("C", (2, 5, 2, 3), r".* d_state\) = \(2, 5, 3, 3\)"),
        ("D", (4,), r"\(4,\); expected \(n_paths, channels\) = \(3, 4\)"),
        ("dt_bias", (4,), r"\(4,\)"),
        ("R", (3, 4), r"\(3, 4\); expected \(n_paths, channels, d_state\) = \(3, 4, 3\)"),
        ("initial_state", (2, 4, 3), r".* = \(2, 3, 4, 3\)"),
    ],
    "heads": [
        ("x", (2, 3, 4), r"\(2, 3, 4\); expected \(batch, length, heads, head_dim\)"),
        ("x", (2, 0, 4, 3), "none of them 0"),
        ("dt", (2, 5), r"\(2, 5\); expected .* = \(2, 5, 4\)"),
        ("A", (3,), r"\(3,\); expected \(heads,\) = \(4,\)"),
        ("B", (2, 5, 10), r".* expected \(batch, length, groups, d_state\)"),
        ("B", (2, 6, 2, 3), r".* = \(2, 5, 2, 3\)"),
        ("C", (2, 5, 2, 4), r".* d_state\) = \(2, 5, 2, 3\)"),
        ("D", (3,), r"\(3,\); expected \(heads,\) or \(heads, head_dim\)"),
        ("initial_state", (2, 4, 5, 3), r".* = \(2, 4, 3, 3\)"),
        ("mask", (2, 4), r"\(2, 4\)"),
    ],
    "head_paths": [
        ("dt", (2, 5, 3, 3), r".* = \(2, 5, 3, 4\)"),
        ("A", (3, 3), r".* = \(3, 4\)"),
        ("B", (2, 4, 3, 3), ""),
        ("C", (2, 5, 3, 2), ""),
        ("D", (3, 4, 2), ""),
        ("initial_state", (2, 4, 3, 3), r".* = \(2, 3, 4, 3, 3\)"),
    ],
    "plane": [
        ("x", (2, 3, 4), r"\(2, 3, 4\); expected \(batch, height, width, channels\)"),
        ("x", (2, 0, 5, 4), "none of them 0"),
        ("dt", (2, 4, 5, 4), r"\(2, 4, 5, 4\); expected .* = \(2, 4, 5, 3, 4\)"),
        ("A", (3, 4), r"\(3, 4\); expected .* = \(3, 4, 3\)"),
        ("B", (2, 5, 4, 3, 3), r".* = \(2, 4, 5, 3, 3\)"),
        ("C", (2, 4, 5, 3, 4), r".* d_state\) = \(2, 4, 5, 3, 3\)"),
        ("D", (4,), r"\(4,\); expected \(n_directions, channels\) = \(3, 4\)"),
        ("dt_bias", (4,), r"\(4,\)"),
        ("R", (3, 4), r"\(3, 4\); expected \(n_directions, channels, d_state\) = \(3, 4, 3\)"),
        ("mask", (2, 5, 4), r"\(2, 5, 4\); expected .* = \(2, 4, 5\)"),
    ],
    "space": [
        ("x", (2, 3, 4, 5), r".*; expected \(batch, depth, height, width, channels\)"),
        ("x", (2, 0, 4, 5, 4), "none of them 0"),
        ("dt", (2, 3, 4, 5, 4), r".* \(batch, depth, height, width, n_.*\) = \(2, 3, 4, 5, 3, 4\)"),
        ("B", (2, 4, 3, 5, 3, 3), r".* = \(2, 3, 4, 5, 3, 3\)"),
        ("B", (2, 3, 4, 5, 3), r".*; expected \(batch, depth, height, width, n_directions, d_state"),
        ("C", (2, 3, 4, 5, 3, 4), r".* d_state\) = \(2, 3, 4, 5, 3, 3\)"),
        ("mask", (2, 4, 3, 5), r".* = \(2, 3, 4, 5\)"),
    ],
}
ONES = torch.ones
OPTIONS = [
    ("sequence", {"x": ONES(2, 5, 3), "dt": ONES(2, 5, 3), "D": None}, "x has 3 channels and B has 2 groups"),
    ("heads", {"B": ONES(2, 5, 3, 3)}, "x has 4 heads and B has 3 groups"),
    ("sequence", {"R": ONES(4, 3, dtype=torch.complex64)}, "R has dtype torch.complex64"),
    ("sequence", {"A": ONES(4, 3, device="meta")}, "A is on meta; expected cpu, where x is"),
    ("sequence", {"reverse": (True,)}, "reverse is .* one for each of the 2 groups"),
    ("heads", {"reverse": (1, 0)}, "reverse is"),
    ("heads", {"chunk_size": 0}, "chunk_size is 0; expected an integer of at least 1"),
    ("head_paths", {"chunk_size": 0}, "chunk_size is 0"),
    ("paths", {"reverse": True}, "reverse is True; with paths expected False: add the reversed path"),
    ("head_paths", {"reverse": True}, "reverse is True; with paths expected False: add the reversed path"),
    ("paths", {"paths": torch.zeros(3, 4, dtype=torch.int64)}, r"paths has shape \(3, 4\); expected .* = \(3, 5\)"),
    ("head_paths", {"paths": torch.zeros(3, 4, dtype=torch.int64)}, r"paths has shape \(3, 4\)"),
    ("paths", {"paths": torch.zeros(3, 5)}, "paths has dtype torch.float32"),
    ("paths", {"paths": torch.arange(5).expand(3, 5) + 1}, "values from 1 to 5; expected the positions 0 to 4"),
    ("paths", {"paths": torch.tensor([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [0, 1, 2, 3, 3]])}, r"twice in rows \[2\]"),
    ("plane", {"directions": ((2, 1),)}, "directions has 1 entries; expected 3"),
    ("plane", {"directions": (2, 1, 2)}, "directions has 2; expected pairs of the axes 1 and 2"),
    ("plane", {"directions": ((2, 1), (2, -2), (1, 2))}, r"directions has \(2, -2\)"),
    ("plane", {"directions": ((2, 1), (0, 1), (1, 2))}, r"directions has \(0, 1\)"),
    ("plane", {"directions": ((2, 1), (2, 1, 3), (1, 2))}, r"directions has \(2, 1, 3\)"),
    ("plane", {"directions": ("21", "12", "21")}, "directions has .21."),
    ("space", {"directions": (3, 2, 1)}, "directions has 3; expected triples of the axes 1, 2 and 3"),
    ("space", {"directions": ((3, 2, 1), (2, 1), (1, 2, 3))}, r"directions has \(2, 1\); expected triples"),
    ("space", {"directions": ((3, 2, 1), (1.0, 2.0, 3.0), (1, 2, 3))}, r"directions has \(1.0, 2.0, 3.0\)"),
    *((scan, {"correction": "State"}, "correction is 'State'; expected one of .'state', 'output', 'input'.")
      for scan in SELECTIVE),
    *((scan, {"correction": "State", "R": None}, "correction is 'State'") for scan in GRIDS),
    *((scan, {"backend": "fast"}, "backend is 'fast'; expected None or one of") for scan in AXES),
]  # fmt: skip


@pytest.mark.parametrize("scan", AXES)
def test_errors_name_the_argument(scan):
    values, order = make(scan, *{"plane": (4, 5), "space": (3, 4, 5)}.get(scan, (5,)))
    batch = {"mask": ONES(2, *values["x"].shape[1 : values["B"].ndim - 2])}
    refused = [({"dt": values["dt"].long()}, "dt has dtype torch.int64"), (batch, "mask has dtype torch.float32")]
    for name, shape, words in SHAPES.get(scan, ()):
        value = ONES(shape, dtype=torch.bool if name == "mask" else torch.float64)
        refused.append(({name: value}, words if words.startswith("none") else f"^{name} has shape {words}"))
    refused += [(change, words) for name, change, words in OPTIONS if name == scan]
    for change, words in refused:
        backend = change.get("backend", "torch")
        options = values | order | {key: value for key, value in change.items() if key != "backend"}
        with pytest.raises(ValueError, match=words):
            run(scan, options, backend)
    with pytest.raises(TypeError, match=r"B is ndarray; expected a tensor: torch.as_tensor\(B\)"):
        run(scan, values | order | {"B": values["B"].detach().numpy()}, "torch")
