"""Make `files/*.skop` and `files/*.npz`: a small model file of each operator, its inputs, and what it predicts.

    python tests/estimators/make_model_files.py [NAME ...]

Later versions must load these files, so that files of users load too. They are written once and kept: names say which
to write, of new operators. When the format of files changes, write new ones beside them under other names. Those in
`files/0.1.0` hold each estimator, and each part, as version 0.1.0 writes them; the others are older.
"""

import sys
from itertools import chain
from pathlib import Path

import meshio
import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skop import (
    AMORegressor,
    AutoRegressor,
    ConformalRegressor,
    DeepONetRegressor,
    EnsembleRegressor,
    FieldSet,
    GeoMaNORegressor,
    LaMORegressor,
    LawRegressor,
    MeanFieldRegressor,
    MNORegressor,
    PODRegressor,
    RolloutRegressor,
    ScalingOptions,
    SymmetryOptions,
    TimeConditionedRegressor,
    TrainingOptions,
    TransolverRegressor,
    UNetRegressor,
    save,
)
from skop.data import unit_grid
from skop.parts import (
    GNOT,
    Attention,
    GalerkinTransformer,
    GeometricScan,
    GridSSD,
    Hydra,
    LatentAttention,
    LatentTokens,
    LiteralExpansions,
    Mamba,
    Mamba2,
    OFormer,
    Patches,
    RotaryAttention,
    TakenakaMalmquist,
)

FOLDER = Path(__file__).with_name("files")
SMALL = {"width": 8, "depth": 1, "max_iter": 2, "random_state": 0}
GRID = (5, 4)


def cases(random):
    """Estimator, X and y of each file."""
    points = random.random((12, 2))
    own = [random.random((size, 2)) for size in (5, 7, 6, 8)]
    vectors = random.normal(size=(4, 20, 2))
    loads = random.normal(size=(4, 3)).round(3)
    yield (
        "lamo",
        LaMORegressor(
            **SMALL,
            patches=Patches(size=2, conv_channels=4),
            scan=GridSSD(d_state=4),
            symmetries=SymmetryOptions(
                names=["flip_x"], input_vectors=[(0, 1)], target_vectors=[(0, 1)], average_predictions=True
            ),
        ),
        FieldSet(unit_grid(GRID) * [2, 1], vectors, grid_shape=GRID, channel_names=["u", "v"]),
        FieldSet(unit_grid(GRID) * [2, 1], 3 + vectors[..., ::-1], grid_shape=GRID, channel_names=["p", "q"]),
    )
    yield (
        "geomano",
        GeoMaNORegressor(**SMALL, grid=(4, 4), patches=Patches(size=2, conv_channels=4)),
        FieldSet(points, np.sin(points[None] + np.arange(4)[:, None, None])),
        FieldSet(points, np.cos(points[None, :, :1] + np.arange(4)[:, None, None])),
    )
    yield (
        "mno",
        MNORegressor(
            **SMALL,
            host=GalerkinTransformer(decoder="pointwise", decoder_width=8),
            mixer=Mamba(d_state=2),
            symmetries=SymmetryOptions(rotations=[((0.5, 0.5), 120)], param_vectors=[(0, 1)]),
            training=TrainingOptions(ema_decay=None),
        ),
        FieldSet(own, [part.sum(axis=1, keepdims=True) for part in own], params=loads),
        FieldSet(own, [part[:, :1] * part[:, 1:] for part in own], params=loads[:, :2] ** 2),
    )
    yield (
        "amo",
        AMORegressor(
            **SMALL,
            latents=LatentTokens(n_tokens=4),
            mixer=TakenakaMalmquist(n_poles=3, d_state=4),
            scaling=ScalingOptions(target_transform="log"),
        ),
        loads,
        FieldSet(points, np.exp(random.normal(size=(4, 12, 1)))),
    )
    clouds = FieldSet(own, [part[:, :1] for part in own])
    yield "transolver", TransolverRegressor(**SMALL, n_slices=3, n_heads=2, reference_size=2), clouds, clouds
    sensors = FieldSet(points, random.normal(size=(4, 12, 1)), params=loads)
    yield "deeponet", DeepONetRegressor(width=8, n_basis=3, max_iter=2, random_state=0), sensors, sensors
    grid = FieldSet(unit_grid(GRID), random.normal(size=(4, 20, 1)), grid_shape=GRID)
    yield "unet", UNetRegressor(**SMALL | {"width": 2}), grid, grid
    yield from estimators_without_a_network_or_around_others(random, points)


def estimators_without_a_network_or_around_others(random, points):
    """Estimator, X and y of the files of classical models, models over a base, and estimators that wrap others."""
    small = SMALL | {"latents": LatentTokens(n_tokens=4), "mixer": Hydra(d_state=4)}
    designs = random.random((12, 2)).round(3)
    waves = FieldSet(points, np.sin(designs[:, None, :1] + designs[:, None, 1:] * points[None, :, :1]))
    few = FieldSet(points, waves.values[:4])
    yield "mean_field", MeanFieldRegressor(), designs[:4], few
    yield "pod", PODRegressor(), designs, waves
    yield "pod_gaussian_process", PODRegressor(regressor="gaussian_process", n_components=2), designs, waves
    yield "pod_akima", PODRegressor(regressor="akima"), designs[:, :1], waves
    yield "pod_ridge", PODRegressor(regressor="ridge", n_components=2), few, few
    yield "pod_of_scikit_learn", PODRegressor(regressor=Ridge(), n_components=2), designs, waves
    yield "lamo_base", LaMORegressor(**small, base="pod"), designs, waves
    yield "ensemble", EnsembleRegressor(LaMORegressor(**small), n_members=2), designs[:4], few
    grid = FieldSet(unit_grid(GRID), random.normal(size=(4, 20, 1)), grid_shape=GRID)
    frames = FieldSet(unit_grid(GRID), random.normal(size=(4, 20, 3)), grid_shape=GRID)
    lamo = LaMORegressor(**SMALL, patches=Patches(size=2), scan=GridSSD(d_state=4))
    yield "rollout", RolloutRegressor(lamo, window=1), grid, frames
    yield "times", TimeConditionedRegressor(LaMORegressor(**small), times=[0.5, 1.0, 2.0]), grid, frames
    lamo = LaMORegressor(**SMALL, mixer=Hydra(d_state=4))
    candidates = [("mean", MeanFieldRegressor()), ("POD", PODRegressor()), ("LaMO", lamo)]
    auto = AutoRegressor(candidates=candidates, max_time=None, random_state=0)
    yield "auto", auto, designs, waves
    yield "conformal", ConformalRegressor(PODRegressor(), coverage=0.5, random_state=0), designs, waves
    steps = StandardScaler(), PolynomialFeatures(2), LaMORegressor(**small)
    many = FieldSet(unit_grid(GRID), random.normal(size=(16, 20, 1)), grid_shape=GRID)
    later = FieldSet(unit_grid(GRID), random.normal(size=(16, 20, 2)), grid_shape=GRID)
    band = RolloutRegressor(PODRegressor(n_components=3), window=1)
    yield "conformal_rollout", ConformalRegressor(band, coverage=0.5, random_state=0), many, later
    yield "lamo_novelty", LaMORegressor(**small), designs, waves
    yield "pipeline", make_pipeline(*steps), designs[:4], few
    mesh = meshio.Mesh(points, [("line", np.stack([np.arange(11), np.arange(1, 12)], axis=1))])
    yield "mesh", LaMORegressor(**small), designs[:4], (mesh, waves.values[:4])
    yield "mno_oformer", MNORegressor(**SMALL, host=OFormer(), mixer=Mamba(d_state=2)), grid, grid
    # Bands of folds with a scale that is learned, and around a fitted estimator whose nodes move.
    ridge = PODRegressor(regressor="ridge", n_components=2)
    folds = {"method": "cv+", "cv": 3, "scale": MeanFieldRegressor(), "coverage": 0.6, "random_state": 0}
    yield "conformal_folds", ConformalRegressor(ridge, **folds), designs, waves
    moved = points + 0.02 * designs[:, None]
    own = FieldSet(moved, np.sin(moved[..., :1] * designs[:, None, 1:]))
    fitted = FrozenEstimator(clone(ridge).fit(own[:6], own[:6]))
    band = ConformalRegressor(PODRegressor(), coverage=0.5, random_state=0)
    yield "law", LawRegressor(band, angles=[0], period=0.9, proportional_to=1, offset=0.1), designs, waves
    yield "conformal_frozen", ConformalRegressor(fitted, coverage=0.5, random_state=0), own[6:], own[6:]


def cases_of_0_1_0(random):
    """Estimator, X and y of each file of version 0.1.0, as small as a file can be."""
    tiny = {"max_iter": 1, "random_state": 0, "base": None}
    small = tiny | {"width": 4, "depth": 1}
    designs, points = random.random((10, 2)).round(3), random.random((6, 2)).round(3)
    clouds = FieldSet(points, random.normal(size=(4, 6, 1)).round(3))
    grid = FieldSet(unit_grid((4, 3)), random.normal(size=(4, 12, 1)).round(3), grid_shape=(4, 3))
    frames = FieldSet(unit_grid((4, 3)), random.normal(size=(4, 12, 2)).round(3), grid_shape=(4, 3))
    lines = FieldSet(points, (designs[:, None, 1:] * points[None, :, :1]).round(3))
    patches = Patches(size=2, conv_channels=0)
    tokens = {"n_tokens": 2, "n_heads": 1, "n_centred_heads": 0, "n_frequencies": 0}
    scan = GridSSD(d_state=1, expand=1, path_weights="shared", kernel_size=1)
    flipped = SymmetryOptions(names=("flip_x",))
    yield "lamo_grid", LaMORegressor(**small, patches=patches, scan=scan, symmetries=flipped), grid, grid
    own = {"training": TrainingOptions(ema_decay=None), "scaling": ScalingOptions(targets=None)}
    latents = LatentTokens(**tokens, normalize=False)
    model = LaMORegressor(**small | own | {"base": "linear"}, latents=latents, mixer=Mamba2(d_state=1, expand=1))
    yield "lamo_points", model, designs, lines
    scan = GeometricScan(d_state=1, expand=1, recurrence="grid", kernel_size=1)
    yield "geomano_grid", GeoMaNORegressor(**small, patches=patches, mixer=scan), grid, grid
    host = GalerkinTransformer(kernel_size=1, decoder="pointwise", decoder_width=4)
    yield "mno_galerkin", MNORegressor(**small, host=host, mixer=Mamba(d_state=1, expand=1)), grid, grid
    host, softmax = GNOT(mlp_depth=0), Attention(kind="softmax", n_heads=1)
    yield "mno_gnot", MNORegressor(**small, host=host, mixer=softmax), clouds, clouds
    host, rotary = OFormer(n_fourier=2, latent_width=4), RotaryAttention(n_heads=1, rotary_scales=2.0)
    yield "mno_rotary", MNORegressor(**small, host=host, mixer=rotary), clouds, clouds
    poles = TakenakaMalmquist(n_poles=2, d_state=2)
    yield "amo_grid", AMORegressor(**small, patches=patches, mixer=poles), grid, grid
    once = LatentAttention(**tokens)
    yield "amo_printed", AMORegressor(**small, latents=once, mixer=LiteralExpansions()), clouds, clouds
    yield "transolver_points", TransolverRegressor(**small, n_slices=2, n_heads=1), clouds, clouds
    yield "deeponet_points", DeepONetRegressor(**tiny, width=2, n_basis=2), clouds, clouds
    yield "unet_grid", UNetRegressor(**small | {"width": 2}), grid, grid
    ridge = PODRegressor(regressor="ridge", n_components=1)
    yield "pod_polynomial", PODRegressor(regressor="polynomial", n_components=1), designs, lines
    yield "mean_field_table", MeanFieldRegressor(), designs, lines
    candidates = [("mean", MeanFieldRegressor()), ("POD", ridge)]
    yield "auto_pod", AutoRegressor(candidates=candidates, max_time=None, cv=2, random_state=0), designs, lines
    yield "conformal_pod", ConformalRegressor(ridge, coverage=0.5, random_state=0), designs, lines
    member = LaMORegressor(**small, patches=patches, scan=Hydra(d_state=1, expand=1))
    yield "ensemble_hydra", EnsembleRegressor(member, n_members=1, random_state=0), grid, grid
    yield "law_pod", LawRegressor(ridge, angles=[0], period=0.9, proportional_to=1), designs, lines
    yield "rollout_pod", RolloutRegressor(ridge, window=1, increments=False), grid, frames
    yield "times_pod", TimeConditionedRegressor(ridge, times=[0.5, 1.0]), grid, frames


def values_of(predicted):
    """Fields of a prediction of any form as an array."""
    if isinstance(predicted, list):
        return np.array([next(iter(mesh.point_data.values())) for mesh in predicted])
    return getattr(predicted, "values", predicted)


def others_of(estimator, X):
    """What else a file must give: the ends of bands, and the novelty of samples."""
    found = {}
    if hasattr(estimator, "predict_interval"):
        lower, upper = estimator.predict_interval(X)[1:]
        found = {"lower": values_of(lower), "upper": values_of(upper)}
    if getattr(estimator, "reference_", None) is not None:
        found |= estimator.novelty(X, level=None)._asdict()
    return found


def inputs_of(path, estimator):
    """X of a model file, from the file of arrays beside it."""
    held = dict(np.load(path.with_suffix(".npz")))
    points, fields, params, sizes = (held.get(part) for part in ("coords", "fields", "params", "sizes"))
    if points is None:
        return params
    if sizes is not None:
        points, fields = (np.split(part, np.cumsum(sizes)[:-1]) for part in (points, fields))
    return FieldSet(points, fields, params=params, grid_shape=estimator.spec_.grid_shape)


if __name__ == "__main__":
    (FOLDER / "0.1.0").mkdir(exist_ok=True, parents=True)
    new = ((f"0.1.0/{name}", *case) for name, *case in cases_of_0_1_0(np.random.default_rng(0)))
    for name, model, X, y in chain(cases(np.random.default_rng(0)), new):
        if name not in (sys.argv[1:] or [name]):
            continue
        predicted = model.fit(X, y).predict(X)
        save(model, FOLDER / f"{name}.skop")
        parts = {"coords": getattr(X, "coords", None), "fields": getattr(X, "values", None)}
        parts |= {"params": getattr(X, "params", X), "values": values_of(predicted)}
        parts["scalars"] = getattr(predicted, "params", None)
        parts |= others_of(model, X)
        if getattr(X, "is_ragged", False):
            parts["sizes"] = X.n_points
        np.savez_compressed(FOLDER / name, **{key: part for key, part in parts.items() if part is not None})
