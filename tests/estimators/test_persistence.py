"""Model files: what comes back, what is in them, and that damage never passes for a model."""

import copy
import errno
import json
import os
import shutil
import warnings
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge

import skop
from skop import (
    AMORegressor,
    EnsembleRegressor,
    FieldSet,
    GeoMaNORegressor,
    LaMORegressor,
    MNORegressor,
    PODRegressor,
    RolloutRegressor,
    SymmetryOptions,
    TimeConditionedRegressor,
)
from skop.data import unit_grid
from skop.estimators.files._container import digest, read_container
from skop.estimators.files._persistence import read_state, write_state
from skop.exceptions import ModelFileError, SkopWarning
from skop.losses import GradientRelativeL2Loss, RelativeL2Loss, SobolevLoss, TrainingLoss
from skop.modules import TokenMixer
from skop.parts import (
    GNOT,
    Attention,
    Choice,
    GalerkinTransformer,
    GeometricScan,
    LatentAttention,
    LiteralExpansions,
    Mamba,
    Mixer,
    OFormer,
    Part,
    Patches,
    RotaryAttention,
    TakenakaMalmquist,
    param,
)

from .make_model_files import FOLDER, cases_of_0_1_0, inputs_of, others_of, values_of


class HuberLike(LinearRegression):
    """A regressor of someone's own."""


GENERATOR = np.random.default_rng(0)
GRID = (4, 6)
GRIDS = GENERATOR.normal(size=(6, *GRID, 2)) + 2
TABLE = GENERATOR.normal(size=(6, 3))
POINTS = unit_grid(GRID)
FIELDS = FieldSet(POINTS, GRIDS.reshape(6, 24, 2), params=TABLE, grid_shape=GRID, channel_names=["a", "b"])
#: Samples on points of their own, enough for a base.
OWN = FieldSet(POINTS + 0.02 * GENERATOR.random((10, 24, 2)), GENERATOR.random((10, 24, 2)), channel_names=["a", "b"])


def small(**params):
    settings = {"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "random_state": 0, "device": "cpu"}
    return LaMORegressor().set_params(**(settings | params))


def reloaded(estimator, folder):
    estimator.save(folder / "model.skop")
    return skop.load(folder / "model.skop")


def values(predicted):
    """Predictions of any form as an array."""
    if isinstance(predicted, tuple):
        return predicted[1]
    return np.asarray(getattr(predicted, "values", predicted))


@pytest.fixture(scope="module")
def model():
    return small().fit(GRIDS, GRIDS[..., :1])


@pytest.fixture
def path(model, tmp_path):
    model.save(tmp_path / "model.skop")
    return tmp_path / "model.skop"


# ---------------------------------------------------------------- round trip
CASES = {
    "field": (GRIDS, GRIDS[..., :1], {}),
    "double precision": (GRIDS, GRIDS[..., :1], {"dtype": "float64"}),
    "scalar": (GRIDS, TABLE[:, 0], {}),
    "scalars": (GRIDS, TABLE, {}),
    "features": (TABLE, TABLE[:, 0], {}),
    "parameters to field": (TABLE, GRIDS, {}),
    "parameters to FieldSet": (TABLE, FieldSet(POINTS * 3, FIELDS.values, grid_shape=GRID), {}),
    "function": (GRIDS[..., 0].reshape(6, 24, 1), GRIDS[..., 1].reshape(6, 24), {}),
    "FieldSet": (FIELDS, FIELDS, {}),
    "tuple": ((POINTS, FIELDS.values), (POINTS, FIELDS.values), {}),
    "grid with distances": (OWN, OWN, {"grid": (5, 5), "base": "pod"}),
    "scalers per point": (GRIDS, GRIDS, {"scaling__inputs": "point", "scaling__targets": "point"}),
    "no scalers": (GRIDS, GRIDS, {"scaling__inputs": None, "scaling__targets": None}),
    "loss object": (GRIDS, GRIDS, {"loss": GradientRelativeL2Loss(gradient_weight=0.25, reduction="sum")}),
    "symmetries": (
        GRIDS,
        GRIDS,
        {
            "symmetries": ("flip_x",),
            "symmetries__domain": np.array([[0.0, 1.0], [0.0, 1.0]]),
            "symmetries__average_predictions": True,
            "symmetries__input_vectors": ((0, 1),),
            "symmetries__target_vectors": ((0, 1),),
        },
    ),
    "early stopping": (GRIDS, GRIDS, {"early_stopping": True, "max_iter": 3}),
}


def test_predictions_and_records_come_back_bit_for_bit(tmp_path, subtests):
    for case, (X, y, params) in CASES.items():
        with subtests.test(case):
            estimator = small(**params).fit(X, y)
            loaded = reloaded(estimator, tmp_path)
            expected, found = estimator.predict(X), loaded.predict(X)
            assert type(found) is type(expected)
            np.testing.assert_array_equal(values(found), values(expected))
            assert values(found).dtype == values(expected).dtype
            assert loaded.score(X, y) == estimator.score(X, y)
            assert loaded.spec_ == estimator.spec_
            for name in (
                "loss_curve_",
                "validation_scores_",
                "n_iter_",
                "best_iter_",
                "stopped_",
                "fit_seconds_",
                "n_features_in_",
                "dtype_",
            ):
                assert getattr(loaded, name) == getattr(estimator, name)
            assert not loaded.module_.training
            # Saving what was loaded changes nothing either.
            np.testing.assert_array_equal(values(reloaded(loaded, tmp_path).predict(X)), values(expected))


def test_parameters_come_back(tmp_path):
    params = CASES["symmetries"][2] | {"scan__decay_range": (np.float64(0.1), 2.0), "width": np.int64(8)}
    params["learning_rate_init"] = np.float32(0.25)
    estimator = small(**params).fit(GRIDS, GRIDS)
    found, expected = reloaded(estimator, tmp_path).get_params(), estimator.get_params()
    options = {"training", "scaling", "symmetries", "scan"}
    assert set(found) == set(expected)
    for name in set(found) - options:
        np.testing.assert_equal(found[name], expected[name])
    # A tuple stays one, so that what was left as it was prints as the default.
    assert isinstance(found["scan__decay_range"], tuple)


LOSSES = [SobolevLoss(), RelativeL2Loss(reduction="sum"), GradientRelativeL2Loss(gradient_weight=0.5)]


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_objects_come_back_equal(loss, tmp_path):
    assert reloaded(small(loss=loss).fit(GRIDS, GRIDS), tmp_path).loss == loss


def test_a_moving_random_state_is_not_kept(tmp_path):
    estimator = small(random_state=np.random.RandomState(3)).fit(GRIDS, GRIDS)
    loaded = reloaded(estimator, tmp_path)
    assert loaded.random_state is None
    np.testing.assert_array_equal(loaded.predict(GRIDS), estimator.predict(GRIDS))


def test_names_of_columns_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(TABLE, columns=["load", "length", "angle"])
    estimator = small().fit(table, GRIDS)
    loaded = reloaded(estimator, tmp_path)
    assert list(loaded.feature_names_in_) == ["load", "length", "angle"]
    np.testing.assert_array_equal(loaded.predict(table), estimator.predict(table))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table[["angle", "length", "load"]])


def test_a_loaded_model_predicts_on_finer_grids_as_before(model, path):
    fine = GENERATOR.normal(size=(2, 7, 11, 2))
    np.testing.assert_array_equal(skop.load(path).predict(fine), model.predict(fine))


def test_a_loaded_model_can_be_fitted_on(path):
    loaded = skop.load(path).set_params(warm_start=True)
    loaded.fit(GRIDS, GRIDS[..., :1])
    assert loaded.n_iter_ == 2


def test_a_model_of_a_gpu_loads_where_there_is_none(model, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    estimator = small().fit(GRIDS, GRIDS[..., :1])
    estimator.device = "cuda"
    loaded = reloaded(estimator, tmp_path)
    assert loaded.device_ == torch.device("cpu")
    assert loaded.device == "cuda"
    np.testing.assert_array_equal(loaded.predict(GRIDS), model.predict(GRIDS))


@pytest.mark.parametrize("device", ["mps", "xpu", "meta", "cuda:99", "hpu"])
def test_a_model_of_a_device_that_is_not_there_loads(model, path, device):
    rewrite(path, lambda header, _: state_of(header).update(device=device, device_={"device": device}))
    loaded = skop.load(path)
    if device == "meta" or not torch.cuda.is_available():
        assert loaded.device_ == torch.device("cpu")
    np.testing.assert_array_equal(loaded.predict(GRIDS), model.predict(GRIDS))


@pytest.mark.parametrize("device", ["meta", "hpu", "nowhere"])
def test_a_fit_on_a_device_that_is_not_there(device):
    with pytest.raises(ValueError, match=f"device '{device}'.*'auto'"):
        small(device=device).fit(GRIDS, GRIDS[..., :1])


#: Parameters that change what the network computes and no shape of a weight.
COMPUTATION = {
    "scan__activation": "silu",
    "patches__pad_to_multiple": 3,
    "scan__scan_directions": "forward",
    "refinement": "native",
}


def test_what_was_changed_after_the_fit_is_refused_or_changes_nothing(model, tmp_path):
    for name, value in COMPUTATION.items():
        changed = copy.deepcopy(model).set_params(**{name: value})
        if name == "refinement":
            np.testing.assert_array_equal(reloaded(changed, tmp_path).predict(GRIDS), model.predict(GRIDS))
            continue
        with pytest.raises(ModelFileError, match=f"changed after the fit.*{name}"):
            changed.save(tmp_path / "model.skop")


def test_weights_with_which_a_file_could_not_be_loaded_are_refused(model, path):
    before = path.read_bytes()
    changed = copy.deepcopy(model)
    changed.module_.double()
    with pytest.raises(ModelFileError, match=r"of module_ .* from torch\.float32 to torch\.float64"):
        changed.save(path)
    changed = copy.deepcopy(model)
    with torch.no_grad():
        next(changed.module_.parameters())[0] = np.nan
    with pytest.raises(ModelFileError, match="of module_ is not finite"):
        changed.save(path)
    assert path.read_bytes() == before


class Phases(TokenMixer):
    """Filter tokens by drawn complex numbers, which are held in one of several ways."""

    def __init__(self, width, n_dims=1, *, held="weight"):
        super().__init__()
        drawn = torch.randn(width, dtype=torch.complex64)
        self.held, self.table = held, torch.arange(width)
        if held == "weight":
            self.phases = torch.nn.Parameter(drawn)
        elif held == "attribute":
            self.phases = drawn
        elif held == "list":
            self.phases = [drawn]
        else:
            self.register_buffer("phases", drawn, persistent=held == "buffer")

    def mix(self, tokens, grid):
        phases = self.phases[0] if self.held == "list" else self.phases
        return torch.fft.ifft(torch.fft.fft(tokens, dim=1) * phases, dim=1).real + self.table


class PhasesForFiles(Mixer):
    held: str = param(Choice("weight", "buffer", "table", "attribute", "list"), default="weight", text="How.")
    module = Phases


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_complex_numbers_of_a_mixer_stay_complex(dtype, optimizer, tmp_path):
    for held in ("weight", "buffer"):
        options = {"mixer": PhasesForFiles(held=held), "geometry": "structured", "dtype": dtype, "warm_start": True}
        model = small(**options, training__optimizer=optimizer, base=None).fit(GRIDS, GRIDS[..., :1])
        own = model.module_.blocks[0].mixer
        assert own.phases.dtype == getattr(torch, dtype).to_complex()
        assert own.phases.imag.abs().min() > 0
        before = own.phases.detach().clone()
        np.testing.assert_array_equal(reloaded(model, tmp_path).predict(GRIDS), model.predict(GRIDS))
        model.fit(GRIDS, GRIDS[..., :1], checkpoint_dir=tmp_path)
        assert bool((own.phases.imag == before.imag).all()) == (held == "buffer")


def test_drawn_tensors_that_a_file_would_not_hold_are_refused_by_name(tmp_path):
    for held in ("table", "attribute", "list"):
        model = small(mixer=PhasesForFiles(held=held), geometry="structured", base=None).fit(GRIDS, GRIDS[..., :1])
        for seed in (0, 1):  # the seeds with which networks are built for comparison
            model.set_params(random_state=seed)
            with pytest.raises(ModelFileError, match=r"blocks\.0\.mixer\.phases.* register what you draw as a buffer"):
                model.fit(GRIDS, GRIDS[..., :1]).save(tmp_path / "model.skop")


def test_parameters_by_which_a_file_could_not_be_loaded_are_refused(model, tmp_path, subtests):
    for params in [{"width": -1}, {"training": 3}, {"loss": "no"}, {"scan": 3}]:
        with subtests.test(params=params), pytest.raises(ModelFileError, match="with which it cannot be fitted"):
            copy.deepcopy(model).set_params(**params).save(tmp_path / "model.skop")
    with pytest.raises(NotFittedError):
        type(model)().save(tmp_path / "model.skop")
    band = skop.ConformalRegressor(skop.PODRegressor(), coverage=0.5).fit(GRIDS, GRIDS)
    with pytest.raises(ModelFileError, match=r"with which it cannot be fitted.*'estimator' parameter .* Got None"):
        band.set_params(estimator=None).save(tmp_path / "model.skop")
    assert list(tmp_path.iterdir()) == []


def test_loading_leaves_random_numbers_and_the_caller_alone(path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    skop.load(path)
    assert torch.equal(torch.rand(3), expected)


# ---------------------------------------------------------------- what is in the file
def test_the_file_holds_tensors_and_json_and_no_pickle(path):
    content = path.read_bytes()
    tensors = load_tensors(content)
    size = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["skop"])
    assert header["estimator"]["object"] == "LaMORegressor"
    assert header["estimator"]["state"]["width"] == 8
    assert header["versions"]["skop"] == skop.__version__
    assert {name.split(".")[0] for name in tensors} == {"domain_", "module_", "ranges_", "reference_", "scalers_"}
    assert b"multiarray" not in content
    assert b"__reduce__" not in content


# ---------------------------------------------------------------- writing
def test_a_file_is_replaced(path):
    other = small(random_state=1).fit(GRIDS, GRIDS[..., :1])
    other.save(path)
    np.testing.assert_array_equal(skop.load(path).predict(GRIDS), other.predict(GRIDS))
    assert [item.name for item in path.parent.iterdir()] == ["model.skop"]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links")
def test_permissions_and_links_stay(model, tmp_path):
    held, link = tmp_path / "model.skop", tmp_path / "link.skop"
    held.write_bytes(b"")
    held.chmod(0o600)
    link.symlink_to(held)
    model.save(link)
    assert link.is_symlink()
    assert held.stat().st_mode & 0o777 == 0o600
    np.testing.assert_array_equal(skop.load(held).predict(GRIDS), model.predict(GRIDS))


def test_names_may_be_as_long_as_the_system_allows(model, tmp_path):
    model.save(tmp_path / ("m" * 250 + ".skop"))
    assert len([*tmp_path.iterdir()]) == 1


def test_what_a_killed_process_has_left_behind_is_removed(model, tmp_path):
    names = [".model.skop.abcdefgh.skop-part", ".model.skop.ijklmnop.skop-part", ".other.skop.abcdefgh.skop-part"]
    for name in (*names, ".model.skop.settings"):
        (tmp_path / name).write_bytes(b"part")
        if name != names[1]:
            os.utime(tmp_path / name, (0, 0))
    model.save(tmp_path / "model.skop")
    left = {path.name for path in tmp_path.iterdir()}
    # Another process may still be writing what is new.
    assert left == {"model.skop", names[1], names[2], ".model.skop.settings"}


def custom_loss(prediction, target, **_):
    return ((prediction - target) ** 2).mean()


@pytest.mark.parametrize("place", ["os.replace", "os.fsync"])
def test_a_crash_while_writing_leaves_the_old_file(model, path, monkeypatch, place):
    before = path.read_bytes()

    def crash(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(f"skop._files.{place}", crash)
    with pytest.raises(OSError, match="disk is full"):
        small(random_state=1).fit(GRIDS, GRIDS[..., :1]).save(path)
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == ["model.skop"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_an_error_of_the_system_names_the_path(model, path, monkeypatch, number):
    before = path.read_bytes()

    def crash(*_):
        raise OSError(number, "as the system says")

    monkeypatch.setattr("skop._files.os.fsync", crash)
    with pytest.raises(OSError, match=r"as the system says; an earlier file .* is unchanged; .* folder") as caught:
        model.save(path)
    assert ("free some space" in str(caught.value)) == (number == errno.ENOSPC)
    assert (type(caught.value), caught.value.errno) == (type(OSError(number, "")), number)
    assert str(caught.value).endswith(repr(str(path)))
    assert path.read_bytes() == before


def test_a_loss_of_ones_own_is_refused_and_the_old_file_stays(path):
    before = path.read_bytes()
    estimator = small(loss=custom_loss).fit(GRIDS, GRIDS[..., :1])
    with pytest.raises(ModelFileError, match=r"loss=.*name of a loss.*joblib"):
        estimator.save(path)
    assert path.read_bytes() == before


def test_a_loss_class_of_ones_own_is_refused_when_saving(path):
    class Halved(RelativeL2Loss):
        """Not a loss that a file may name."""

    assert issubclass(Halved, TrainingLoss)
    estimator = small(loss=Halved()).fit(GRIDS, GRIDS[..., :1])
    with pytest.raises(ModelFileError, match=r"loss=.*Halved"):
        estimator.save(path)


def test_a_folder_that_is_not_there(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        model.save(tmp_path / "nowhere" / "model.skop")


def test_a_folder_is_no_file_to_write(model, tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    # The path "" is that of the working folder.
    for path, shown in (("models", "'models'"), (tmp_path / "models", str(tmp_path)), ("", r"'\.'")):
        with pytest.raises(IsADirectoryError, match=f"{shown}.* is a folder; pass the path of a file") as caught:
            model.save(path)
        assert "skop-part" not in str(caught.value)
    assert [*tmp_path.rglob("*")] == [tmp_path / "models"]
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(FileExistsError, match="'a' is a link that leads back to itself"):
        model.save("a")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOENT])
def test_a_folder_that_takes_no_files_is_named_before_the_work(model, tmp_path, monkeypatch, number):
    def refuse(**_):
        raise OSError(number, "as the system says")

    monkeypatch.setattr("skop._files.tempfile.TemporaryFile", refuse)
    monkeypatch.setattr("skop.estimators.files._persistence.write_state", lambda *_: pytest.fail("the file was made"))
    words = r"'.*model\.skop' cannot be written, .* folder '.*' \(as the system says\); choose another folder"
    with pytest.raises(OSError, match=words) as caught:
        model.save(tmp_path / "model.skop")
    assert type(caught.value) is type(OSError(number, ""))


def test_a_file_is_no_folder_to_write_in(model, path):
    with pytest.raises(NotADirectoryError, match=r"model\.skop' is no folder but a file; correct the path"):
        model.save(path / "other.skop")


# ---------------------------------------------------------------- damage
def check_damaged(path, content, expected):
    """A changed file either says that it is damaged or still is the same model; tell which."""
    path.write_bytes(content)
    try:
        loaded = skop.load(path)
    except ModelFileError:
        return True
    np.testing.assert_array_equal(loaded.predict(GRIDS), expected)
    return False


def test_a_file_cut_short_is_refused(model, path):
    content, expected = path.read_bytes(), model.predict(GRIDS)
    size = int.from_bytes(content[:8], "little")
    lengths = {0, 1, 7, 8, 9, 8 + size - 1, 8 + size, 8 + size + 1, len(content) - 1}
    for length in lengths | set(range(0, len(content), max(1, len(content) // 80))):
        assert check_damaged(path, content[:length], expected), length
    assert check_damaged(path, content + b"\0", expected)


CHANGED_BITS = [0x01, 0x0F, 0x13, 0x80, 0xFF]


@pytest.mark.parametrize(
    "changes", [CHANGED_BITS, *(pytest.param([bits], marks=pytest.mark.exhaustive) for bits in CHANGED_BITS)]
)
def test_one_changed_byte_never_gives_wrong_numbers(model, path, changes):
    """Some places with one of the changes after the other by default, and more with all of them in the long run."""
    content, expected = path.read_bytes(), model.predict(GRIDS)
    size = int.from_bytes(content[:8], "little")
    step, n_later = (11, 100) if len(changes) == 1 else (23, 50)
    places = [*range(8), *range(8, 8 + size, step), *range(8 + size, len(content), max(1, len(content) // n_later))]
    refused = []
    for place, change in zip(places, cycle(changes), strict=False):
        changed = bytearray(content)
        changed[place] ^= change
        refused.append(check_damaged(path, bytes(changed), expected))
    assert np.mean(refused) > 0.95


@pytest.mark.parametrize(("old", "new"), [(b'"F32"', b'"I32"'), (b'"F32"', b'"U32"'), (b'"F64"', b'"I64"')])
def test_a_changed_type_of_a_tensor_is_refused(model, path, old, new):
    content, expected = path.read_bytes(), model.predict(GRIDS)
    assert old in content
    start = 0
    while (start := content.find(old, start)) >= 0:
        assert check_damaged(path, content[:start] + new + content[start + len(new) :], expected)
        start += 1


def test_foreign_files_are_refused(tmp_path, subtests):
    for label, content in {
        "empty": b"",
        "text": b"hello",
        "pickle": b"\x80\x04K\x01.",
        "ones": b"\xff" * 100,
        "json": json.dumps({"a": 1}).encode(),
        "other tensors": save_tensors({"a": torch.zeros(2)}),
        "bad header": save_tensors({"a": torch.zeros(2)}, {"skop": "no json", "sha256": "0"}),
    }.items():
        with subtests.test(label):
            (tmp_path / "file").write_bytes(content)
            with pytest.raises(ModelFileError, match="file"):
                skop.load(tmp_path / "file")


def test_a_header_within_itself_is_refused(path):
    content = path.read_bytes()
    header, tensors = read_container(path)
    for text in ("[" * 100_000 + "]" * 100_000, json.dumps(header).replace('"format": 2', f'"format": {"9" * 5000}')):
        path.write_bytes(save_tensors(tensors, {"skop": text, "sha256": digest(text, tensors)}))
        with pytest.raises(ModelFileError, match="has an invalid header"):
            skop.load(path)
    empty = b'{"__metadata__":null}  '
    path.write_bytes(len(empty).to_bytes(8, "little") + empty)
    with pytest.raises(ModelFileError, match="not a skop model file"):
        skop.load(path)
    path.write_bytes(content)
    skop.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_is_no_model_file(model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="pipe or a device"):
        skop.load(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="pipe or a device"):
        model.save(tmp_path / "pipe")


def test_a_missing_file_is_missing(tmp_path):
    (tmp_path / "model_1.skop").touch()
    with pytest.raises(FileNotFoundError, match=r"there is no model file '.*model\.skop'; .* such as model_1\.skop"):
        skop.load(tmp_path / "model.skop")
    with pytest.raises(IsADirectoryError, match="is a folder; pass the path of a model file"):
        skop.load(tmp_path)


def rewrite(path, change):
    """Change header and tensors of a file and write it with a checksum that fits."""
    header, tensors = read_container(path)
    change(header, tensors)
    text = json.dumps(header, sort_keys=True)
    Path(path).write_bytes(save_tensors(tensors, {"skop": text, "sha256": digest(text, tensors)}))


def test_a_rewritten_file_without_change_loads(model, path):
    rewrite(path, lambda header, tensors: None)
    np.testing.assert_array_equal(skop.load(path).predict(GRIDS), model.predict(GRIDS))


def test_a_band_around_what_is_no_estimator_of_such_samples_is_refused(tmp_path):
    X, y = GRIDS[:, 0, 0, :1], GRIDS[:, :, 0]
    band = skop.ConformalRegressor(PODRegressor(), coverage=0.5, random_state=0).fit(X, y)
    band.save(tmp_path / "band.skop")

    def change(header, _):
        state_of(header)["estimator_"] = state_of(header)["estimator_"]["state"]["models_"][0]["state"]["regressor"]

    rewrite(tmp_path / "band.skop", change)
    with pytest.raises(ModelFileError, match=r"(?s)estimator_ of .*fitted estimators that take such X"):
        skop.load(tmp_path / "band.skop")


@pytest.mark.parametrize(
    "change",
    [
        {"info": "text"},
        {"info": {"dict": {"a note": 5}}},
        {"point_sets": {"dict": {"fixed": [10**6]}}},
        {"cell_sets": {"dict": {"left": [[-1]]}}},
        {"cell_sets": {"dict": {"left": [[0]] * 50}}},
        {"cell_sets": "text"},
        {"field_data": {"dict": {"left": [0]}}},
    ],
)
def test_notes_and_sets_of_a_mesh_that_are_none_are_refused(tmp_path, change):
    path = shutil.copy(Path(__file__).parent / "files" / "mesh.skop", tmp_path)
    rewrite(path, lambda header, _: state_of(header)["mesh_"]["mesh"]["dict"].update(change))
    with pytest.raises(ModelFileError, match="a mesh in the file has invalid points, cells, notes or sets"):
        skop.load(path)


def test_a_fitted_pipeline_with_a_step_that_is_not_is_refused(tmp_path):
    path = shutil.copy(FOLDER / "pipeline.skop", tmp_path)

    def change(header, _):
        scaler = state_of(header)["steps"][0]["tuple"][1]["state"]
        for name in [name for name in scaler if name.endswith("_")]:
            del scaler[name]

    rewrite(path, change)
    with pytest.raises(ModelFileError, match=r"steps of Pipeline in the file .*fitted transformers"):
        skop.load(path)


def state_of(header):
    return header["estimator"]["state"]


CHANGES = {
    "later format": (lambda header, _: header.update(format=99), r"format 99.*Upgrade"),
    "earlier format": (lambda header, _: header.update(format=1), r"format 1.*Fit again"),
    "unknown class": (lambda header, _: header["estimator"].update(object="os.system"), r"'os.system'.*LaMORegressor"),
    "unknown function": (lambda header, _: state_of(header).update(loss={"ufunc": "system"}), "no function of NumPy"),
    "no estimator": (lambda header, _: header.update(estimator=state_of(header)["scalers_"]), "no estimator of skop"),
    "unknown parameter": (lambda header, _: state_of(header).update(colour="red"), "colour"),
    "missing part without a default": (
        lambda header, _: state_of(header)["spec_"]["state"].pop("n_dims"),
        "written by this version, perhaps in another state.*n_dims of DataSpec is missing.*fit and save again",
    ),
    "missing attribute": (lambda header, _: state_of(header).pop("domain_"), "domain_ of LaMORegressor is missing"),
    "unknown loss": (lambda header, _: state_of(header).update(loss={"object": "Exec", "state": {}}), "Exec"),
    "unknown option of a loss": (
        lambda header, _: state_of(header).update(loss={"object": "SobolevLoss", "state": {"colour": 1}}),
        "colour",
    ),
    "another network": (lambda header, _: state_of(header).update(width=12), "weights do not fit"),
    "missing weight": (
        lambda _, tensors: tensors.pop(next(name for name in tensors if name.startswith("module_."))),
        "weights do not fit",
    ),
    "missing statistic": (
        lambda _, tensors: tensors.pop(next(name for name in tensors if name.startswith("scalers_."))),
        "is missing",
    ),
    "further weight": (lambda _, tensors: tensors.update({"module_.more": torch.zeros(2)}), "weights do not fit"),
}


def network_tensor(change):
    """Change of the first tensor of weights of a file."""

    def apply(_, tensors):
        name = min(name for name in tensors if name.startswith("module_.") and tensors[name].ndim)
        tensors[name] = change(tensors[name].clone())

    return apply


def filled(value):
    """Change of the first number of a tensor."""

    def change(tensor):
        tensor.reshape(-1)[0] = value
        return tensor

    return change


def parameter(**values):
    """Change of parameters, also of those that the file says the fit had."""

    def change(header, _):
        state_of(header).update(values)
        state_of(header)["network_parameters_"]["dict"].update(values)

    return change


def of_spec(**values):
    """Change of the form of the data."""
    return lambda header, _: state_of(header)["spec_"]["state"].update(values)


def list_in_lists(levels):
    """A list in lists."""
    return json.loads("[" * levels + "]" * levels)


CHANGES |= {
    "format that is no number": (lambda header, _: header.update(format=True), "without format"),
    "no versions": (lambda header, _: header.pop("versions"), "has an invalid header"),
    "values within values": (lambda header, _: state_of(header).update(backend_=list_in_lists(300)), "100 levels"),
    "a method": (lambda header, _: state_of(header).update(predict=1), "predict of LaMORegressor, which is code"),
    "a property": (lambda header, _: state_of(header).update(resampling_error_=1), "which is code"),
    "one of Python's own": (lambda header, _: state_of(header).update(__dict__={"dict": {}}), "which is code"),
    "a statistic in place of a method": (
        lambda header, _: state_of(header)["scalers_"]["state"]["target"]["state"].update(inverse_transform=1),
        "inverse_transform of FieldScaler, which is code",
    ),
    "a billion dimensions": (of_spec(n_dims=10**9), "n_dims of DataSpec in the file is 1000000000"),
    "a million channels": (of_spec(n_fields=10**6), "ranges of 1000000 values"),
    "a grid without end": (of_spec(grid_shape={"tuple": [10**30, 5]}), "grid_shape of DataSpec"),
    "a dimension that is a word": (of_spec(n_dims="x"), "n_dims of DataSpec in the file is 'x'; expected an integer"),
    "a type of ten megabytes": (
        lambda header, _: state_of(header)["spec_"]["state"]["target_form"]["state"].update(dtype="a10000000"),
        "dtype of TargetForm",
    ),
    "half precision": (lambda header, _: state_of(header).update(dtype_="float16"), "dtype_ of LaMORegressor"),
    "a wide network": (parameter(width=40000), "weights do not fit"),
    "a deep network": (parameter(depth=200), "weights do not fit.*more than"),
    "a parameter out of its range": (parameter(width=-1), "width"),
    "a parameter of another fit": (parameter(patches=[1]), "patches"),
    "other dropout than in the fit": (
        lambda header, _: state_of(header)["network_parameters_"]["dict"].update(dropout=0.5),
        "differ between the file and the fit .dropout",
    ),
    "an unknown activation in the fit": (
        lambda header, _: state_of(header)["network_parameters_"]["dict"].update(scan__activation="relu"),
        "'activation' parameter of GridSSD must be",
    ),
    "weights of NaN": (network_tensor(filled(np.nan)), "weights do not fit the network: .* is not finite"),
    "weights of another type": (network_tensor(lambda tensor: tensor.double()), "float64.* must be torch.float32"),
    "a scale of zero": (
        lambda _, tensors: tensors.update({"scalers_.target.scale_": torch.zeros(1, dtype=torch.float64)}),
        "scale_ of FieldScaler.*positive",
    ),
    "an array in two places": (
        lambda header, _: state_of(header).update(coords_={"array": "domain_.lower"}),
        "'domain_.lower' is missing in the file, or used twice",
    ),
}


def test_whole_files_that_do_not_fit_are_refused(path, subtests):
    content = path.read_bytes()
    for case, (change, message) in CHANGES.items():
        with subtests.test(case):
            path.write_bytes(content)
            rewrite(path, change)
            with pytest.raises(ModelFileError, match=message):
                skop.load(path)


def absent(*places):
    """Change of a header: parts that came later are not in the file."""

    def change(header, _):
        for *path, name in places:
            state = state_of(header)
            for part in path:
                state = state[part]["state"]
            state.pop(name)

    return change


def test_parts_that_came_later_have_their_defaults(model, path):
    later = [("spec_", "param_names"), ("spec_", "target_form", "scalar_names"), ("scalers_", "target", "function")]
    rewrite(path, absent(*later, ("training",), ("scaling",)))
    loaded = skop.load(path)
    np.testing.assert_array_equal(loaded.predict(GRIDS), model.predict(GRIDS))
    assert loaded.spec_ == model.spec_
    loaded.set_params(warm_start=True).fit(GRIDS, GRIDS[..., :1])


def test_options_and_parameters_of_the_network_that_came_later_have_their_defaults(tmp_path):
    fitted = small(symmetries=SymmetryOptions(names=("flip_x",), average_predictions=True)).fit(GRIDS, GRIDS[..., :1])
    path = tmp_path / "model.skop"
    fitted.save(path)

    def change(header, tensors):
        absent(("symmetries", "mirrors"), ("symmetries", "param_vectors"), ("latents",))(header, tensors)
        state_of(header)["network_parameters_"]["dict"].pop("latents__n_tokens")

    rewrite(path, change)
    loaded = skop.load(path)
    np.testing.assert_array_equal(loaded.predict(GRIDS), fitted.predict(GRIDS))
    assert repr(loaded.get_params()) == repr(fitted.get_params())
    # A later change of the parameter is still noticed.
    loaded.geometry_ = "points"
    assert [*loaded.set_params(latents__n_tokens=7)._changed_since_fit()] == ["latents__n_tokens"]


def test_parts_left_to_their_defaults_stay_those_of_the_fit(tmp_path):
    """As in files from before a default changed."""
    y = np.repeat(GRIDS[..., :1], 20, axis=-1)
    fitted = small(patches=Patches(conv_channels=6)).fit(GRIDS, y)
    path = tmp_path / "model.skop"
    fitted.save(path)
    rewrite(path, lambda header, _: state_of(header).update(patches=None))
    loaded = skop.load(path)
    assert repr(loaded.patches) == "Patches(conv_channels=6)"
    np.testing.assert_array_equal(loaded.predict(GRIDS), fitted.predict(GRIDS))
    loaded.save(path)
    # The defaults of other estimators stay.
    assert small().get_params()["patches__conv_channels"] == "auto"


#: Names of the model files in the folder, those of version 0.1.0 with their folder.
FILES = sorted(path.relative_to(FOLDER).as_posix().removesuffix(".skop") for path in FOLDER.rglob("*.skop"))


def test_files_of_earlier_versions_give_the_predictions_of_then(subtests):
    for name in FILES:
        with subtests.test(name):
            path = FOLDER / f"{name}.skop"
            with warnings.catch_warnings():
                # Another scikit-learn than that of the file may be installed.
                warnings.simplefilter("ignore", SkopWarning)
                held, estimator = np.load(path.with_suffix(".npz")), skop.load(path)
            X = inputs_of(path, estimator)
            predicted = estimator.predict(X)
            found = {"values": values_of(predicted), "scalars": getattr(predicted, "params", None)}
            if held.keys() & {"lower", "score"}:
                found |= others_of(estimator, X)
            for kind in found.keys() & held.keys():
                # A novelty divides differences of features in single precision by their spread, which may be small.
                drift = 1e-3 if kind == "score" else 1e-5
                np.testing.assert_allclose(found[kind], held[kind], rtol=0, atol=drift * np.abs(held[kind]).max())


def test_the_patience_of_earlier_versions_is_an_option_of_the_training(tmp_path):
    path = tmp_path / "old.skop"
    path.write_bytes((FOLDER / "unet.skop").read_bytes())
    assert skop.load(path).get_params()["training__n_iter_no_change"] == 10

    def change(header, tensors):
        state_of(header)["n_iter_no_change"] = 7

    rewrite(path, change)
    assert skop.load(path).training.n_iter_no_change == 7


def test_there_is_a_file_of_version_0_1_0_of_each_estimator_and_of_each_part():
    """FNO needs a further package, and base classes of parts are in no file."""
    public = {name for name in skop.__all__ if name.endswith("Regressor")}
    parts = {name for name, kind in Part.known.items() if kind.__module__.startswith("skop.")}
    held = set()
    for _, model, _, _ in cases_of_0_1_0(np.random.default_rng(0)):
        held |= {type(each).__name__ for each in (model, *model.get_params().values())}
    assert public - held == {"OperatorRegressor", "FNORegressor"}
    assert parts - held == {"Mixer", "Host", "PointTokens"}


@pytest.mark.parametrize(("name", "model"), [case[:2] for case in cases_of_0_1_0(np.random.default_rng(0))])
def test_files_of_version_0_1_0_hold_the_parameters_of_then(name, model):
    assert repr(skop.load(FOLDER / "0.1.0" / f"{name}.skop")) == repr(model)


def test_files_of_one_model_are_equal_byte_for_byte(model, tmp_path):
    files = [tmp_path / f"{number}.skop" for number in range(8)]
    for path in files:
        model.save(path)
    skop.load(files[0]).save(tmp_path / "again.skop")
    assert {path.read_bytes() for path in (*files, tmp_path / "again.skop")} == {files[0].read_bytes()}


# ---------------------------------------------------------------- every estimator
def nested():
    member = small()
    return {
        "POD": (PODRegressor(), GRIDS, GRIDS[..., :1]),
        "POD with ridge of scikit-learn": (PODRegressor(regressor=Ridge()), GRIDS, GRIDS[..., :1]),
        "POD with a Gaussian process": (PODRegressor(regressor="gaussian_process", n_components=2), TABLE, GRIDS),
        "POD with the mean": (PODRegressor(regressor="mean"), GRIDS, TABLE),
        **{
            f"MNO, {host}, {mixer}": (MNORegressor(host=host, mixer=mixer, width=8, depth=1, max_iter=1), GRIDS, GRIDS)
            for host, mixer in (
                (GNOT(), Attention()),
                (GalerkinTransformer(), Mamba(d_state=4)),
                (OFormer(), RotaryAttention(kind="softmax")),
            )
        },
        **{
            f"GeoMaNO, {patches.positional_encoding}": (
                GeoMaNORegressor(width=8, depth=1, mixer=scan, patches=patches, max_iter=1),
                GRIDS,
                GRIDS,
            )
            for scan, patches in (
                (GeometricScan(recurrence="grid"), Patches()),
                (GeometricScan(separate_gate=False), Patches(positional_encoding="learned")),
            )
        },
        "AMO": (AMORegressor(width=8, depth=1, mixer=TakenakaMalmquist(n_poles=3), max_iter=1), GRIDS, GRIDS),
        "AMO with fixed poles of a filter": (
            AMORegressor(
                width=8, depth=1, mixer=TakenakaMalmquist(transform="filter", adaptive_poles=False), max_iter=1
            ),
            GRIDS,
            GRIDS,
        ),
        "AMO as printed": (
            AMORegressor(
                width=8,
                depth=1,
                geometry="points",
                latents=LatentAttention(n_tokens=6),
                mixer=LiteralExpansions(),
                max_iter=1,
            ),
            GRIDS,
            GRIDS,
        ),
        "ensemble": (EnsembleRegressor(member, n_members=2, random_state=0), GRIDS, GRIDS[..., :1]),
        "rollout": (RolloutRegressor(member, window=2), GRIDS, np.concatenate([GRIDS, GRIDS], axis=-1)),
        "times": (TimeConditionedRegressor(PODRegressor(), times=[0.5, 2.0]), GRIDS, GRIDS),
        "ensemble of rollouts": (
            EnsembleRegressor(RolloutRegressor(member, window=2), n_members=2, random_state=0),
            GRIDS,
            GRIDS,
        ),
    }


def test_estimators_around_others_come_back_bit_for_bit(tmp_path, subtests):
    for name, (estimator, X, y) in nested().items():
        with subtests.test(name):
            fitted = estimator.fit(X, y)
            loaded = reloaded(fitted, tmp_path)
            assert type(loaded) is type(fitted)
            np.testing.assert_array_equal(values(loaded.predict(X)), values(fitted.predict(X)))
            assert repr(loaded.get_params(deep=False)) == repr(fitted.get_params(deep=False))


def test_a_regressor_that_is_not_known_is_refused_with_advice(tmp_path):
    fitted = PODRegressor(regressor=HuberLike()).fit(GRIDS, GRIDS[..., :1])
    with pytest.raises(ModelFileError, match=r"regressor=.*joblib\.dump"):
        fitted.save(tmp_path / "model.skop")


def test_another_scikit_learn_is_named(tmp_path):
    path = tmp_path / "model.skop"
    PODRegressor(regressor=Ridge()).fit(GRIDS, GRIDS[..., :1]).save(path)
    rewrite(path, lambda header, _: header["versions"].update({"scikit-learn": "1.0"}))
    with pytest.warns(SkopWarning, match=r"scikit-learn 1\.0"):
        skop.load(path)


def test_arrays_of_foreign_byte_order_and_of_objects_are_saved(tmp_path):
    vectors = np.array([[0, 1]], dtype=object)
    estimator = small(symmetries=("flip_x",), symmetries__input_vectors=vectors, symmetries__average_predictions=True)
    loaded = reloaded(estimator.fit(GRIDS, GRIDS[..., :1]), tmp_path)
    np.testing.assert_array_equal(loaded.predict(GRIDS), estimator.predict(GRIDS))
    foreign = small().fit(TABLE, (POINTS.astype(">f8"), FIELDS.values))
    np.testing.assert_array_equal(reloaded(foreign, tmp_path).predict(TABLE)[1], foreign.predict(TABLE)[1])


def test_arrays_keep_their_order_in_memory_on_which_rounding_depends(tmp_path):
    for order in "CF":
        write_state(np.ones((3, 2), order=order), tmp_path / "array.state")
        found = read_state(tmp_path / "array.state")
        assert (found.flags.c_contiguous, found.flags.f_contiguous) == (order == "C", order == "F")


def test_a_class_of_the_name_of_one_of_skop_does_not_take_its_place(model, tmp_path):
    with pytest.warns(SkopWarning, match="Rename it"):
        type("LaMORegressor", (LaMORegressor,), {"__module__": "someone"})
    assert type(reloaded(model, tmp_path)) is LaMORegressor
