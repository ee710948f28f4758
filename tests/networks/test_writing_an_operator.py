"""The page on writing an operator: its operator runs, keeps both contracts, and its network is what the page says."""

import re
import sys
from pathlib import Path

import pytest
import torch

from skop import LaMORegressor
from skop.data import DataSpec, TargetForm
from skop.parts import Part

PAGE = Path(__file__).parents[2] / "docs" / "writing_an_operator.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Runs a block of the page, or a shorter one, with the operator in the file that the page asks for."""
    (tmp_path / "mean_operator.py").write_text(BLOCKS[0])
    monkeypatch.syspath_prepend(tmp_path)
    names = {}

    def run(number, long="", short=""):
        assert long in BLOCKS[number]
        exec(compile(BLOCKS[number].replace(long, short), str(PAGE), "exec"), names)
        return names

    yield run
    Part.known.pop("Mean", None)
    sys.modules.pop("mean_operator", None)


def test_the_operator_learns_on_grids_and_points(page, capsys):
    kind = page(1)["MeanRegressor"]
    part = Part.known["Mean"]
    assert part.__module__ == "mean_operator"
    # The mean field reaches 0.75 on these data.
    assert float(capsys.readouterr().out.splitlines()[0]) > 0.8
    spec = DataSpec("grid", "fields", TargetForm("array"), 2, 1, 1, 1, (6, 4), n_scalars=2)
    for geometry in ("grid", "structured", "points"):
        outputs = kind()._build_network(spec, geometry)(
            torch.zeros(24, 2), torch.zeros(3, 24, 1), torch.zeros(3, 1), (6, 4)
        )
        assert outputs.field.shape == (3, 24, 1)
        assert outputs.scalars.shape == (3, 2)
    network = LaMORegressor(mixer=part())._build_network(spec, "points")
    assert {type(block.mixer) for block in network.blocks} == {part.module}


@pytest.mark.exhaustive
def test_the_operator_keeps_both_contracts(page, monkeypatch):
    # Neither many epochs nor the search for length scales of the base, most of the time, are part of the contracts.
    monkeypatch.setattr("skop.estimators.classical._length_scales._STEPS", 1)
    page(2, "max_iter=60", "max_iter=6")


def test_the_operator_is_about_fifty_lines():
    assert len(BLOCKS) == 3
    assert len(BLOCKS[0].splitlines()) <= 60
