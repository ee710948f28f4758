"""Monitors of the fit of an operator: one of its base, one of overfitting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import FieldLoader
from skop.estimators.classical._common_grid import warn_of_resampling
from skop.estimators.classical._components import BEYOND_CHANCE, error_of_mean
from skop.estimators.fitting._comparison import Review, sums_of
from skop.estimators.fitting._objective import Errors
from skop.modules import ResidualDropout, set_drop_path
from skop.networks import shift_patches
from skop.surrogate._correction import CorrectionNetwork
from skop.training import Monitor, Trainer, copied

if TYPE_CHECKING:
    from skop.estimators.fitting._session import FitSession

__all__ = ["HELD_OUT", "BaseMonitor", "OverfittingMonitor"]

#: Look for overfitting after these parts of the training.
_LOOKS = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
#: Fewest and most samples that are held out to choose the share of the network over a base.
HELD_OUT = (5, 64)
#: A training has stalled if the held-out error exceeds this part of the error at half the time. Held-out samples are
#: compared with at least the second number of others.
_STALLED, _LEAST_COMPARED = 0.8, 32
#: Rate of drop path in a training that overfits.
_DROP_PATH = 0.2


class BaseMonitor(Monitor):
    """Compare the network with its base on samples that neither has seen, and leave out one that is of no use.

    Parameters
    ----------
    session : FitSession
        Fit.
    """

    def __init__(self, session: FitSession) -> None:
        network = session.estimator.module_
        learns_rest = isinstance(network, CorrectionNetwork) and network.learns_rest
        is_line = learns_rest and session.group.once(session.base.interpolates_line)
        self.session, self.rule = session, Review(learns_rest, is_line)

    def review(self, trainer: Trainer) -> str | FieldLoader | None:
        """End the training if the network is of no use, and drop a base that is of none."""
        session, part = self.session, trainer.progress
        unseen = session.base.unseen
        if unseen is None or session.held is None or not self.rule.is_due(part, trainer.state.step):
            return None
        trainer.network.eval()
        winner = self.rule.winner(part, session.base.compared(unseen, session.held))
        if winner == "network":
            if session.estimator.surrogate_.has_base_on_points:
                warn_of_resampling(session.estimator.spec_.resampler, "use LaMORegressor without grid")
            return session.base.drop()
        return winner

    def state_dict(self) -> dict[str, Any]:
        """Return what has been compared so far, and whether the base was dropped."""
        return {"rule": self.rule.state_dict(), "has_dropped": self.session.base.unseen is None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.rule.load_state_dict(state["rule"])
        if state["has_dropped"]:
            self.session.loader = self.session.base.drop()


class OverfittingMonitor(Monitor):
    """Regularise a training that overfits, and give back the samples that were held out to see it.

    Over a base, samples are held out to the end. Where its weights are worse for them, beyond chance, than those of an
    earlier look, as in a training that learns noise by heart, those are put back.

    Parameters
    ----------
    session : FitSession
        Fit.

    Attributes
    ----------
    n_remedies : int
        Number of remedies that are in use.
    before : tuple of (float, list of float), or None
        Completed part of the training at the last look, and errors on held-out samples then, of fields, scalars, or
        both.
    best : dict or None
        Epoch, weights, and held-out errors of the runs (n,) at the look with the least of these.
    """

    def __init__(self, session: FitSession) -> None:
        self.session, self.due, self.n_remedies = session, list(_LOOKS), 0
        self.before: tuple[float, list[float]] | None = None
        self.best: dict[str, Any] | None = None

    @property
    def remedies(self) -> list[str]:
        """What is done against overfitting, one after the other."""
        training, modules = self.session.training, list(self.session.estimator.module_.modules())
        able = {
            "shift_patches": any(getattr(module, "can_shift_patches", False) for module in modules),
            "drop_path": any(isinstance(module, ResidualDropout) for module in modules),
        }
        return [name for name, has_effect in able.items() if has_effect and getattr(training, name) == "auto"]

    def begin(self) -> None:
        """Set drop path and the shift of patches as the parameters say; without remedies where these are automatic."""
        model, training = self.session.estimator, self.session.training
        drop_path, shifts = training.drop_path, training.shift_patches
        rate = 0.0 if drop_path == "auto" else drop_path
        if set_drop_path(model.module_, rate) == 0 and drop_path not in ("auto", 0):
            raise ValueError(
                f"training__drop_path={drop_path} leaves out residual branches, and the network of "
                f"{type(model).__name__} has none that can be left out; expected 0."
            )
        is_shifted = shifts != "auto" and bool(shifts)
        if shift_patches(model.module_, is_shifted) == 0 and is_shifted:
            raise ValueError(
                "training__shift_patches=True moves the patches of a grid, and this network has none that can move: it "
                "has no patches, or a learned positional encoding of them; expected False."
            )

    def review(self, trainer: Trainer) -> FieldLoader | None:
        """Regularise the rest of a training that overfits."""
        session, part = self.session, trainer.progress
        if session.held is None or not self.due or part < self.due[0]:
            return None
        trainer.network.eval()
        self.due = [later for later in self.due if later > part]
        is_able = self.n_remedies < len(self.remedies)
        if is_able or self._is_held_out_to_end:
            unseen = self._errors_of(session.held)
            if is_able:
                overfits, self.before = self.overfits(unseen, part)
                if overfits:
                    self._regularise(self.remedies[self.n_remedies])
                    self.n_remedies += 1
            errors = _of_runs(unseen)
            is_best = self.best is None or errors.mean() < np.mean(self.best["errors"])
            if self._is_held_out_to_end and len(errors) >= HELD_OUT[0] and is_best:
                weights = copied(dict(trainer.network.state_dict()))
                self.best = {"epoch": len(trainer.history.loss_curve), "errors": errors.tolist(), "weights": weights}
        return self._with_held_out()

    def end(self, trainer: Trainer) -> None:
        """Put back the weights of the best look, if those of the end are worse beyond chance."""
        best, held = self.best, self.session.held
        if best is None or held is None or not self._is_held_out_to_end or trainer.history.stopped == "base":
            return
        more = _of_runs(self._errors_of(held)) - np.array(best["errors"])
        if more.mean() > BEYOND_CHANCE * error_of_mean(more, None):
            trainer.network.load_state_dict(best["weights"])
            trainer.history.best_iter = best["epoch"]

    @property
    def _is_held_out_to_end(self) -> bool:
        """Whether samples are held out to judge the base; those of early stopping keep weights of their own."""
        return self.session.base.unseen is not None and self.session.valid is None

    def _errors_of(self, rows: IntArray) -> Errors:
        """Errors of samples or runs, or the means of those of each group, of which each tells as much as one sample."""
        session, errors = self.session, self.session.group.once(self.session.errors_of(rows))
        if session.groups is None:
            return errors
        numbers = np.unique(session.groups[rows[:: session.n_frames]], return_inverse=True)[1]
        fields, scalars = (None if part is None else sums_of(part, numbers) / np.bincount(numbers) for part in errors)
        return fields, scalars

    def overfits(self, unseen: Errors, part: float) -> tuple[bool, tuple[float, list[float]] | None]:
        """Whether held-out errors are above others beyond chance and fall no more; and the errors at this part.

        While they fall, a training gains from what it learns by heart too, and regularisation would slow it down.
        """
        session, before = self.session, self.before
        n_held = len(_of_runs(unseen))
        if n_held < HELD_OUT[0]:  # too few to tell
            return False, None
        rows = session.trained_on.reshape(-1, session.n_frames)
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), max(n_held, _LEAST_COMPARED))).astype(int)].ravel()
        seen = self._errors_of(rows)
        pairs = [
            (ours, theirs) for ours, theirs in zip(unseen, seen, strict=True) if ours is not None and theirs is not None
        ]
        means = [float(np.mean(ours)) for ours, _ in pairs]
        if before is None:
            return False, (part, means)
        stalled = _STALLED ** np.log2(part / before[0])
        overfits = any(
            mean > stalled * earlier and mean - BEYOND_CHANCE * error_of_mean(ours, None) > np.mean(theirs)
            for mean, earlier, (ours, theirs) in zip(means, before[1], pairs, strict=True)
        )
        return overfits, (part, means)

    def _regularise(self, remedy: str) -> None:
        """Regularise the rest of the training."""
        if remedy == "shift_patches":
            shift_patches(self.session.estimator.module_, True)
        else:
            set_drop_path(self.session.estimator.module_, _DROP_PATH)

    def _with_held_out(self) -> FieldLoader | None:
        """Return all samples if those that are held out, not for early stopping or a base, have no use any more."""
        session = self.session
        is_judged = self.n_remedies == len(self.remedies) or not self.due
        if session.base.unseen is not None or session.held is session.valid or not is_judged:
            return None
        session.held = session.valid
        return session.training_loader(session.trained_on)

    def state_dict(self) -> dict[str, Any]:
        """Return what has been seen and done so far."""
        held = {"due": list(self.due), "n_remedies": self.n_remedies, "before": self.before}
        return held | {"best": copied(self.best)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.due, self.n_remedies, before = list(state["due"]), state["n_remedies"], state["before"]
        self.before = None if before is None else (before[0], list(before[1]))
        # Checkpoints of earlier versions have none.
        self.best = copied(state.get("best"))
        for remedy in self.remedies[: self.n_remedies]:
            self._regularise(remedy)
        if (loader := self._with_held_out()) is not None:
            self.session.loader = loader


def _of_runs(errors: Errors) -> FloatArray:
    """Error of each run (n,), the mean of those of fields and scalars."""
    return np.mean([part for part in errors if part is not None], axis=0)
