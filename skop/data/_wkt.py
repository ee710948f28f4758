"""Reading of triangles in well-known text (.wkt).

The regular expression by which meshio (5.3) reads these files takes time that grows exponentially on files that were
cut off or changed. Source of the format: OGC 06-103r4, Simple feature access, part 1, section 7.
"""

import re
from pathlib import Path

import meshio
import numpy as np

__all__ = ["read_wkt"]

#: One triangle, as the ring of its corners.
_RING = re.compile(r"\(\s*\(([^()]*)\)\s*\)")


def read_wkt(path: Path) -> meshio.Mesh:
    """Read a triangulated irregular network, ``TIN (((x y z, ...)), ...)``.

    Parameters
    ----------
    path : Path
        Text file.

    Returns
    -------
    meshio.Mesh
        Triangles; corners with equal coordinates are one point.

    Raises
    ------
    ValueError
        If the text is no such network, or is cut off.
    """
    whole = re.fullmatch(r"\s*TIN\s*Z?\s*\((.*)\)\s*", path.read_text(), flags=re.DOTALL | re.IGNORECASE)
    if whole is None:
        raise ValueError("expected TIN (((x y z, ...)), ...), with all brackets closed")
    between = "".join(_RING.sub("", whole[1]).split())
    rings = _RING.findall(whole[1])
    if between.strip(",") or len(between) > max(len(rings) - 1, 0):
        raise ValueError("expected triangles ((x y z, ...)) with commas between them")
    numbers: dict[tuple[float, ...], int] = {}
    triangles = []
    for ring in rings:
        corners = [tuple(float(part) for part in corner.split()) for corner in ring.split(",")]
        if len(corners) != 4 or corners[0] != corners[-1] or {len(corner) for corner in corners} not in ({3}, {4}):
            raise ValueError(f"expected a triangle of four corners x y z, of which the last is the first, got {ring!r}")
        triangles.append([numbers.setdefault(corner, len(numbers)) for corner in corners[:3]])
    if not triangles:
        raise ValueError("there are no triangles")
    return meshio.Mesh(np.array([*numbers]), [("triangle", np.array(triangles))])
