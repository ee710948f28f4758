"""Documentation that the operator regressors share: training parameters and fitted attributes.

A docstring says where the texts go by the words in `_TEXTS`; scikit-learn asks for every parameter in
every signature, but nobody should have to keep four descriptions of each alike.
"""

from typing import TypeVar

__all__ = ["share_documentation"]

Class = TypeVar("Class", bound=type)

_TRAINING_PARAMETERS = """\
    loss : {"auto", "relative_l2", "relative_l2_gradient", "h1", "mse"} or callable, default="auto"
        Training loss, see `skop.losses`. ``"auto"`` is the relative L2 error for fields and the squared
        error for scalars. Relative losses are taken in physical units, where the channel with the largest numbers
        counts most; ``"auto"`` takes several channels each in units of its size, if targets are scaled. The
        squared error is taken on scaled targets.
    loss_reduction : {"mean", "sum"}, default="mean"
        Over the samples of a batch; the published scripts sum.
    scalar_weight : float, default=1.0
        Weight in the loss of scalars beside a field.
    input_scaler, target_scaler : {"channel", "point"} or None, default="channel"
        Standardise each channel, each channel at each point (which ties the model to its training
        grid), or not at all.
    coord_scaler : {"box", "standard"} or None, default="box"
        Map the box of the training points to the unit box, standardise each coordinate, or neither.
    param_scaler : {"channel"} or None, default="channel"
        Standardise each global parameter, or not.
    max_iter : int, default=100
        Epochs (papers: 500).
    max_time : float or None, default=None
        Seconds of training at most; the schedule then follows the time, so that the rate has fallen
        when the time is up. Results then depend on the speed of the machine.
    batch_size : int or "auto", default="auto"
        Samples of a step. ``"auto"``: up to 16, less for fewer than 128 samples, and about 4096 points
        where they form no grid; up to 200 for tables of plain features (papers: 1 to 8).
    learning_rate_init : float, default=0.004
        Peak learning rate of AdamW (papers: 5e-4 on regular grids and 1e-3 elsewhere for LaMO, 3e-4 for GeoMaNO).
    schedule : {"cosine", "one_cycle", "constant"}, default="cosine"
        Learning rate over the steps, see `skop.training.schedule_at` (papers: one_cycle).
    schedule_interval : {"step", "epoch"}, default="step"
        How often the rate changes (LaMO's public code: each epoch for elasticity).
    warmup_fraction : float, default=0.15
        Part of the training in which ``"cosine"`` and ``"constant"`` rise to the peak rate.
    weight_decay : float, default=0.1
        Of AdamW (LaMO's public code: 1e-5; 0.05 for Navier-Stokes).
    decay_vectors : bool, default=False
        Whether biases, norms and decay rates are decayed too, and not only matrices (LaMO's public code: all).
    beta_2 : float, default=0.99
        Decay of AdamW's mean of squared gradients, in [0, 1) (LaMO's public code: 0.999).
    clip_norm : float or None, default=1.0
        Largest norm of the gradient (LaMO's public code: 0.1; none for Navier-Stokes).
    weight_averaging : float or None, default=0.99
        Decay of a running average of the weights that validates and predicts; None uses the last weights.
    early_stopping : bool, default=False
        Hold out a part of the samples, stop when their error no longer falls, and keep the best weights.
    validation_fraction : float, default=0.1
        Part that is held out, in (0, 1).
    n_iter_no_change : int, default=10
        Epochs without progress of at least `tol` after which training stops early.
    tol : float, default=0.0001
        Fall of the validation error that counts as progress.
    symmetries : sequence of str or None, default=None
        Symmetries that hold for the problem, which training samples are moved by at random; see
        `skop.data.GridSymmetries` for their names.
    domain : array-like of shape (d, 2) or None, default=None
        Ends of the domain about whose centre the symmetries are; None takes the box of the grid.
    average_symmetries : bool, default=False
        Average predictions over all declared symmetries but periodic shifts, which multiplies their
        cost by the order of the group.
    input_vectors, target_vectors : sequence of sequence of int or None, default=None
        Channels that are the components of a vector and must turn with a symmetry.
    refinement : {"average", "interpolate", "native"}, default="average"
        How to predict on a grid that is a whole number of times finer than in training: average
        over readings at the training spacing, interpolate one of them, or feed it as it is.
    draw_points : int or None, default=None
        Train on this many points of each sample, drawn anew in each step; for points that form no
        grid. It saves time and memory on large point sets, since fields vary little between neighbours.
    input_fields, target_fields : list of str or None, default=None
        Fields of meshes that are inputs and targets, by their names in the meshes.
    cell_data : {"refuse", "to_points"}, default="refuse"
        Whether fields that meshes hold on their cells are carried to the points.
    warm_start : bool, default=False
        Go on from the weights of the last fit.
    random_state : int, RandomState instance or None, default=None
        Seed of weights, order and augmentation; with an int two fits on one CPU are bit-equal.
    device : str, default="auto"
        ``"auto"`` takes CUDA where there is one, else the CPU; or any torch device.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Precision. ``"auto"``: float64 for tables of plain features, as scikit-learn; float32 for fields.
    autocast : {"bfloat16"} or None, default=None
        Mixed precision of the matrix products in training; the recurrences stay in float32.
    deterministic : bool, default=False
        Ask torch for deterministic algorithms, on a GPU too, and predict one sample at a time, so that
        a prediction is equal to the last bit whatever else is predicted with it.
    verbose : bool or int, default=False
        1 shows a progress line on a terminal, 2 prints a line for each epoch.
"""

_FITTED_ATTRIBUTES = """\
    module_ : torch.nn.Module
        The trained network.
    loss_curve_ : list of float
        Training loss of each epoch.
    validation_scores_ : list of float
        1 minus the validation error after each epoch, when stopping early.
    n_iter_ : int
        Epochs run.
    best_iter_ : int
        Epoch whose weights were kept.
    stopped_ : str
        Why training ended.
    fit_seconds_ : float
        Time of the training.
    n_features_in_ : int
        Columns of a table X, or channels of fields.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a DataFrame.
    geometry_ : {"grid", "structured", "points"}
        How the points are read.
    spec_ : skop.data.DataSpec
        Kinds and sizes of X and y in the fit.
    scalers_ : skop.data.Scalers
        Fitted scalers.
    backend_ : str
        What ran the scans in the fit: ``"numba"`` and ``"triton"`` are the fused kernels for CPU and CUDA,
        ``"mamba_ssm"`` is that package's for CUDA, ``"torch"`` is plain torch; several are joined by commas.
    device_, dtype_ : torch.device, str
        Where and in which precision the network computes.
"""

_TEXTS = {"    <training parameters>\n": _TRAINING_PARAMETERS, "    <fitted attributes>\n": _FITTED_ATTRIBUTES}


def share_documentation(estimator: Class) -> Class:
    """Put the shared texts into the docstring of an estimator class.

    Parameters
    ----------
    estimator : type
        Class whose docstring names the texts.

    Returns
    -------
    type
        The same class.
    """
    # There are no docstrings under python -OO.
    if estimator.__doc__ is not None:
        for place, text in _TEXTS.items():
            estimator.__doc__ = estimator.__doc__.replace(place, text)
    return estimator
