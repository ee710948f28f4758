"""Cost, pictures and statistics of the data sets."""

import ast
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from benchmarks import _sets
from benchmarks.__main__ import main
from benchmarks._report import read_report
from benchmarks._set_pictures import PICTURES
from benchmarks._sets import SETS, radial_spectrum, statistics_of
from skop import datasets
from skop.datasets import make_darcy
from skop.datasets._full_size import FULL_SIZE

ROOT = Path(__file__).parents[2]
#: Sets that are a variant of another, whose card and picture they share.
VARIANTS = {"fractal_darcy"}


def test_every_generator_is_a_set():
    made = {full.make.__name__.lstrip("_") for full in (chosen.full for chosen in SETS.values())}
    assert made == {name for name in datasets.__all__ if name.startswith("make_")}


def test_tables_name_the_sets():
    pages = [(ROOT / "docs" / page).read_text() for page in ("benchmarks/sets.md", "data/index.md")]
    measured, listed = (re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE) for page in pages)
    assert listed == list(FULL_SIZE)
    # A set whose sample takes minutes may be measured elsewhere; the card has its time then.
    assert set(SETS) - set(measured) <= {"plasticity"}
    assert measured == [name for name in SETS if name in measured]


@pytest.mark.parametrize("name", SETS)
def test_the_test_that_proves_the_solver_exists(name):
    file, *names = SETS[name].proof.split("::")
    nodes = ast.parse((ROOT / "tests/datasets" / file).read_text()).body
    for part in names:
        found = [node for node in nodes if getattr(node, "name", None) == part]
        assert found, part
        nodes = getattr(found[0], "body", [])


def test_every_card_of_a_generator_has_its_picture_and_the_picture_is_not_empty():
    image = pytest.importorskip("PIL.Image")
    cards = {card.parent.name: card.read_text() for card in ROOT.glob("datasets/*/README.md")}
    assert {name for name, text in cards.items() if "| Generate |" in text} == set(PICTURES) == set(SETS) - VARIANTS
    for name in PICTURES:
        path = ROOT / "datasets" / name / "samples.png"
        assert "](samples.png)" in cards[name], name
        assert path.stat().st_size <= 120_000, name
        with image.open(path) as picture:
            pixels = np.asarray(picture.convert("L"))
        assert pixels.shape[1] == 900, name
        # Each of the four columns has more than white paper.
        assert all((part < 128).mean() > 0.01 for part in np.array_split(pixels, 4, axis=1)), name


def test_pictures_are_drawn_by_the_command(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name in ("advection", "moving_hole", "elasticity"):
        (tmp_path / name).mkdir()
        assert main(["sets", name, "--pictures", str(tmp_path)]) == 0
        with (
            image.open(tmp_path / name / "samples.png") as drawn,
            image.open(ROOT / "datasets" / name / "samples.png") as kept,
        ):
            assert drawn.width == kept.width == 900


@pytest.fixture(scope="module", params=["thread", pytest.param("process", marks=pytest.mark.exhaustive)])
def reported(request, tmp_path_factory):
    """The file of a command that measures one set apart, and compares the samples of a recipe."""
    recipe, folder = {"alpha": 3.0, "tau": 10.0, "values": (1.0, 18.0)}, tmp_path_factory.mktemp("sets")
    X, y = make_darcy(4, **recipe, resolution=9, solver_resolution=129, random_state=0)
    arrays = {"a": (X[:, :-1, :-1, 0] > 1).astype(np.uint8), "u": 51 * y[:, :-1, :-1, 0]}
    parts = ("train16", "test16", "test32")
    np.savez(folder / "set.npz", **{f"{part}_{key}": arrays[key] for part in parts for key in "au"})
    words = ["--published", str(folder / "set.npz"), "--samples", "4", "--output", str(folder / "sets.md")]
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "thread":
            # A process takes seconds to import what is here already.
            patched.setattr(_sets, "ProcessPoolExecutor", ThreadPoolExecutor)
        assert main(["sets", "moving_hole", *words]) == 0
    return folder / "sets.md"


def test_the_table_has_the_size_of_what_is_made(reported):
    found = read_report(reported)[0]["moving_hole"]
    X, y = datasets.make_moving_hole(1)
    assert found["bytes"] == X.nbytes + y.coords.nbytes + np.asarray(y.values).nbytes
    assert found["seconds"] > 0 <= found["memory"]
    assert "| `moving_hole` | Poisson, closed form | 40 + 40 x 768 |" in reported.read_text()


def test_samples_of_a_recipe_agree_with_it_at_any_scale_and_with_no_other(reported):
    text = reported.read_text().replace("-0.0", "0.0").replace("+0.0", "0.0")
    assert "| alpha 3, tau 10, ratio 18 | 0.0 | 0.0 | 0.0 | 0.0 |" in text
    assert text.count("| 0.0 | 0.0 | 0.0 | 0.0 |") == 1
    assert "| difference | alpha 3, tau 10, ratio 18 | difference |" in text


def test_an_unknown_set_is_refused(capsys):
    assert main(["sets", "nothing"]) == 2
    assert "there are no sets ['nothing']; choose from advection" in capsys.readouterr().err


@pytest.mark.parametrize(("k", "shell"), [((0, 0), 0), ((3, 0), 3), ((0, 5), 5), ((3, 4), 5), ((1, 1), 1)])
def test_a_wave_has_its_power_in_the_shell_of_its_wave_number(k, shell):
    x = (np.arange(16) + 0.5) / 16
    field = np.cos(k[0] * np.pi * x)[:, np.newaxis] * np.cos(k[1] * np.pi * x)
    axis = np.arange(16)
    n_modes = (np.rint(np.hypot(axis[:, np.newaxis], axis)) == shell).sum()
    expected = np.zeros(16)
    expected[shell] = (field**2).mean() / n_modes
    np.testing.assert_allclose(radial_spectrum(field[np.newaxis])[0], expected, atol=1e-12)


def test_statistics_are_means_over_samples_with_their_standard_errors():
    upper = np.zeros((4, 8, 8))
    upper[0] = upper[1, :4] = 1  # fractions 1, 1/2, 0 and 0
    found = statistics_of(upper, np.arange(4.0)[:, np.newaxis, np.newaxis] * np.ones((8, 8)))
    assert found["fraction of the higher permeability"] == pytest.approx((0.375, np.std([1, 0.5, 0, 0], ddof=1) / 2))
    assert found["pressure, mean"] == pytest.approx((1.5, np.std([0, 1, 2, 3], ddof=1) / 2))
    assert found["pressure, standard deviation"] == (0, 0)
    assert found["power of the pressure, shell 3"] == pytest.approx((0, 0))
