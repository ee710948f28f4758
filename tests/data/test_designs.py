"""Rows of tables against files: by name, by number, by order, and refused where the order is in doubt."""

import contextlib
import itertools

import numpy as np
import pandas as pd
import pytest

from skop import PODRegressor
from skop.data._pairing import check_order, index_labels, pair_rows, rows_by_number
from skop.data.forms import form_of
from skop.data.forms.table import as_runs, read_design, split_runs
from skop.exceptions import FieldDataError, SkopWarning

FILES = ["runs/run_1.vtu", "runs/run_2.vtu", "runs/run_10.vtu"]
LOADS = np.array([1.0, 2.0, 10.0])


def frame(order=(2, 0, 1), **columns):
    """Loads of the files, in some order, with further columns in that order."""
    order = list(order)
    return pd.DataFrame({"load": LOADS[order]} | columns)


class Categorical:
    """Type of a column of categories, as polars has it: without a kind."""


class Column:
    """A column as polars has it."""

    def __init__(self, values, dtype=None, name="day"):
        self.values, self.name = np.asarray(values), name
        self.values = self.values.astype(object) if self.values.dtype.kind == "U" else self.values
        self.dtype, self.shape, self.ndim = dtype or object(), self.values.shape, 1

    def to_numpy(self):
        return self.values

    def to_physical(self):
        raise AssertionError("numbers of categories are not read")

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)

    def __len__(self):
        return len(self.values)


class Polars:
    """A table as polars has it: without an index, and as an array its times are integers."""

    ndim = 2

    def __init__(self, **columns):
        self.held = [
            Column(*((held.values, held.dtype) if isinstance(held, Column) else (held,)), name=name)
            for name, held in columns.items()
        ]
        self.columns, self.shape = list(columns), (len(self.held[0]), len(columns))

    def get_columns(self):
        return self.held

    def __array__(self, dtype=None, copy=None):
        values = [held.values.astype(int) if held.values.dtype.kind in "mM" else held.values for held in self.held]
        return np.stack(values, axis=1).astype(dtype)

    def __len__(self):
        return self.shape[0]


def loads(params, runs="runs/*.vtu", **options):
    """Loads in the order of the files."""
    return read_design(params).for_runs(runs, FILES, **options).values[:, 0].tolist()


# ---------------------------------------------------------------------- by name
NAMES = {
    "paths": ["runs/run_10.vtu", "runs/run_1.vtu", "runs/run_2.vtu"],
    "names": ["run_10.vtu", "run_1.vtu", "run_2.vtu"],
    "stems": ["run_10", "run_1", "run_2"],
    "paths without suffix": ["runs/run_10", "./runs/run_1", "runs//run_2"],
    "paths of Windows": ["runs\\run_10.vtu", "runs\\run_1", ".\\runs\\run_2.vtu"],
}


@pytest.mark.parametrize("names", NAMES.values(), ids=list(NAMES))
def test_rows_are_found_by_name(names, recwarn):
    for table in (
        frame(case=names),
        frame().set_index(pd.Index(names)),
        {"case": names, "load": LOADS[[2, 0, 1]]},
        np.rec.fromarrays([names, LOADS[[2, 0, 1]]], names="case,load"),
        np.array(list(zip(names, LOADS[[2, 0, 1]], strict=True)), dtype=object),
    ):
        for runs in ("runs/*.vtu", FILES):
            assert loads(table, runs) == LOADS.tolist()
    assert not recwarn


def test_full_paths_and_folders(tmp_path):
    files = [str(tmp_path / f"case_{i}" / "out.vtu") for i in (1, 2)]
    for names in (files[::-1], ["case_2", "case_1"], ["case_2/out", "case_1/out.vtu"]):
        assert pair_rows(index_labels(names), 2, "pattern", files, what="params").tolist() == [1, 0]
    with pytest.raises(FieldDataError, match=r"'out.vtu' in row 0 of params may be"):
        pair_rows(index_labels(["out.vtu", "case_1"]), 2, "pattern", files, what="params")


def test_what_has_no_partner_is_listed():
    with pytest.raises(FieldDataError) as error:
        loads(frame(case=["run_1", "run_3", "run_2"]))
    for words in ("1 of 3 files have no row", "runs/run_10.vtu", "1 of 3 rows", "run_3", "column 'case'"):
        assert words in str(error.value)
    with pytest.raises(FieldDataError, match=r"two rows for runs/run_1.vtu: 0 and 2"):
        loads(frame(case=["run_1", "run_2", "run_1.vtu"]))


def test_rows_without_a_file_are_not_used():
    more = pd.DataFrame({"load": [*LOADS, 7.0], "case": ["run_1", "run_2", "run_10", "run_7"]})
    with pytest.warns(SkopWarning, match=r"1 of 4 rows of params, the first of them 'run_7', have no file"):
        assert loads(more, fitting=True) == LOADS.tolist()
    with pytest.raises(FieldDataError, match="1 of 4 rows"):
        pair_rows(read_design(more).labels, 4, "runs/*.vtu", FILES, what="y", needs_all=True)


# ---------------------------------------------------------------------- by number and by order
def test_an_index_of_run_numbers_is_matched_with_the_numbers_in_file_names():
    for order in list(itertools.permutations(range(3))):
        table = frame(order)
        table.index = np.array([1, 2, 10])[list(order)]
        with pytest.warns(
            SkopWarning, match=r"numbers in its index.*row 1 for runs/run_1.vtu, ..., row 10 for runs/run_10"
        ):
            assert loads(table) == LOADS.tolist()


#: Numbers of rows, names of files, and the row of each file.
NUMBERED = {
    "one number": ([10, 1, 2], FILES, [1, 2, 0]),
    "a version too": ([2, 3, 1], ["run_1_v2.vtu", "run_2_v2.vtu", "run_3_v2.vtu"], [2, 0, 1]),
    "a date too": ([2, 1], ["run_1_2024.vtu", "run_2_2025.vtu"], [1, 0]),
    "folders": ([2, 1], ["case_1/out.vtu", "case_2/out.vtu"], [1, 0]),
    "names of several forms": ([3, 1], ["plate_1.vtu", "v2_rod_3.vtu"], [1, 0]),
    "two orders": ([1, 2], ["a_1_2.vtu", "a_2_1.vtu"], None),
    "other numbers": ([0, 1, 2], FILES, None),
    "a number twice": ([1, 2, 2], FILES, None),
    "no numbers": ([1, 2], ["a.vtu", "b.vtu"], None),
}


def test_numbers_of_rows_are_looked_for_in_the_names_of_files():
    for case, (numbers, names, rows) in NUMBERED.items():
        found = rows_by_number(numbers, names)
        assert (None if found is None else found.tolist()) == rows, case


def test_columns_that_number_the_files_become_no_parameters_in_silence(recwarn):
    shuffled, in_order = frame(run=[10, 1, 2]), frame(range(3), row=[0, 1, 2])
    for runs in (FILES, "runs/*.vtu"):
        for fitting in (True, False):
            with pytest.warns(SkopWarning, match=r"'run' of params holds the numbers in the names .* another order"):
                loads(shuffled, runs, fitting=fitting)
    with pytest.warns(SkopWarning, match=r"'row' of params only counts the rows, and is taken as a parameter"):
        loads(in_order, FILES, fitting=True)
    recwarn.clear()
    # Rows that are matched by name, meshes without names, and a parameter alone leave no doubt.
    loads(shuffled.assign(case=NAMES["stems"]), FILES, fitting=True)
    read_design(shuffled[:1]).for_runs(object(), ["mesh 10"], fitting=True)
    read_design(shuffled).for_runs([object()] * 3, ["mesh 1", "mesh 2", "mesh 10"], fitting=True)
    loads(in_order[["row"]], FILES, fitting=True)
    assert not recwarn


def test_rows_are_taken_in_natural_order_with_a_warning():
    words = r"natural order.*row 0 for runs/run_1.vtu, ..., row 2 for runs/run_10.vtu, with the parameters load"
    with pytest.warns(SkopWarning, match=words):
        assert loads(frame(range(3))) == LOADS.tolist()
    with pytest.warns(SkopWarning, match="natural order"):
        assert loads(LOADS[:, None]) == LOADS.tolist()


def test_a_list_is_in_the_order_of_its_rows(recwarn):
    table = frame(range(3)).set_index(pd.Index([4, 0, 2]))
    assert loads(table, FILES) == loads(LOADS[:, None], FILES) == LOADS.tolist()
    assert not recwarn


def test_a_selected_or_sorted_table_is_refused():
    for index in [[0, 2, 1], [5, 6, 7], [0.5, 1.5, 2.5], pd.MultiIndex.from_tuples([(0, 1)] * 3)]:
        table = frame(range(3))
        table.index = index
        with pytest.raises(FieldDataError, match=r"neither file names nor 0 to 2.*reset_index"):
            loads(table)


def test_other_numbers_of_rows_are_refused():
    for runs in ("runs/*.vtu", FILES):
        with pytest.raises(FieldDataError, match="2 rows, but there are 3 runs"):
            loads(LOADS[:2, None], runs)


def test_weights_have_no_names():
    """Rows that change places would leave the weights behind."""
    with pytest.raises(FieldDataError, match="in which sample_weight or groups must be"):
        loads(frame(case=NAMES["stems"]), weighted=True)
    assert loads(frame(range(3), case=["run_1", "run_2", "run_10"]), weighted=True) == LOADS.tolist()


# ---------------------------------------------------------------------- columns
REFUSED = {
    "three columns of text": (
        frame(case=["a", "b", "c"], file=FILES, material=["x", "y", "x"]),
        r"3 columns .* 'case' \(names, 'a'\), .* 'material' \(categories, 'x'\)\. Keep column 'file';",
    ),
    "a decimal comma": (frame(thickness=["1", "0,0064", "2"]), "column 'thickness' .* '0,0064' in row 1.* decimal=','"),
    "text alone": (frame(case=NAMES["stems"])[["case"]], "no column of numbers"),
    "a gap in the names": (frame(case=["run_1", None, "run_2"]), "column 'case' of params holds"),
    "dates": (
        frame(day=pd.date_range("2026-01-01", periods=3)).set_index(pd.Index(["a", "b", "c"])),
        "column 'day' of params holds 2026-01-01.*pandas.Timedelta",
    ),
    "one axis": (LOADS, r"shape \(3,\); expected \(n_runs, n_parameters\)"),
    "columns of different lengths": ({"a": LOADS, "b": LOADS[:2]}, "expected one length"),
}


def test_tables_that_are_no_designs():
    for name in list(REFUSED):
        table, words = REFUSED[name]
        with pytest.raises(FieldDataError, match=words):
            read_design(table)


def test_numbers_of_any_type():
    table = pd.DataFrame(
        {"a": pd.array([1, 2, 3], dtype="Int64"), "b": [True, False, True], "c": np.float32([1, 2, 3])}
    )
    design = read_design(table)
    assert design.names == ("a", "b", "c")
    assert design.values.tolist() == [[1, 1, 1], [2, 0, 2], [3, 1, 3]]


def test_a_column_of_paths_holds_the_runs():
    for table in (frame(range(3), file=FILES), frame(range(3), file=pd.Categorical(FILES))):
        runs, design = split_runs(table)
        assert runs == FILES
        assert (design.names, design.values[:, 0].tolist()) == (("load",), LOADS.tolist())
        runs, design = split_runs(table.to_numpy())
        assert (runs, design.names) == (FILES, None)
    assert split_runs(frame(range(3), file=FILES)["file"]) == split_runs(pd.DataFrame({"f": FILES})) == (FILES, None)
    assert as_runs(pd.Series(FILES)) == as_runs(np.array(FILES)) == FILES


def test_tables_of_numbers_stay_as_they_are():
    numbers = np.array([["1.5", "2"], ["3", "4"]])
    for table in (frame(), frame().astype(object), LOADS[:, None], LOADS[:, None].astype(object), numbers, [[1.0]]):
        runs, design = split_runs(table)
        assert runs is table
        assert design is None


def test_categories_by_number_are_no_numbers_unless_they_have_an_order():
    numbers = [3, 1, 2]
    ordered, table = (frame(material=pd.Categorical(numbers, ordered=flag)) for flag in (True, False))
    fitted = PODRegressor().fit(ordered, numbers)
    assert fitted.predict(ordered).shape == (3,)
    # Texts of digits would be read as numbers, too; files are named by text.
    texts = frame(material=pd.Categorical(["6061", "7075", "6061"]))
    for given in (table, texts, Polars(load=LOADS, material=Column(["7", "3", "7"], Categorical()))):
        for read in (
            read_design,
            lambda given: split_runs(given.assign(file=FILES)) if hasattr(given, "iloc") else read_design(given),
            lambda given: PODRegressor().fit(given, numbers),
            lambda given: PODRegressor().fit(np.c_[numbers], given),
            fitted.predict,
        ):
            with pytest.raises(FieldDataError, match=r"'material' of .* is categorical without an order.*get_dummies"):
                read(given)
    with pytest.raises(FieldDataError, match=r"^y is categorical without an order"):
        PODRegressor().fit(np.c_[numbers], texts["material"].array)


def test_tables_of_polars_are_read_as_those_of_pandas():
    design = read_design(Polars(file=FILES, load=LOADS))
    assert (design.names, design.values[:, 0].tolist()) == (("load",), LOADS.tolist())
    assert design.labels.files == tuple(FILES)
    with pytest.raises(FieldDataError, match=r"column 'material' of X holds 'steel' in row 0.*OneHotEncoder"):
        PODRegressor().fit(Polars(material=["steel", "iron", "steel"]), LOADS)


def test_times_are_no_numbers_whatever_holds_them():
    """Their numbers would count the unit in which they are stored."""
    days = np.arange("2026-01-01", "2026-01-04", dtype="M8[D]")
    words = "holds .* in row 0; expected numbers. Pass times as numbers, such as days: .*Timedelta"
    fitted = PODRegressor().fit(np.c_[LOADS], LOADS)
    for times in (days, days.astype("M8[s]"), days - days[0]):
        for given in (times[:, None], times[:, None].tolist(), Polars(day=times), pd.DataFrame({"day": times})):
            for read in (lambda held: PODRegressor().fit(held, LOADS), fitted.predict):
                with pytest.raises(FieldDataError, match=f"of X {words}"):
                    read(given)
        for given in (times, times[:, None], Column(times), pd.Series(times, name="day"), pd.Index(times)):
            with pytest.raises(FieldDataError, match=f"y {words}"):
                PODRegressor().fit(np.c_[LOADS], given)


def test_columns_of_paths_that_are_not_whole():
    with pytest.raises(FieldDataError, match=r"row 1 in column 'file' of X is (None|nan); expected the path"):
        split_runs(frame(file=[FILES[0], None, FILES[1]]))
    for material in (["steel", "iron", "steel"], ["steel", None, "iron"], pd.Categorical(["steel", "iron", "steel"])):
        with pytest.raises(FieldDataError, match=r"column 'material' of X holds 'steel' in row 0.*OneHotEncoder"):
            split_runs(frame(material=material))
    with pytest.raises(FieldDataError, match=r"'length' of X holds '1.5 mm' in row 1.*expected numbers"):
        split_runs(frame(length=[1.5, "1.5 mm", 2]))
    with pytest.raises(FieldDataError, match=r"column 'a' \(mesh files, .*column 'b'.*Keep the one"):
        split_runs(frame(a=FILES, b=FILES))
    with pytest.raises(FieldDataError, match="and other columns"):
        as_runs(frame(file=FILES))


def test_labels_of_samples(tmp_path):
    (tmp_path / "b.vtu").touch()
    pattern, named = str(tmp_path / "*.vtu"), frame().set_index(pd.Index([7, 8, 9]))
    for X, labels in ((named, [7, 8, 9]), (FILES, FILES), (pattern, [str(tmp_path / "b.vtu")]), (LOADS[:, None], None)):
        found = form_of(X).labels(X)
        assert found is labels is None or list(found) == labels


def test_rows_without_a_name_belong_to_no_file():
    """Beside a list, whose rows could also be in its order."""
    table = frame(load=[3.0, 1.0, 2.0]).iloc[:3]
    files = [f"runs/{name}.vtu" for name in ("a", "b", "c")]
    table.index = ["c", "a", np.nan]
    with pytest.raises(FieldDataError, match="row 2, without a name"):
        read_design(table).for_runs(files, files)
    table.index = ["c", "a", "b"]
    assert read_design(table).for_runs(files, files).values.ravel().tolist() == [1.0, 2.0, 3.0]


def test_the_same_runs_in_another_order():
    for names, others, is_wrong in [
        (["x/a.vtu", "x/b.vtu"], ["y/b.vtk", "y/a.vtk"], True),
        (["a/in.vtu", "b/in.vtu"], ["b/out.vtu", "a/out.vtu"], True),
        (["in/a.vtu", "in/b.vtu"], ["b/out.vtu", "a/out.vtu"], True),
        (["a/in.vtu", "b/in.vtu"], ["a/out.vtu", "b/out.vtu"], False),
        (["x/a.vtu", "x/b.vtu"], ["y/1.vtu", "y/0.vtu"], False),
    ]:
        with pytest.raises(FieldDataError, match="sample 0 is") if is_wrong else contextlib.nullcontext():
            check_order(names, others)
