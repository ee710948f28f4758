"""Containers, validation, scaling and batching of fields."""

from skop.data._batching import Batch, FieldLoader, Scalers
from skop.data._checks import iterate_rows
from skop.data._fieldset import FieldSet
from skop.data._grid import find_grid, grid_spacing, unit_grid
from skop.data._joining import concatenate
from skop.data._scalers import BoxScaler, FieldScaler
from skop.data._spec import DataSpec
from skop.data._symmetry import GridSymmetries
from skop.data._validation import (
    TrainingData,
    carries_points,
    is_table,
    read_inputs,
    read_training_data,
    restore_form,
)

__all__ = [
    "Batch",
    "BoxScaler",
    "DataSpec",
    "FieldLoader",
    "FieldScaler",
    "FieldSet",
    "GridSymmetries",
    "Scalers",
    "TrainingData",
    "carries_points",
    "concatenate",
    "find_grid",
    "grid_spacing",
    "is_table",
    "iterate_rows",
    "read_inputs",
    "read_training_data",
    "restore_form",
    "unit_grid",
]
