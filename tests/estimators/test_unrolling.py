"""Forward passes of a training in time: segments of steps, gradients through them, noise on the windows."""

import numpy as np
import pytest
import torch

from skop import FieldSet, LaMORegressor
from skop.data import Targets, unit_grid
from skop.estimators.fitting._objective import objective_of
from skop.estimators.temporal._rollout import _one_steps
from skop.estimators.temporal._unrolling import StepForward
from skop.networks import Outputs

GRID = (4, 4)


def network(**changes):
    return LaMORegressor().set_params(
        **({"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "random_state": 0} | changes)
    )


def on_grid(values, **options):
    return FieldSet(unit_grid(GRID), values.reshape(len(values), 16, -1), grid_shape=GRID, **options)


@pytest.fixture(scope="module")
def fields():
    """Smooth random fields with 3 frames in and 4 out."""
    rng = np.random.default_rng(0)
    frames = np.cumsum(rng.standard_normal((10, *GRID, 7)), axis=-1)
    return frames[..., :3], frames[..., 3:]


def unrolled_parts(inputs, targets, unroll, n_steps=4):
    """A float64 network with the batch of all one-step samples, and the forward of its training."""
    model = network(dtype="float64", max_iter=1, base=None, loss="relative_l2")
    steps = _one_steps(inputs, targets, inputs.with_params(None), n_steps, targets.n_channels // n_steps)
    model.fit(*steps)
    batch = model.surrogate_.loader(steps[0], targets=Targets(steps[1])).gather(np.arange(len(steps[0])))
    forward = StepForward(model, n_steps, unroll, 0.0, np.ones(inputs.n_channels))
    return model, batch, forward


def free_run(model, inputs, starts, n_steps):
    """Frames predicted one after the other by the public estimator, restarted from the truth at `starts`."""
    history = inputs.values
    width, frames = model.spec_.n_fields, []
    for step in range(n_steps):
        if step in starts:
            window = history[..., step : step + width]
        frames.append(model.predict(inputs.with_values(window).with_params(inputs.params)).values)
        window = np.concatenate([window, frames[-1]], axis=-1)[..., 1:]
    return np.stack(frames, axis=1)


def test_unrolled_outputs_are_those_of_runs_between_true_windows(fields, subtests):
    for unroll, starts in [(1, {0, 1, 2, 3}), (2, {0, 2}), (3, {0, 3}), (4, {0}), (9, {0})]:
        with subtests.test(unroll=unroll):
            X, y = (on_grid(part, params=np.arange(10.0)[:, None]) for part in fields)
            model, batch, forward = unrolled_parts(X, y.with_params(None), unroll)
            whole = X.with_values(np.concatenate([X.values, y.values], axis=-1)).with_params(X.params)
            expected = free_run(model, whole, starts, 4).reshape(40, 16, 1)
            actual = model.scalers_.target.inverse_transform(forward(model.module_, batch).field).detach().numpy()
            np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-8)


def test_unrolled_gradient_by_finite_differences(fields):
    X, y = (on_grid(part) for part in fields)
    model, batch, forward = unrolled_parts(X, y, 4)
    objective = objective_of(model, None)
    model.module_.train()

    def loss():
        return objective(forward(model.module_, batch), batch)

    model.module_.zero_grad()
    loss().backward()
    weights = [weight for weight in model.module_.parameters() if weight.grad is not None]
    generator = torch.Generator().manual_seed(0)
    directions = [torch.randn(weight.shape, generator=generator, dtype=torch.float64) for weight in weights]
    slope = sum(float((weight.grad * way).sum()) for weight, way in zip(weights, directions, strict=True))
    values = []
    for size in (1e-6, -1e-6):
        with torch.no_grad():
            for weight, way in zip(weights, directions, strict=True):
                weight += size * way
            values.append(float(loss()))
            for weight, way in zip(weights, directions, strict=True):
                weight -= size * way
    assert (values[0] - values[1]) / 2e-6 == pytest.approx(slope, rel=1e-5)
    # Gradients through the fed-back frames count: teacher forcing has others.
    model.module_.zero_grad()
    objective(model.module_(**batch.inputs()), batch).backward()
    forced = sum(float((weight.grad * way).sum()) for weight, way in zip(weights, directions, strict=True))
    assert abs(forced - slope) > 0.01 * abs(slope)


def test_unrolled_packed_samples_are_those_of_single_ones():
    rng = np.random.default_rng(1)
    fields, sizes = rng.standard_normal((3, 9, 6)), (9, 5, 7)

    class Local(torch.nn.Module):
        """A frame from the window and the mean of the coordinates of each sample."""

        def forward(self, coords, fields, params, grid_shape, sizes=None):
            means = [part.mean(-2, keepdim=True).expand_as(part) for part in coords.split(sizes)] if sizes else None
            mean = torch.cat(means) if sizes else coords.mean(-2, keepdim=True).expand_as(coords)
            return Outputs(torch.tanh(fields[..., :1] - 0.5 * fields[..., 1:2] + mean[..., :1]))

    points = FieldSet([rng.random((size, 2)) for size in sizes], [fields[i, :size] for i, size in enumerate(sizes)])
    model = network(max_iter=1, dtype="float64").fit(
        FieldSet(unit_grid((3, 3)), fields[:, :, :2]), FieldSet(unit_grid((3, 3)), fields[:, :, 2:3])
    )
    forward = StepForward(model, 4, 2, 0.0, np.ones(2))
    places, outputs = points.with_values(np.concatenate([f[:, :2] for f in points.to_list()])), []
    targets = points.with_values(np.concatenate([f[:, 2:] for f in points.to_list()]))
    for rows in ([0, 1, 2], [0], [1], [2]):
        steps, _ = _one_steps(places[rows], targets[rows], places[rows], 4, 1)
        loader = model.surrogate_.loader(steps)
        outputs.append(forward(Local(), loader.gather(np.arange(len(steps)))).field.reshape(-1, 1))
    torch.testing.assert_close(outputs[0], torch.cat(outputs[1:]))


@pytest.mark.parametrize("input_scaler", ["channel", "point", None])
def test_noise_has_the_spread_of_the_field_and_comes_anew(fields, input_scaler):
    X, y = fields
    seen = []

    class Spy(StepForward):
        def _disturbed(self, batch):
            noisy = super()._disturbed(batch)
            scaler = self.model.scalers_.fields
            seen.append((scaler.inverse_transform(noisy.fields) - scaler.inverse_transform(batch.fields)).numpy())
            return noisy

    model = network(max_iter=1, scaling__inputs=input_scaler, dtype="float64").fit(on_grid(5 * X), on_grid(y[..., :1]))
    deviation = (5 * X).reshape(-1, 3).std(axis=0)
    batch = model.surrogate_.loader(on_grid(5 * X)).gather(np.arange(10))
    forward = Spy(model, 1, 1, 0.2, deviation)
    for _ in range(40):
        forward(model.module_, batch)
    noise = np.concatenate(seen).reshape(-1, 3)
    np.testing.assert_allclose(noise.std(axis=0), 0.2 * deviation, rtol=0.05)
    assert (np.abs(noise.mean(axis=0)) < 0.012 * deviation).all()
    assert not np.allclose(seen[0], seen[1])
