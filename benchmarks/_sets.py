"""All data sets that skop can make: cost of a sample at full size, pictures, and statistics beside a published set.

The table has a fresh process for each set. Time is that of the processor for one sample, the mean of up to three after
a first one, or of the first where that takes above a second. Memory is what the process came to hold beyond imports.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from scipy.fft import dctn

from benchmarks._kernel_runs import peak_memory, start_peak
from benchmarks._problems import read_problem
from benchmarks._report import Report
from benchmarks._set_pictures import PICTURES, draw_samples
from skop import datasets
from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._full_size import FULL_SIZE, FullSize, arrays_of
from skop.exceptions import FieldDataError

__all__ = ["SETS", "add_command", "radial_spectrum", "statistics_of"]


@dataclass(frozen=True)
class _Set:
    """A data set: what it solves, the test that proves the solver (in tests/datasets), and its full size."""

    equations: str
    proof: str
    full: FullSize


def _make_cantilever(n_samples: int, **options: Any) -> tuple[FloatArray, FieldSet]:
    """Parameters, and displacement and stress as one field."""
    data = datasets.make_cantilever(n_samples, **options)
    return data.params, FieldSet(data.coords, np.concatenate([data.displacement, data.stress], axis=-1))


_NOTE = (
    "Sets of `skop data make NAME` have the size of their papers, others that of their cards. Seconds are those of the "
    "processor for one sample made alone: the mean of three after a first one, or the first where it takes above a "
    "second. Memory is the peak while samples are made one by one, beyond that of the imports. The size is that of the "
    "arrays of all samples, with the coordinates of their points."
)
_NOTE_RECIPES = (
    "Samples of `make_darcy` beside the training samples of the published file, which states neither permeabilities "
    "nor the scale of the pressure nor the law of the field. `ratio`: the higher permeability over the lower. Ours are "
    'solved with `placement="node"` on a grid 16 times as fine, taken at the published points i / N, and scaled to the '
    "published mean pressure, which the linearity of the equation allows. Numbers are differences in standard errors "
    "of the two means over samples; for spectra, the largest over shells 1 to 8. The common mean makes those of the "
    "pressure smaller than chance alone would."
)
_NOTE_STATISTICS = (
    "Means over samples with their standard errors, and differences in standard errors, for the recipe of the paper "
    "and for that recipe above with the least sum of squares. Shell k of a spectrum holds the cosine modes whose wave "
    "number, in half waves across the square, rounds to k. Powers of the permeability are those of a field that is 1 "
    "where the permeability is higher, and 0 elsewhere."
)

#: Sets that are no paper's, at the size of their cards.
_OWN = {
    "antiderivative": FullSize(
        datasets.make_antiderivative, 150, 100, {"query_points": np.sort(np.random.default_rng(2).random(200))}
    ),
    "cantilever": FullSize(_make_cantilever, 500, 100),
    "joukowski": FullSize(datasets.make_joukowski, 30, 50),
    "moving_hole": FullSize(datasets.make_moving_hole, 40, 40),
    "wake": FullSize(datasets.make_wake, 48, 47),
}
#: What each solves, and the test that proves the solver.
_DESCRIPTIONS = {
    "advection": ("linear advection, periodic", "test_advection.py::TestExact::test_every_wave_is_shifted"),
    "airfoil": (
        "steady compressible Euler",
        "test_airfoil.py::TestSolver::test_residual_of_an_exact_flow_is_of_second_order",
    ),
    "antiderivative": (
        "integration in x",
        "test_antiderivative.py::test_the_derivative_of_the_target_is_the_input",
    ),
    "brusselator": ("forced reaction-diffusion", "test_brusselator.py::TestSolver::test_equals_another_integrator"),
    "cantilever": ("linear elasticity, 3-D", "test_cantilever.py::TestBeams::test_deflection_is_timoshenkos"),
    "darcy": ("steady Darcy flow", "test_darcy.py::TestSolver::test_second_order"),
    "diffusion_reaction": (
        "FitzHugh-Nagumo reaction-diffusion",
        "test_diffusion_reaction.py::TestSolver::test_equals_another_integrator",
    ),
    "elasticity": (
        "hyperelastic plane stress",
        "test_elasticity.py::TestStress::test_a_small_void_concentrates_stress_three_times",
    ),
    "european_option": (
        "Black-Scholes, closed form",
        "test_european_option.py::TestPrice::test_obeys_the_black_scholes_equation",
    ),
    "fractal_darcy": ("high-contrast Darcy flow", "test_fractal_darcy.py::TestSolver::test_manufactured_solution"),
    "joukowski": (
        "potential flow, closed form",
        "test_joukowski.py::test_force_of_the_pressure_is_the_lift_and_no_drag",
    ),
    "moving_hole": ("Poisson, closed form", "test_moving_hole.py::test_poisson_equation"),
    "navier_stokes": (
        "incompressible Navier-Stokes, periodic",
        "test_navier_stokes.py::TestEquation::test_vortices_of_taylor_and_green_decay_exactly",
    ),
    "pdebench_darcy": (
        "steady Darcy flow",
        "test_darcy.py::TestPDEBenchSolver::test_converges_to_the_flow_on_the_unit_square",
    ),
    "pipe": ("steady incompressible Navier-Stokes", "test_pipe.py::TestFlow::test_poiseuille_in_the_straight_pipe"),
    "plasticity": (
        "elastic-plastic dynamic contact",
        "test_elastoplastic.py::TestSheet::test_slow_compression_between_flat_dies_reaches_the_closed_form",
    ),
    "shallow_water": ("shallow water", "test_shallow_water.py::TestSolver::test_dam_between_two_depths"),
    "wake": (
        "potential vortex street, closed form",
        "test_wake.py::test_no_divergence_and_no_vorticity_outside_of_point_vortices",
    ),
}
#: All sets by their names.
SETS = {name: _Set(*_DESCRIPTIONS[name], full) for name, full in sorted((FULL_SIZE | _OWN).items())}


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Where to add it.
    """
    parser = commands.add_parser("sets", help=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="sets to measure or to draw; all by default", metavar="NAME")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw NAME/samples.png here, measure nothing")
    parser.add_argument(
        "--published", metavar="FILE", help="also compare with the small Darcy set of the neuraloperator project"
    )
    parser.add_argument("--samples", type=int, default=300, help="samples of each recipe in that comparison")
    parser.add_argument("--output", help="Markdown file to write; what the JSON file beside it has is kept")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Draw, or measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    if unknown := set(options.names) - set(SETS):
        raise FieldDataError(f"there are no sets {sorted(unknown)}; choose from {', '.join(SETS)}.")
    names = options.names or list(SETS)
    if options.pictures:
        for name in (name for name in names if name in PICTURES):
            draw_samples(name, SETS[name].full, options.pictures / name / "samples.png")
        return
    report = Report("Data sets", options.output)
    report.resume()
    _table(report, names)
    if options.published:
        _compare(report, options.published, options.samples)


# ------------------------------------------------------------------------------------------------ cost of a sample
def _table(report: Report, names: list[str]) -> None:
    """Measure one to four samples of each set."""
    rows = []
    for name in names:
        chosen = SETS[name]
        if name not in report.numbers:
            with ProcessPoolExecutor(1) as pool:
                report.record(name, pool.submit(_measure, name).result())
        found = report.numbers[name]
        counts = f"{chosen.full.n_train:,} + {chosen.full.n_test:,} x {' x '.join(map(str, found['points']))}"
        size = found["bytes"] * (chosen.full.n_train + chosen.full.n_test) + found["shared_bytes"]
        rows.append(
            [
                f"`{name}`", chosen.equations, counts, f"{found['seconds']:.2g}", f"{found['memory']:.0f} MB",
                f"{size / 1e6:.3g} MB" if size < 1e9 else f"{size / 1e9:.1f} GB", f"`tests/datasets/{chosen.proof}`",
            ]
        )  # fmt: skip
    columns = [
        "NAME", "equations", "samples to train + to test x points", "seconds for a sample, one core", "memory",
        "size of the set", "test of the solver",
    ]  # fmt: skip
    report.table("All sets at full size", columns, rows, _NOTE)


def _measure(name: str) -> dict[str, Any]:
    """Time and memory of samples made one by one, and the arrays of a sample; for a process of its own."""
    full = SETS[name].full
    before = start_peak("cpu")
    seconds: list[float] = []
    # The first sample of a quick set pays for imports and tables; a slow one is not made again.
    while len(seconds) < 4 and sum(seconds) < 1:
        start = time.process_time()
        made = full.make(1, random_state=len(seconds), **full.options)
        seconds.append(time.process_time() - start)
    arrays = arrays_of(*made)
    own, shared = (sum(a.nbytes for a, is_shared in arrays.values() if is_shared is kind) for kind in (False, True))
    timed = seconds[1:] or seconds
    return {
        "seconds": float(np.mean(timed)),
        "samples": len(timed),
        "memory": (peak_memory("cpu") - before) / 1e6,
        "bytes": own,
        "shared_bytes": shared,
        "points": arrays["y"][0].shape[1:-1],
    }


# ---------------------------------------------------------------------------------- statistics beside a published set
#: Recipes: smoothness alpha and inverse length tau of the random field, and the ratio of the permeabilities. The first
#: is that of the paper; the others change the field, the ratio, or both.
_PAPER = (2.0, 3.0, 4.0)
_RECIPES = (_PAPER, (2.0, 3.0, 18.0), (3.0, 10.0, 4.0), (2.0, 6.0, 18.0), (3.0, 10.0, 18.0), (3.0, 10.0, 25.0))
#: Shells of wave numbers in the table.
_SHELLS = 8
Statistics = dict[str, tuple[float, float]]


def radial_spectrum(fields: FloatArray) -> FloatArray:
    """Mean power of the cosine modes of each shell of wave numbers.

    Parameters
    ----------
    fields : ndarray of shape (n, N, N)
        Fields on N x N evenly spaced points.

    Returns
    -------
    ndarray of shape (n, N)
        Shell k holds the modes whose wave number ``|k|``, in half waves across the square, rounds to k.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks._sets import radial_spectrum
    >>> x = (np.arange(8) + 0.5) / 8
    >>> wave = np.sqrt(2) * np.cos(3 * np.pi * x)[None, :, None] * np.ones(8)
    >>> (5 * radial_spectrum(wave)[0]).round(6).tolist()
    [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    """
    n_points = fields.shape[-1]
    power = dctn(fields, axes=(1, 2), norm="ortho") ** 2 / n_points**2
    axis = np.arange(n_points)
    shells = np.rint(np.hypot(axis[:, np.newaxis], axis)).astype(int)
    return np.stack([power[:, shells == shell].mean(axis=1) for shell in axis], axis=1)


def statistics_of(upper: FloatArray, pressure: FloatArray) -> Statistics:
    """Means over samples with their standard errors.

    Parameters
    ----------
    upper : ndarray of shape (n, N, N)
        1 where the permeability is the higher one, and 0 elsewhere.
    pressure : ndarray of shape (n, N, N)
        Pressure.

    Returns
    -------
    dict of tuple of two floats
        Mean and standard error by the name of the quantity.
    """
    flat = pressure.reshape(len(pressure), -1)
    rows = {
        "fraction of the higher permeability": upper.mean(axis=(1, 2)),
        "fraction of the lower permeability": 1 - upper.mean(axis=(1, 2)),
        "pressure, mean": flat.mean(axis=1),
        "pressure, standard deviation": flat.std(axis=1),
        "pressure, lowest": flat.min(axis=1),
        "pressure, highest": flat.max(axis=1),
    }
    for name, fields in (("permeability", upper), ("pressure", pressure)):
        powers = radial_spectrum(fields)[:, 1 : _SHELLS + 1]
        rows |= {f"power of the {name}, shell {shell}": power for shell, power in enumerate(powers.T, start=1)}
    return {name: (float(row.mean()), float(row.std(ddof=1) / np.sqrt(len(row)))) for name, row in rows.items()}


def _compare(report: Report, path: str, n_samples: int) -> None:
    """Compare samples of recipes with the training samples of a published file."""
    data = read_problem(path)
    if not isinstance(data.X_train, FieldSet):
        raise FieldDataError(f"{path} is not the small Darcy set of the neuraloperator project, with its train16_a.")
    upper, pressure = (part.to_grid()[..., 0].astype(np.float64) for part in (data.X_train, data.y_train))
    published = statistics_of(upper, pressure)
    report.record("published", published)
    found, rows = {}, []
    for recipe in _RECIPES:
        key = f"{n_samples} samples, {_name(recipe)}"
        if key not in report.numbers:
            report.record(key, _statistics_of_recipe(recipe, upper.shape[1], float(pressure.mean()), n_samples))
        ours = report.numbers[key]
        found[recipe] = {name: _standard_errors(ours[name], published[name]) for name in ours}, ours
        worst = [
            max(abs(d) for name, d in found[recipe][0].items() if name.startswith(start))
            for start in ("power of the permeability", "power of the pressure")
        ]
        others = [abs(found[recipe][0][f"pressure, {name}"]) for name in ("standard deviation", "highest")]
        rows.append([_name(recipe), *(f"{value:.1f}" for value in (*worst, *others))])
    columns = [
        "recipe", "power of the permeability, worst shell", "power of the pressure, worst shell",
        "pressure, standard deviation", "pressure, highest",
    ]  # fmt: skip
    report.table("Recipes beside a published Darcy set", columns, rows, _NOTE_RECIPES)
    best = min(_RECIPES, key=lambda recipe: sum(d**2 for d in found[recipe][0].values()))
    rows = []
    for name, value in published.items():
        cells = [name, _with_error(value)]
        for recipe in (_PAPER, best):
            differences, ours = found[recipe]
            cells += [_with_error(ours[name]), f"{differences[name]:+.1f}"]
        rows.append(cells)
    columns = ["quantity", "published", _name(_PAPER), "difference", _name(best), "difference"]
    report.table("Statistics beside a published Darcy set", columns, rows, _NOTE_STATISTICS)


def _statistics_of_recipe(
    recipe: tuple[float, float, float], resolution: int, mean: float, n_samples: int
) -> Statistics:
    """Statistics of our samples at the published points, scaled to the published mean pressure."""
    alpha, tau, ratio = recipe
    make: Callable[..., Any] = partial(datasets.make_darcy, alpha=alpha, tau=tau, values=(1.0, ratio))
    # Point i of the file is at i / N, so the last of our N + 1 points, that on the border, is left out.
    X, y = make(n_samples, resolution=resolution + 1, solver_resolution=16 * resolution + 1, random_state=0, n_jobs=-1)
    upper, pressure = X[:, :-1, :-1, 0] > 1, y[:, :-1, :-1, 0].astype(np.float64)
    return statistics_of(upper.astype(np.float64), pressure * mean / pressure.mean())


def _name(recipe: tuple[float, float, float]) -> str:
    """Name of a recipe."""
    return "alpha {:g}, tau {:g}, ratio {:g}".format(*recipe)


def _standard_errors(ours: tuple[float, float], theirs: tuple[float, float]) -> float:
    """Difference of two means, in standard errors of it."""
    return (ours[0] - theirs[0]) / float(np.hypot(ours[1], theirs[1]) or np.inf)


def _with_error(pair: tuple[float, float]) -> str:
    """A mean with its standard error."""
    return f"{pair[0]:.3g} ± {pair[1]:.1g}"
