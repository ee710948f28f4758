"""Containers, reading, scaling and batching of fields.

`__all__` lists the names for users of skop; the other names are for the other packages of skop.
"""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.data._fieldset import FieldSet as FieldSet
from skop.data._fieldset import iterate_coords as iterate_coords
from skop.data._fieldset import iterate_rows as iterate_rows
from skop.data._fieldset import piece_length as piece_length
from skop.data._fieldset import with_points as with_points
from skop.data._grid import grid_spacing as grid_spacing
from skop.data._grid import unit_grid
from skop.data._loading import Batch as Batch
from skop.data._loading import FieldLoader as FieldLoader
from skop.data._mesh_files import MESH_SETS as MESH_SETS
from skop.data._mesh_files import find_sources as find_sources
from skop.data._mesh_files import write_mesh as write_mesh
from skop.data._mesh_predictions import attach_beside as attach_beside
from skop.data._mesh_predictions import attach_predictions
from skop.data._mesh_predictions import kept_sets as kept_sets
from skop.data._meshes import MeshSamples as MeshSamples
from skop.data._meshes import read_meshes
from skop.data._pairing import Labels as Labels
from skop.data._pairing import check_index as check_index
from skop.data._pairing import check_order_of_files as check_order_of_files
from skop.data._pairing import pair_rows as pair_rows
from skop.data._point_symmetry import MappedSymmetries as MappedSymmetries
from skop.data._point_symmetry import PointSymmetries as PointSymmetries
from skop.data._resampling import GridResampler, interpolate_fields
from skop.data._resampling import are_among as are_among
from skop.data._resampling import query_points as query_points
from skop.data._samples import TrainingData as TrainingData
from skop.data._samples import read as read
from skop.data._samples import read_inputs as read_inputs
from skop.data._samples import read_query as read_query
from skop.data._samples import read_scored as read_scored
from skop.data._samples import restore as restore
from skop.data._scaling import BoxScaler as BoxScaler
from skop.data._scaling import FieldScaler as FieldScaler
from skop.data._scaling import Scalers as Scalers
from skop.data._scaling import ScalingOptions as ScalingOptions
from skop.data._scaling import check_positive as check_positive
from skop.data._shapes import NODES as NODES
from skop.data._shapes import Shapes as Shapes
from skop.data._shapes import spread_out as spread_out
from skop.data._shapes import unit_shape as unit_shape
from skop.data._spec import DataSpec
from skop.data._spec import Predictions as Predictions
from skop.data._spec import TargetForm as TargetForm
from skop.data._spec import Targets as Targets
from skop.data._statistics import Extremes as Extremes
from skop.data._statistics import boxes as boxes
from skop.data._storage import refuse_mask as refuse_mask
from skop.data._symmetry import GridSymmetries as GridSymmetries
from skop.data._symmetry import check_domain as check_domain
from skop.data._symmetry import layout_of as layout_of
from skop.data.forms import FORMS as FORMS
from skop.data.forms import form_of as form_of
from skop.data.forms.meshes import beside as beside
from skop.data.forms.series import MeshRun as MeshRun
from skop.data.forms.series import MeshSeries, read_mesh_series
from skop.data.forms.series import find_runs as find_runs
from skop.data.forms.series import is_mesh_series as is_mesh_series
from skop.data.forms.series import order_of_series as order_of_series
from skop.data.forms.series import pair_series as pair_series
from skop.data.forms.series import read_frames as read_frames
from skop.data.forms.series import read_templates as read_templates
from skop.data.forms.series import series_files as series_files
from skop.data.forms.series import split_series as split_series
from skop.data.forms.table import refuse_containers as refuse_containers
from skop.data.forms.table import split_params as split_params

__all__ = [
    "DataSpec",
    "GridResampler",
    "MeshSeries",
    "attach_predictions",
    "interpolate_fields",
    "read_mesh_series",
    "read_meshes",
    "unit_grid",
]
