"""What can be wrong with an operator of the library or a call of one, found before any memory is written."""

from __future__ import annotations

from pypto.errors.base import Diagnostic
from pypto.errors.examples import Example, programs


def calls(wrong: str, right: str) -> Example:
    """Programs that call an operator."""
    head = "from pypto import library as lib\n\nx, g = np.ones((2, 8), np.float32), np.ones(8, np.float32)\n"
    return programs(head + wrong, head + right)


def rows(wrong: str, right: str) -> Example:
    """Signatures of a row of the user's own."""
    head = "from pypto.library import Signature\n\nsignature = Signature.parse"
    return programs(f'{head}("{wrong}")', f'{head}("{right}")')


class OperandShape(Diagnostic, ValueError):
    code = "E371"
    template = "{operator}: `{arg}` has shape {shape}, and the signature asks for [{dims}]{known}"
    hint = "the signature is {signature}"
    example = calls("lib.rms_norm(x, g[:4])", "lib.rms_norm(x, g)")


class OperandDtype(Diagnostic, TypeError):
    code = "E372"
    template = "{operator}: `{arg}` has elements of type {dtype}, and the signature allows {allowed}"
    hint = "convert it, or choose the dtype of the first array, which fixes those that the signature leaves open"
    example = calls("lib.rms_norm(x, g.astype(np.float64))", "lib.rms_norm(x, g)")


class LostGradient(Diagnostic, RuntimeError):
    code = "E323"
    template = "{operator}: `{arg}` requires grad, and the operator has no gradient: {why}"
    hint = "call it under `torch.no_grad()`, pass `{arg}.detach()`, or give it a backward in a torch.autograd.Function"
    example = calls(
        "import torch\n\nlib.quantize_per_token(torch.ones(2, 8, requires_grad=True))",
        "import torch\n\nwith torch.no_grad():\n    lib.quantize_per_token(torch.ones(2, 8, requires_grad=True))",
    )


class WrongOperands(Diagnostic, TypeError):
    code = "E373"
    template = "{operator}: {problem}"
    hint = "the signature is {signature}"
    example = calls("lib.rms_norm(x)", "lib.rms_norm(x, g)")


class UnrelatedSizes(Diagnostic, ValueError):
    code = "E364"
    template = "{operator}: the signature asks for `{condition}`, and {known}"
    hint = "the signature is {signature}"
    example = calls("lib.swiglu(x[:, :7])", "lib.swiglu(x)")


class OperandValue(Diagnostic, ValueError):
    code = "E365"
    template = "{operator}: {what}, and the signature asks for `{condition}`{known}"
    hint = "nothing was written; the signature is {signature}"
    example = calls(
        "lib.cross_entropy(x, np.array([3, 8], np.int32))", "lib.cross_entropy(x, np.array([3, 7], np.int32))"
    )


class UnstoredNaN(Diagnostic, ValueError):
    code = "E366"
    template = "{operator}: row {row} has a number that is NaN before it is rounded, and int8 has no NaN"
    hint = "look for NaN in the input, its scale and its offset; `quantize_per_token` gives such a row the scale NaN"
    example = calls("lib.quantize_static(x * np.nan, g, g)", "lib.quantize_static(x, g, g)")


class ScatteredOperand(Diagnostic, ValueError):
    code = "E367"
    template = "{operator}: `{arg}` has the strides {strides}, in elements, and the signature asks for `{layout}`"
    hint = "pass a copy: `numpy.ascontiguousarray({arg})`, or `{arg}.contiguous()` of a tensor"
    example = calls("lib.topk(x[:, ::2], k=2)", "lib.topk(np.ascontiguousarray(x[:, ::2]), k=2)")


class OverlappingOperands(Diagnostic, ValueError):
    code = "E327"
    template = "{operator} updates `{arg}` and `{other}`, and they share memory"
    hint = "nothing was written; pass an array of its own for each, such as `{arg}.copy()`"
    example = calls("lib.adamw(g, g + 1, g, g + 1)", "lib.adamw(g, g + 1, g.copy(), g + 1)")


class NoSuchOperator(Diagnostic, LookupError):
    code = "E374"
    template = "the library has no operator {name}{suggestion}"
    hint = "`pypto lib list` shows all of them, and `pypto.library.register` adds one"
    example = calls('lib.rows["rmsnorm"](x, g)', 'lib.rows["rms_norm"](x, g)')


class NoSuchCase(Diagnostic, LookupError):
    code = "E368"
    template = "{operator} has no size and no edge case {case}{suggestion}"
    hint = "there are {there}"
    example = calls('lib.rows["rms_norm"].check(case="zero")', 'lib.rows["rms_norm"].check(case="zeros")')


class WrongSignature(Diagnostic, ValueError):
    code = "E375"
    template = "the signature `{text}` cannot be read: {problem}"
    hint = "it is arrays and numbers, an arrow, and arrays, as in `x[t, d] bf16|f32, eps=1e-6 -> y[t, d]`"
    example = rows("x[t, d] f33 -> y[t]", "x[t, d] f32 -> y[t]")


class NoImplementation(Diagnostic, NotImplementedError):
    code = "E376"
    template = "{operator} has no implementation {what}"
    hint = "there are {there}"
    example = calls('lib.rows["rms_norm"](x, g, version="none")', 'lib.rows["rms_norm"](x, g, version="rows")')


class ReferenceDiffers(Diagnostic, AssertionError):
    code = "E377"
    template = "{operator} on {platform}, case {case}: {output} differs from the float64 reference\n{difference}"
    hint = "the version is {version}; `pypto lib show {operator}` shows the tolerance of each output"
    example = programs(
        """
        from dataclasses import replace
        from pypto.library import Close, rows

        replace(rows["rms_norm"], tolerance={"y": Close(0, 0)}).check()
        """,
        """
        from pypto.library import rows

        rows["rms_norm"].check()
        """,
    )
