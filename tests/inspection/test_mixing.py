"""Matrices of mixers are those of the papers' formulas, and similarity is the mean cosine of pairs of tokens."""

import numpy as np
import pytest
import torch

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from skop import (  # noqa: E402
    AMORegressor,
    GeoMaNORegressor,
    LaMORegressor,
    MNORegressor,
    TransolverRegressor,
    UNetRegressor,
)
from skop.exceptions import FieldDataError  # noqa: E402
from skop.inspection import MixingDisplay, mixing_matrices, token_similarity  # noqa: E402
from skop.modules import (  # noqa: E402
    BidirectionalSSDMixer,
    FourierAttention,
    GalerkinAttention,
    GeometricScanMixer,
    GridSSDMixer,
    HydraMixer,
    NormalizedLinearAttention,
    PrintedExpansions,
    S6Mixer,
    SoftmaxAttention,
    TakenakaMalmquistMixer,
    note_mixing,
    observe_features,
)
from skop.parts import GNOT, Hydra, Patches  # noqa: E402

GRID = (3, 4)
OPTIONS = {"width": 8, "depth": 2, "base": None, "max_iter": 1, "random_state": 0}


def drawn(mixer):
    """Mixer in double precision whose parameters are not those of the start."""
    mixer.double().requires_grad_(False)
    for weight in mixer.parameters():
        weight.add_(0.3 * torch.randn_like(weight))
    return mixer


def matrices_of(mixer, tokens, grid=None):
    found = []
    with observe_features(lambda kind, values, grid: found.append((kind, values)), matrices=True):
        mixed = mixer(tokens) if grid is None else mixer(tokens, grid)
    return mixed, [values for kind, values in found if kind == "matrix"]


def recorded(monkeypatch, module, name):
    """Arguments of the scans of a module."""
    calls, scan = [], getattr(module, name)

    def kept(*given, **options):
        calls.append((given, options))
        return scan(*given, **options)

    monkeypatch.setattr(module, name, kept)
    return calls


def hidden_attention(steps, decay, maps_in, maps_out, order):
    """Weights (L, L) of one state-space channel along a path: C_t exp(A (sum of steps after s)) dt_s B_s for s <= t."""
    count = len(order)
    weights = np.zeros((count, count))
    for late in range(count):
        for early in range(late + 1):
            t, s = order[late], order[early]
            passed = sum(steps[order[k]] for k in range(early + 1, late + 1))
            weights[t, s] = (maps_out[t] * np.exp(decay * passed) * steps[s] * maps_in[s]).sum()
    return weights


@pytest.mark.parametrize("directions", ["forward", "cross"])
def test_a_scan_on_a_grid_has_the_hidden_attention_of_its_maps(monkeypatch, directions):
    # Ali et al., 2024, Eq. 12: the matrix of y = C_t prod(exp(dt A)) dt_s B_s x_s, with the skip on the diagonal.
    import skop.modules._grid_ssd as module

    torch.manual_seed(0)
    calls = recorded(monkeypatch, module, "ssd_scan")
    mixer = drawn(GridSSDMixer(8, 2, d_state=3, n_heads=2, scan_directions=directions))
    _, (matrix,) = matrices_of(mixer, torch.randn(2, 12, 8, dtype=torch.float64), GRID)
    given, options = calls[0]
    steps, decay, maps_in, maps_out, direct = (value.numpy() for value in given[1:])
    expected = np.zeros((2, 12, 12))
    for sample in range(2):
        for head in range(2):
            weights = sum(
                hidden_attention(
                    steps[sample, :, path, head],
                    decay[path, head],
                    maps_in[sample, :, path],
                    maps_out[sample, :, path],
                    order,
                )
                for path, order in enumerate(options["paths"].numpy())
            )
            for skip in direct[:, head].sum(axis=0):
                expected[sample] += np.abs(weights + skip * np.eye(12)) / (2 * direct.shape[-1])
    np.testing.assert_allclose(matrix, expected, rtol=1e-10, atol=1e-12)
    assert (np.triu(matrix[0], 1) == 0).all() == (directions == "forward")


def test_selective_scans_have_the_hidden_attention_of_their_channels(monkeypatch):
    import skop.modules._s6 as module

    torch.manual_seed(1)
    calls = recorded(monkeypatch, module, "selective_scan")
    mixer = drawn(S6Mixer(4, 1, d_state=3, expand=1))
    _, (matrix,) = matrices_of(mixer, torch.randn(1, 7, 4, dtype=torch.float64))
    (_, raw, decay, maps_in, maps_out, direct), options = calls[0]
    steps = torch.nn.functional.softplus(raw + options["dt_bias"])[0].numpy()
    expected = np.zeros((7, 7))
    for channel in range(4):
        weights = sum(
            hidden_attention(
                steps[:, path, channel],
                decay.numpy()[path, channel],
                maps_in.numpy()[0, :, path],
                maps_out.numpy()[0, :, path],
                order,
            )
            for path, order in enumerate(options["paths"].numpy())
        )
        expected += np.abs(weights + float(direct[:, channel].sum()) * np.eye(7)) / 4
    np.testing.assert_allclose(matrix[0], expected, rtol=1e-10, atol=1e-12)


def test_matrices_of_softmax_attention_are_its_weights():
    torch.manual_seed(0)
    mixer, tokens = drawn(SoftmaxAttention(8, n_heads=2)), torch.randn(3, 6, 8, dtype=torch.float64)
    _, (matrix,) = matrices_of(mixer, tokens)
    query, key = (layer(tokens).unflatten(-1, (2, 4)).transpose(1, 2) for layer in (mixer.query, mixer.keys[0]))
    weights = torch.softmax(query @ key.mT / 2, dim=-1)
    torch.testing.assert_close(matrix, weights.mean(dim=1))


MIXERS = [
    HydraMixer(8, d_state=3, n_heads=2),
    BidirectionalSSDMixer(8, d_state=3),
    GridSSDMixer(8, 2, d_state=3),
    S6Mixer(8, 2, d_state=3),
    GeometricScanMixer(8, 2, d_state=3, correction="0011"),
    GeometricScanMixer(8, 2, d_state=3, recurrence="sequence"),
    TakenakaMalmquistMixer(8, 2, n_poles=3),
    TakenakaMalmquistMixer(8, 2, n_poles=3, transform="filter"),
    GalerkinAttention(8, n_heads=2),
    FourierAttention(8, n_heads=2),
    NormalizedLinearAttention(8, n_heads=2),
]


@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: type(mixer).__name__)
def test_to_observe_a_mixer_changes_nothing(mixer):
    torch.manual_seed(0)
    mixer, tokens = drawn(mixer), torch.randn(2, 12, 8, dtype=torch.float64)
    grid = None if "Attention" in type(mixer).__name__ else GRID
    mixed, (matrix,) = matrices_of(mixer, tokens, grid)
    assert torch.equal(mixed, mixer(tokens, grid))
    assert matrix.shape == (2, 12, 12)
    assert (matrix >= 0).all()
    assert (matrix.sum(dim=(1, 2)) > 0).all()


def test_the_note_breaks_no_compiled_graph():
    mixer, tokens = SoftmaxAttention(8, n_heads=2), torch.randn(2, 6, 8)
    compiled = torch.compile(mixer, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(tokens), mixer(tokens))


def test_the_matrix_of_weights_of_one_sign_makes_what_is_mixed():
    torch.manual_seed(0)
    weights, values = torch.rand(5, 6), torch.rand(2, 6, 1)
    found = []
    with observe_features(lambda kind, matrix, grid: found.append(matrix), matrices=True):
        mixed = note_mixing(lambda own: weights @ own, values)
    torch.testing.assert_close(found[0] @ values, mixed)


def test_matrices_are_noted_only_where_they_are_asked_for():
    kinds = []
    with observe_features(lambda kind, values, grid: kinds.append(kind)):
        HydraMixer(8, d_state=3)(torch.zeros(1, 5, 8))
    assert kinds == ["mixed"]


def test_printed_expansions_have_the_matrix_of_a_projection():
    torch.manual_seed(0)
    module = PrintedExpansions(4, depth=1).double().requires_grad_(False)
    _, found = matrices_of(module, torch.randn(2, 9, 4, dtype=torch.float64))
    assert len(found) == 2
    torch.testing.assert_close(found[0], found[0].mT)


# ---------------------------------------------------------------------- estimators
rng = np.random.default_rng(0)
FIELDS = rng.random((12, 6, 6, 1))
CLOUDS = [(rng.random((20 + n, 2)), rng.random((20 + n, 1))) for n in range(12)]
TARGETS = [np.sin(coords[:, :1]) + values for coords, values in CLOUDS]


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (LaMORegressor(patches=Patches(size=2), **OPTIONS), [(9, 9)] * 2),
        (GeoMaNORegressor(patches=Patches(size=2), **OPTIONS), [(9, 9)] * 2),
        (AMORegressor(patches=Patches(size=2), **OPTIONS), [(9, 9)] * 2),
        (MNORegressor(**OPTIONS), [(36, 36)] * 2),
        (TransolverRegressor(**OPTIONS), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_operator_has_a_matrix_and_a_similarity_for_each_mixer(model, shapes):
    model.fit(FIELDS, 2 * FIELDS)
    weights = {name: value.clone() for name, value in model.module_.state_dict().items()}
    matrices, similarity = mixing_matrices(model, FIELDS[:3]), token_similarity(model, FIELDS[:3])
    assert len(matrices) == len(similarity) == 2
    assert shapes is None or [matrix.shape for matrix in matrices] == shapes
    assert (np.abs(similarity) <= 1).all()
    for name, value in model.module_.state_dict().items():
        assert torch.equal(value, weights[name])


def test_means_are_over_samples_and_rows_of_softmax_add_up_to_one():
    model = TransolverRegressor(**OPTIONS).fit(CLOUDS, TARGETS)
    alone = [mixing_matrices(model, CLOUDS[n : n + 1]) for n in range(2)]
    for both, *parts in zip(mixing_matrices(model, CLOUDS[:2]), *alone, strict=True):
        np.testing.assert_allclose(both, np.mean(parts, axis=0), rtol=1e-12)
        np.testing.assert_allclose(both.sum(axis=1), 1, rtol=1e-5)


def test_similarity_is_the_mean_cosine_of_all_pairs():
    model = LaMORegressor(mixer=Hydra(d_state=4), **OPTIONS).fit(CLOUDS, TARGETS)
    layers = []
    for cloud in CLOUDS[:3]:
        found = []
        with observe_features(lambda kind, values, grid, found=found: found.append((kind, values))):
            model.predict([cloud])
        layers.append([values[0].double().numpy() for kind, values in found if kind == "mixed"])
    expected = []
    for tokens in zip(*layers, strict=True):
        units = [own / np.linalg.norm(own, axis=1, keepdims=True) for own in tokens]
        expected.append(np.mean([(own @ own.T)[~np.eye(len(own), dtype=bool)].mean() for own in units]))
    np.testing.assert_allclose(token_similarity(model, CLOUDS[:3]), expected, rtol=1e-5)


def test_wrong_use_is_named():
    model = MNORegressor(host=GNOT(), geometry="points", **OPTIONS).fit(CLOUDS, TARGETS)
    assert mixing_matrices(model, CLOUDS[:1])[0].shape[1] == 20
    with pytest.raises(FieldDataError, match=r"different numbers of tokens.*X\[:1\]"):
        mixing_matrices(model, CLOUDS[:2])
    assert len(token_similarity(model, CLOUDS[:2])) == len(mixing_matrices(model, CLOUDS[:1]))
    whole = LaMORegressor(patches=Patches(size=6), **OPTIONS).fit(FIELDS, 2 * FIELDS)
    with pytest.raises(FieldDataError, match="single token"):
        token_similarity(whole, FIELDS)
    without = UNetRegressor(**{name: OPTIONS[name] for name in ("width", "base", "max_iter")}).fit(FIELDS, 2 * FIELDS)
    with pytest.raises(ValueError, match="have no matrices of tokens"):
        mixing_matrices(without, FIELDS)
    with pytest.raises(ValueError, match="has no token mixers"):
        token_similarity(without, FIELDS)
    with pytest.raises(ValueError, match="expected a LaMORegressor"):
        mixing_matrices("model", FIELDS)


def test_pictures_show_what_the_functions_return():
    model = LaMORegressor(patches=Patches(size=2), **OPTIONS).fit(FIELDS, 2 * FIELDS)
    display = MixingDisplay.from_estimator(model, FIELDS[:2], name="LaMO")
    for image, matrix in zip(display.artists_, mixing_matrices(model, FIELDS[:2]), strict=True):
        np.testing.assert_array_equal(image.get_array(), matrix)
    similarity = MixingDisplay.from_estimator(model, FIELDS[:2], kind="similarity", name="LaMO")
    np.testing.assert_array_equal(similarity.artists_[0].get_ydata(), token_similarity(model, FIELDS[:2]))
    with pytest.raises(ValueError, match="put a single array into a list"):
        MixingDisplay(np.eye(3)).plot()
    with pytest.raises(ValueError, match=r"similarity has the shape \(\), expected a number for each layer"):
        MixingDisplay(np.eye(3)).plot(kind="similarity")
    with pytest.raises(ValueError, match="kind is 'lines'"):
        MixingDisplay.from_estimator(model, FIELDS[:2], kind="lines")
    pyplot.close("all")
