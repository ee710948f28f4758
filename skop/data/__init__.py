"""Containers, validation, scaling and batching of fields."""

from skop.data._batching import Batch, FieldLoader
from skop.data._checks import iterate_rows
from skop.data._fieldset import FieldSet
from skop.data._forms import Predictions, as_list, carries_points, is_table, restore_form
from skop.data._grid import find_grid, grid_spacing, unit_grid
from skop.data._interpolation import interpolate_fields, query_points
from skop.data._joining import concatenate
from skop.data._mesh_files import is_mesh_input
from skop.data._meshes import MeshSamples, attach_predictions, carry_cell_data, read_meshes
from skop.data._resampling import GridResampler, ResampledData, ResampledSpec
from skop.data._scalers import BoxScaler, FieldScaler
from skop.data._scaling import ScalerModes, Scalers
from skop.data._spec import DataSpec
from skop.data._symmetry import GridSymmetries
from skop.data._validation import TrainingData, read_inputs, read_training_data, read_truth

__all__ = [
    "Batch",
    "BoxScaler",
    "DataSpec",
    "FieldLoader",
    "FieldScaler",
    "FieldSet",
    "GridResampler",
    "GridSymmetries",
    "MeshSamples",
    "Predictions",
    "ResampledData",
    "ResampledSpec",
    "ScalerModes",
    "Scalers",
    "TrainingData",
    "as_list",
    "attach_predictions",
    "carries_points",
    "carry_cell_data",
    "concatenate",
    "find_grid",
    "grid_spacing",
    "interpolate_fields",
    "is_mesh_input",
    "is_table",
    "iterate_rows",
    "query_points",
    "read_inputs",
    "read_meshes",
    "read_training_data",
    "read_truth",
    "restore_form",
    "unit_grid",
]
