"""Networks without memory: tensors have the shapes and types that they have on a processor."""

import pytest
import torch

from skop.surrogate._building import bounded_building

BOUNDS = {"weights": 1000, "tables": 1000, "modules": 100}
TABLE = "torch.ones(3, 4)"


@pytest.mark.parametrize(
    "expression",
    [
        *("torch.arange(5)", "torch.arange(5.0)", "torch.arange(1, 9, 2)", "torch.arange(4, dtype=torch.float64)"),
        *("torch.linspace(0, 1, 5)", "torch.linspace(0, 1, 5, dtype=torch.float64)", "torch.linspace(0j, 1j, 5)"),
        *("torch.randn(3, 2)", "torch.randn((3, 2))", "torch.randn(3, dtype=torch.float64)"),
        *("torch.arange(4) ** 2", "2.0 ** torch.arange(4)", "torch.arange(4) / 2", "1 / torch.arange(1, 4)"),
        *("1 - torch.ones(3)", "torch.arange(4) % 2", "torch.arange(4).log()", "torch.ones(3, 1) * torch.arange(4)"),
        *("torch.ones(3, dtype=torch.float64) + torch.ones(())", f"{TABLE}.neg_().expm1_()"),
        *(f"{TABLE}.sum()", f"{TABLE}.sum(1)", f"{TABLE}.sum(-1, keepdim=True)", f"{TABLE}.sum((0, 1))"),
        *(f"({TABLE} > 0).sum(1)", f"{TABLE}.int().sum(1)", f"{TABLE}.long().sum(0)", "torch.ones(()).sum(0)"),
        *("torch.ones(3, 0).sum(1)", "torch.nn.Parameter(torch.ones(3, 4)).sum(0).add_(1)"),
        *(f"{TABLE}.repeat(2, 1, 1)", f"{TABLE}.repeat((2, 1))", f"{TABLE}.argsort()", f"{TABLE}.argsort(0)"),
        *("torch.empty(3, 4).normal_(0, 0.1)", f"{TABLE}.sqrt().sin().cos().exp()"),
        # What is on the processor stays there.
        *("(torch.ones(3, device='cpu') * 2).sum(0) + torch.ones(3, device='cpu').repeat(2)",),
        *("torch.stack([(torch.ones(3, device='cpu') * 2).tan(), torch.ones(3, device='cpu')])",),
        "torch.ones(3) * float((torch.ones(2, device='cpu') * 2).sum(0).item())",
    ],
)
def test_shapes_and_types_are_those_on_a_processor(expression):
    expected = eval(expression, {"torch": torch})
    with bounded_building(**BOUNDS):
        found = eval(expression, {"torch": torch})
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert found.is_meta == ("cpu" not in expression or expression.startswith("torch.ones(3) *"))
