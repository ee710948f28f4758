"""Protocols of the papers' tables: files that today's estimators can run, runs that resume, ratios that are right."""

import inspect
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.io import savemat

import skop.datasets
from benchmarks import _papers as papers
from benchmarks.__main__ import main, make_parser
from benchmarks._papers import Runs, cells_of, write_page
from benchmarks._problems import Problem
from benchmarks._protocols import METRICS, SIZES, read_tables, split_of
from skop import FieldSet
from skop.exceptions import FieldDataError

TABLES = read_tables()
DATA_SETS = TABLES[0].data_sets
HEADS = {"paper", "table", "title", "worth", "note", "why", "gain", "gain_of", "sizes", "full", "reduced"}
HEADS |= {"columns", "rows"}
NUMBERS = {"train", "test", "points", "seeds"}
#: Two rows that are fitted in a second, and one that is not run.
SMALL = """
paper = "GeoMaNO"
table = "Table 9"
title = "a small one"
worth = 1
[columns]
darcy = { data = "darcy", metric = "relative L2" }
[[rows]]
name = "narrow"
estimator = "GeoMaNORegressor"
parameters = { width = 8, depth = 1, patches__lifting_width = 8 }
published = { darcy = 0.5 }
[[rows]]
name = "wide"
estimator = "GeoMaNORegressor"
parameters = { width = 16, depth = 1, patches__lifting_width = 8 }
published = { darcy = [0.25, 0.01] }
[[rows]]
name = "foreign"
published = { darcy = 0.125 }
"""
SMALL_DATA = """
[darcy]
words = "Darcy flow"
make = "make_darcy"
load = "load_darcy"
files = ["piececonst_r421_N1024_smooth1.mat", "piececonst_r421_N1024_smooth2.mat"]
preset = "darcy"
[darcy.full]
train = 4
test = 2
points = 81
epochs = 2
seeds = 2
load = { subsample = 1 }
make = { resolution = 9 }
[darcy.reduced]
train = 4
test = 2
points = 81
epochs = 2
seeds = 1
load = { subsample = 1 }
make = { resolution = 9 }
"""


def small_tables(folder, changes=()):
    text = SMALL
    for before, after in changes:
        text = text.replace(before, after)
    (folder / "small.toml").write_text(text)
    (folder / "data_sets.toml").write_text(SMALL_DATA)
    return read_tables(folder=folder)


def options(*words):
    return make_parser().parse_args(["papers", *words])


def page_of(tables, cells, runs):
    write_page(runs.folder / "papers.md", tables, cells, runs)
    return (runs.folder / "papers.md").read_text()


def first_run(table, **changes):
    row, column = next(table.cells())
    given = {"size": "reduced", "seed": 0, "published": False} | changes
    return table.run(row, column, given.pop("size"), given.pop("seed"), **given)


# ---------------------------------------------------------------------- files
def test_every_table_is_one_that_todays_estimators_and_data_sets_can_run(subtests):
    for table in TABLES:
        with subtests.test(table.name):
            assert {"paper", "table", "title", "worth"} <= table.content.keys() <= HEADS
            assert table.name == "every_problem" or table.name.startswith(table.content["paper"].lower())
            for row in table.rows:
                assert "name" in row
                assert row.get("published", {}).keys() | set(row.get("columns", ())) <= table.columns.keys()
                assert "published" in row or "columns" in row
            for row, column in table.cells():
                assert table.columns[column]["metric"] in METRICS
                for size in table.sizes:
                    run = table.run(row, column, size, 0, published=False)
                    model = getattr(run.estimator, "estimator", run.estimator)
                    model._validate_params()
                    sizes = table.size(row, column, size)
                    length = {"epochs"} & sizes.keys() or {"seconds"}
                    assert all(isinstance(sizes[name], int) and sizes[name] > 0 for name in NUMBERS | length)
                    function = getattr(skop.datasets, run.protocol["samples"]["function"])
                    inspect.signature(function).bind(1, random_state=0, **sizes["make"])
                    if "load" in table.data_sets[run.data]:
                        loader = getattr(skop.datasets, table.data_sets[run.data]["load"])
                        inspect.signature(loader).bind("", n_train=1, n_test=1, **sizes.get("load", {}))
                # The length of the training is that of the published configuration.
                if "full" in table.sizes and row.get("has_preset", True) and run.data != "darcy_of_any_size":
                    preset = type(model).from_preset(DATA_SETS[run.data]["preset"], **row.get("preset", {}))
                    assert table.size(row, column, "full")["epochs"] == preset.max_iter


def test_a_cell_is_stated_once(subtests):
    for table in TABLES:
        with subtests.test(table.name):
            cells = [(row["name"], column) for row in table.rows for column in row.get("published", {})]
            assert len(cells) == len(set(cells))


def test_a_model_that_one_table_has_is_missing_in_no_other():
    """A row is left out as a model that skop does not have, unless its table or the row gives another reason."""
    held, missing, no_model = set(), set(), "skop has no such model"
    for table in TABLES:
        for row in table.rows:
            why = row.get("why", table.content.get("why", no_model))
            (missing if "estimator" not in row and why == no_model else held).add(row["name"])
    assert "OFormer" in held
    assert "F-FNO" in missing
    assert held.isdisjoint(missing)


def test_published_gains_are_those_of_the_published_errors():
    found = 0
    for table in TABLES:
        for column, gain in table.content.get("gain", {}).items():
            own, *others = sorted(
                ((table.published(row, column)[0], row["name"]) for row in table.rows if column in row["published"]),
                key=lambda pair: pair[1] != table.content["gain_of"],
            )
            # Percent of the least error of the others, cut off or rounded to one digit.
            assert 100 * (1 - own[0] / min(others)[0]) == pytest.approx(gain, abs=0.1), (table.name, column)
            found += 1
    assert found == 6 + 6 + 2


def test_a_number_that_a_paper_prints_in_two_tables_is_the_same_in_both():
    stated, agreed = {}, 0
    for table in TABLES:
        for row, column in table.cells() if "full" in table.sizes else ():
            value, spread = table.published(row, column)
            if value is None or row["estimator"] not in {
                "LaMORegressor",
                "GeoMaNORegressor",
                "MNORegressor",
                "AMORegressor",
            }:
                continue
            run = table.run(row, column, "full", 0, published=False)
            key = table.content["paper"], run.hash, table.columns[column]["metric"]
            for other, others_spread in stated.get(key, []):
                # Digits that are not printed, and the spread between repetitions.
                most = 2 * max(spread or 0.0, others_spread or 0.0, 5e-5)
                assert value == pytest.approx(other, abs=most), (table.name, row["name"], column)
                agreed += 1
            stated.setdefault(key, []).append((value, spread))
    assert agreed > 20


# ---------------------------------------------------------------------- protocols
def test_all_that_a_run_depends_on_changes_its_checksum(tmp_path):
    table = small_tables(tmp_path)[0]
    checksums = {first_run(table).hash}
    assert first_run(table).hash in checksums
    others = [first_run(table, seed=1), first_run(table, published=True), first_run(table, length={"seconds": 3.0})]
    others += [
        first_run(small_tables(tmp_path, [pair])[0])
        for pair in (("width = 8", "width = 24"), ("depth = 1", "depth = 2"))
    ]
    for line in ("train = 5", "test = 3", "epochs = 3", "make = { resolution = 11 }"):
        name = line.split(" ")[0]
        data = table.data_sets | {"darcy": table.data_sets["darcy"] | {"reduced": table.data_sets["darcy"]["reduced"]}}
        value = {"resolution": 11} if name == "make" else int(line.split(" ")[-1])
        data["darcy"] = data["darcy"] | {"reduced": data["darcy"]["reduced"] | {name: value}}
        others.append(first_run(replace(table, data_sets=data)))
    for run in others:
        assert run.hash not in checksums
        checksums.add(run.hash)


def test_what_is_only_printed_does_not_change_the_checksum(tmp_path):
    table = small_tables(tmp_path)[0]
    renamed = small_tables(tmp_path, [("darcy = 0.5", "darcy = 0.6"), ("narrow", "slim"), ("Table 9", "Table 8")])[0]
    assert first_run(table).hash == first_run(renamed).hash


def test_a_result_of_another_protocol_is_not_taken(tmp_path):
    runs, run = Runs(tmp_path / "out"), first_run(small_tables(tmp_path)[0])
    found = {"protocol": run.protocol, "errors": {"relative L2": 0.1}}
    runs.path(run).write_text(json.dumps(found))
    assert runs.result(run) == found
    assert runs.result(first_run(small_tables(tmp_path, [("width = 8", "width = 24")])[0])) is None
    # A result in the time of another clock is none; one without a clock is of any.
    for clock in (True, False):
        timed = Runs(tmp_path / "out", processor_time=clock)
        assert timed.result(run) == found
        runs.path(run).write_text(json.dumps(found | {"clock": timed.clock}))
        assert timed.result(run) == found | {"clock": timed.clock}
        assert Runs(tmp_path / "out", processor_time=not clock).result(run) is None
        runs.path(run).write_text(json.dumps(found))
    # Even under the name of the other.
    runs.path(run).write_text(json.dumps(found | {"protocol": run.protocol | {"epochs": 3}}))
    assert runs.result(run) is None


def test_the_checksum_of_a_split_is_of_its_samples():
    rng = np.random.default_rng(0)
    X, y, coords = rng.random((4, 3, 3, 1)), rng.random((4, 3, 3, 1)), rng.random((9, 2))
    split = split_of(Problem(X[:3], y[:3], X[3:], y[3:]))
    assert split == split_of(Problem(X[:3].copy(), y[:3].copy(), X[3:].copy(), y[3:].copy()))
    swapped = split_of(Problem(X[[1, 0, 2]], y[[1, 0, 2]], X[3:], y[3:]))
    assert swapped["train"] != split["train"]
    assert swapped["test"] == split["test"]
    changed = y[3:].copy()
    changed[0, 0, 0, 0] += 1e-9
    assert split_of(Problem(X[:3], y[:3], X[3:], changed))["test"] != split["test"]
    fields = [FieldSet(places, X.reshape(4, 9, 1)) for places in (coords, coords + 1)]
    assert split_of(Problem(fields[0], y, fields[0], y)) != split_of(Problem(fields[1], y, fields[1], y))


# ---------------------------------------------------------------------- runs
def test_a_command_that_was_killed_ends_with_the_same_table(tmp_path, monkeypatch):
    tables = small_tables(tmp_path)
    whole, cut = Runs(tmp_path / "whole"), Runs(tmp_path / "cut")
    cells = cells_of(tables, whole, options())
    for run in papers._in_order(cells):
        whole.fit_here(run)
    first, second = papers._in_order(cells_of(tables, cut, options()))
    cut.fit_here(first)

    def killed(path, content):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(papers, "write_in_one_step", killed)
        with pytest.raises(KeyboardInterrupt):
            cut.fit_here(second)
    assert "| wide | darcy | 0.25 ± 0.01 | not run yet |" in page_of(tables, cells, cut)
    cut.fit_here(papers._in_order(cells_of(tables, cut, options()))[1])
    texts = [page_of(tables, cells, runs).split("\n## ", 1)[1] for runs in (whole, cut)]
    assert texts[0] == texts[1]
    results = [[runs.result(run) for run in papers._in_order(cells)] for runs in (whole, cut)]
    for one, other in zip(*results, strict=True):
        assert one["losses"] == other["losses"]
        assert one["split"] == other["split"]
        assert len(one["losses"]) == one["epochs"] == 2


@pytest.mark.exhaustive
def test_a_process_that_runs_out_of_time_leaves_no_result_and_goes_on_later(tmp_path):
    runs, run = Runs(tmp_path / "out"), first_run(small_tables(tmp_path)[0])
    assert not runs.fit(run, until=0.0)
    assert runs.result(run) is None
    assert runs.fit(run)
    assert runs.result(run)["epochs"] == 2


def test_published_files_are_read_where_they_are_and_the_page_says_so(tmp_path):
    a, u = skop.datasets.make_darcy(6, resolution=9, random_state=5)
    data = tmp_path / "data" / "deeper"
    data.mkdir(parents=True)
    for number in (1, 2):
        savemat(data / f"piececonst_r421_N1024_smooth{number}.mat", {"coeff": a[..., 0], "sol": u[..., 0]})
        # One of two files is not the set.
        runs = Runs(tmp_path / "out", tmp_path / "data")
        (table,) = tables = small_tables(tmp_path)
        cells = cells_of(tables, runs, options())
        assert ("generated" in papers._note(table, cells)) == (number == 1)
    runs.fit_here(cells[0].runs[0])
    assert runs.result(cells[0].runs[0])["split"] == split_of(Problem(a[:4], u[:4], a[:2], u[:2]))
    text = page_of(tables, cells, runs)
    assert "darcy: relative L2; published files, 4 to train and 2 to test" in text
    assert "cannot be compared" not in text


# ---------------------------------------------------------------------- page
def test_a_page_has_the_published_number_ours_and_their_ratio(tmp_path):
    tables, runs = small_tables(tmp_path), Runs(tmp_path / "out")
    cells = cells_of(tables, runs, options("--size", "full"))
    for run, error in zip(cells[0].runs, (0.2, 0.3), strict=True):
        found = {"protocol": run.protocol, "errors": {"relative L2": error}}
        runs.path(run).write_text(json.dumps(found))
    runs.path(cells[1].runs[0]).write_text(json.dumps({"protocol": cells[1].runs[0].protocol, "diverged": "no"}))
    text = page_of(tables, cells, runs)
    # Mean 0.25, standard deviation 0.1 / sqrt(2), and half of the published 0.5.
    assert "| narrow | darcy | 0.5 | 0.25 ± 0.071 | 0.50 | 2 |" in text
    assert "| wide | darcy | 0.25 ± 0.01 | (1 of 1 diverged) |  | 1 |" in text
    assert "| foreign | 0.125 | skop has no such model |" in text
    assert "Errors on generated samples cannot be compared one to one with those on the published files." in text


def test_worthier_tables_first_seeds_and_short_trainings_come_first_and_equal_runs_once():
    tables = read_tables(["amo_table_1", "amo_table_4", "lamo_table_1"])
    runs = papers._in_order(cells_of(tables, Runs("."), options("--size", "full")))
    assert len({run.hash for run in runs}) == len(runs)
    places = {run.hash: number for number, run in enumerate(runs)}
    cells = cells_of(read_tables(["amo_table_4", "lamo_table_1"]), Runs("."), options("--size", "full"))
    main_table, ablation = ([c for c in cells if c.table.name == name] for name in ("lamo_table_1", "amo_table_4"))
    firsts, lasts = ([places[cell.runs[seed].hash] for cell in main_table] for seed in (0, 2))
    assert max(firsts) < min(lasts)
    visits = [runs[place].visits for place in sorted(firsts)]
    assert visits == sorted(visits)
    # But for the row that the paper's main table has too.
    rest = [
        places[c.runs[0].hash]
        for c in ablation
        if c.row["name"] != "adaptive, 32 poles" or c.column == "european_option"
    ]
    assert max(lasts) < min(rest)


def test_a_plan_takes_published_seconds_and_scales_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Runs, "step", lambda self, run: {"seconds": 0.1, "gigabytes": 0.25})
    words = ["papers", "geomano_table_1", "--size", "full", "--seeds", "1", "--plan", "--output", str(tmp_path)]
    assert main(words) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if re.match(r"\| \d", line)]
    hours = {(row[2], row[3]): (float(row[5]), row[-1].rstrip(" |")) for row in rows}
    assert hours["GeoMaNO", "darcy"] == (pytest.approx(500 * 23.98 / 3600, rel=0.05), "the paper")
    # Every step takes as long here, so that the seconds of FNO are as many as here, divided by the median quotient.
    points = {name: [DATA_SETS[name][size]["points"] for size in SIZES] for name in ("darcy", "navier_stokes")}
    here = {name: 0.1 * 1000 * full / reduced for name, (full, reduced) in points.items()}
    stated = [here["darcy"] / second for second in (23.98, 30.99)]
    stated += [here["navier_stokes"] / second for second in (268.68, 305.33)]
    expected = 500 * here["darcy"] / np.median(stated) / 3600
    assert hours["FNO", "darcy"] == (pytest.approx(expected, rel=0.05), "a step here")


def test_a_plan_says_which_steps_it_times_and_how_many_are_left(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        Runs, "step", lambda self, run: self.steps.setdefault(run.hash, {"seconds": 0.1, "gigabytes": 0.25})
    )
    table, given = small_tables(tmp_path)[0], options("--epochs", "2")
    runs = Runs(tmp_path / "out")
    cells = cells_of([table], runs, given)
    for expected in (["narrow, darcy; 1 more to time", "wide, darcy; 0 more to time"], []):
        papers._costs([(cell, one) for cell in cells for one in cell.runs], runs, given)
        said = capsys.readouterr()
        assert said.err.splitlines() == [f"timing a step of {table.name}, {row}" for row in expected]
        assert said.out == ""


def test_a_limit_of_the_time_takes_the_place_of_the_epochs(tmp_path, capsys):
    table = small_tables(tmp_path)[0]
    run = first_run(table, length={"seconds": 3.0})
    assert run.estimator.max_time == 3.0
    assert run.estimator.max_iter > 1000
    cells = cells_of([table], Runs(tmp_path / "out"), options("--seconds", "3"))
    assert "points, 3 s" in papers._note(table, cells)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Runs, "step", lambda self, run: {"seconds": 0.1, "gigabytes": 0.25})
        costs, _ = papers._costs([(cell, cell.runs[0]) for cell in cells], Runs(tmp_path), options("--seconds", "3"))
    assert [cost[0] for cost in costs.values()] == [3 / 3600] * 2


def test_a_number_of_epochs_takes_the_place_of_a_limit_of_the_time(tmp_path):
    table = next(table for table in TABLES if table.name == "every_problem")
    given = options("every_problem", "--epochs", "7", "--rows", "LaMO", "PODRegressor")
    cells = cells_of([table], Runs(tmp_path), given)
    for cell in cells:
        run, limited = cell.runs[0], table.run(cell.row, cell.column, "reduced", 0, published=False)
        model = getattr(run.estimator, "estimator", run.estimator)
        assert run.protocol["epochs"] == 7
        assert run.protocol["samples"] == limited.protocol["samples"]
        assert run.hash != limited.hash
        assert cell.row["name"] == "PODRegressor" or (model.max_iter == 7 and model.max_time > 1e6)
    assert "points, 7 epochs" in papers._note(table, cells)


def test_without_time_nothing_is_run_and_the_page_says_so(tmp_path, capsys):
    assert main(["papers", "amo_table_3", "--budget", "0", "--output", str(tmp_path)]) == 0
    assert "| AMO | error | 0.0006 | not run yet |  |  |" in capsys.readouterr().out
    assert not (tmp_path / "samples").exists()


@pytest.mark.parametrize(
    "words", ["--epochs 0", "--epochs=-1", "--epochs 1.5", "--seconds 0", "--seconds nan", "--seeds 0", "--seeds x"]
)
def test_numbers_that_are_not_positive_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        options(*words.split())
    assert re.search(r"argument --\w+: '.*' is no positive (whole )?number\n", capsys.readouterr().err)


def test_a_folder_of_published_files_that_is_not_there_is_refused(tmp_path, capsys):
    assert main(["papers", "--plan", "--data", str(tmp_path / "no"), "--output", str(tmp_path / "out")]) == 2
    assert "no is no folder; expected that of the published files" in capsys.readouterr().err


def test_unknown_tables_and_rows_are_refused(tmp_path, capsys):
    assert main(["papers", "amo_table_9", "--output", str(tmp_path)]) == 2
    assert "choose from amo_figure_2" in capsys.readouterr().err
    assert main(["papers", "amo_table_3", "--rows", "LNO", "--output", str(tmp_path)]) == 2
    assert "choose from ['AMO']" in capsys.readouterr().err


def test_a_row_without_columns_is_run_in_all_and_a_misspelled_entry_is_refused(tmp_path):
    published = "published = { darcy = 0.5 }\n"
    (table,) = small_tables(tmp_path, [(published, "")])
    row, column = next(table.cells())
    assert (row["name"], column) == ("narrow", "darcy")
    with pytest.raises(FieldDataError, match="small: a row states 'parameter'; expected one of"):
        small_tables(tmp_path, [("parameters", "parameter")])
