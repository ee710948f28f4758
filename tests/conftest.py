"""Settings that must be made before SciPy and torch are imported, in every worker."""

import os

# Without it scikit-learn skips its check of the array API.
os.environ["SCIPY_ARRAY_API"] = "1"
# Tests run in parallel processes on tiny arrays; threads would only fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")
