"""How Numba compiles the kernels: what they do not need of its pipeline takes most of its time.

A kernel is a C function and calls functions that are compiled once for each type of their arguments. Numba would
optimise each of them, and turn it into machine code of its own that nothing ever calls, with all that it calls inside,
and so on at each level. Here functions stay in LLVM's intermediate code until the kernel has them all. Passes for what
kernels do not contain (closures, parallel loops, overloads in Python, rewrites of NumPy expressions) are left out.
"""

from typing import Any

from numba import _dynfunc, cfunc, njit, types  # type: ignore[attr-defined]
from numba.core import typed_passes, untyped_passes
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass

__all__ = ["compile_kernel", "inlined", "outlined"]


@register_pass(mutates_CFG=True, analysis_only=False)
class _LoweringForCallers(typed_passes.NativeLowering):
    """Translate a function into LLVM's intermediate code, which those that call it make part of theirs."""

    _name = "skop_lowering_for_callers"

    def run_pass(self, state: Any) -> bool:
        """Do that."""
        library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        library._optimize_final_module = lambda: None
        library._finalize_final_module = lambda: setattr(library, "_finalized", True)
        state.library, state.flags.no_compile = library, True
        super().run_pass(state)
        module, name = state.cr.fndesc.lookup_module(), state.cr.fndesc.qualname
        stand_in = _dynfunc.make_function(module, name, "", 0, state.cr.env, (library,))  # Numba knows functions by it
        state.targetctx.insert_user_function(stand_in, state.cr.fndesc, [library])
        state.cr = state.cr._replace(cfunc=stand_in)
        return True


class _Kernel(CompilerBase):
    """Passes for a kernel."""

    _lowering: type = typed_passes.NativeLowering

    def define_pipelines(self) -> list[PassManager]:
        """Put the passes in order."""
        passes = PassManager("skop")
        for kind in (
            untyped_passes.TranslateByteCode, untyped_passes.FixupArgs, untyped_passes.IRProcessing,
            untyped_passes.ReconstructSSA, typed_passes.NopythonTypeInference, typed_passes.PreLowerStripPhis,
            typed_passes.IRLegalization, typed_passes.AnnotateTypes, self._lowering, typed_passes.NoPythonBackend,
        ):  # fmt: skip
            passes.add_pass(kind, kind.__name__)
        passes.finalize()
        return [passes]


class _Function(_Kernel):
    """Passes for a function that kernels call."""

    _lowering = _LoweringForCallers


#: Without the entries that Python and C would call, and without exceptions.
_OPTIONS: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "error_model": "numpy",
    "pipeline_class": _Function,
}
outlined = njit(**_OPTIONS)
inlined = njit(forceinline=True, **_OPTIONS)


def compile_kernel(function: Any, number: types.Type, *, cache: bool) -> Any:
    """Compile a C function ``void kernel(number *)``, which may be kept on disk.

    The result has its ``address``, and ``cache_hits``, 1 where the code came from disk.
    """
    return cfunc(types.void(types.CPointer(number)), cache=cache, pipeline_class=_Kernel)(function)
