"""`triton.tools.mxfp`: tensors of torch as numbers of MX formats: 4 bits (E2M1), and scales of 8 bits (E8M0)."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar, Final, Self

BIAS: Final = 127  # of the exponent that a scale is
NAN: Final = 255


def shape_of(size: Any) -> tuple[int, ...]:
    return tuple(size) if isinstance(size, tuple | list) else (size,)


class MXTensor:
    """Codes of a format, one a byte, in `data`: those of a tensor of float32, or of random numbers.

    Parameters
    ----------
    data : torch.Tensor, optional
        Numbers to be rounded.
    size : int or tuple of int, optional
        Shape of what `random` fills.
    device : optional
        Where random numbers are made.
    """

    def __init__(self, data: Any = None, size: Any = None, device: Any = None) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.device = device
        if data is not None:
            if not isinstance(data, self.torch.Tensor):
                raise AssertionError(f"the numbers of an MX tensor are a torch tensor, not a {type(data).__name__}")
            self.device, self.data = data.device, self._from_float(data)
        elif size is not None:
            self.size = shape_of(size)
        else:
            raise ValueError("an MX tensor is made of `data` or of a `size`")

    def _from_float(self, values: Any) -> Any:
        raise NotImplementedError

    def _codes(self, low: int, high: int) -> Any:
        """Random codes; `high` is not among them."""
        return self.torch.randint(low, high, size=self.size, dtype=self.torch.uint8, device=self.device)


class MXFP4Tensor(MXTensor):
    """Numbers of 4 bits: a sign, two bits of an exponent, one of a fraction."""

    VALUES: ClassVar[tuple[float, ...]] = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)

    def random(self) -> Self:
        """Fill with codes, each as likely as any other."""
        self.data = self._codes(0, 16)
        return self

    def to(self, dtype: Any) -> Any:
        """The numbers, in float32."""
        if dtype != self.torch.float32:
            raise AssertionError(f"numbers of 4 bits are given in float32, not in {dtype}")
        table = self.torch.tensor([*self.VALUES, *(-x for x in self.VALUES)], dtype=dtype, device=self.data.device)
        return table[self.data.long()]

    def _from_float(self, values: Any) -> Any:
        """The nearest code, of two the even one; what is too large, infinite or NaN becomes the greatest."""
        torch, sizes = self.torch, values.abs()
        middles = [(a + b) / 2 for a, b in zip(self.VALUES, self.VALUES[1:], strict=False)]
        code = torch.zeros_like(sizes, dtype=torch.uint8)
        for n, middle in enumerate(middles):  # a middle rounds up where the code below it is odd
            code += (sizes >= middle if n % 2 else sizes > middle).to(torch.uint8)
        code[~values.isfinite()] = len(self.VALUES) - 1
        return code | (torch.signbit(values).to(torch.uint8) << 3)

    def to_packed_tensor(self, dim: int) -> Any:
        """Two codes a byte along a dimension, the first in the low bits; an odd size is filled with 0."""
        if not 0 <= dim < self.data.ndim:
            raise AssertionError(f"a tensor of rank {self.data.ndim} has no dimension {dim} to be packed along")
        data = self.data.movedim(dim, -1)
        if data.shape[-1] % 2:
            data = self.torch.nn.functional.pad(data, (0, 1))
        return (data[..., ::2] | (data[..., 1::2] << 4)).movedim(-1, dim).contiguous()

    def unpack_packed_tensor(self, packed_tensor: Any, dim: int, original_shape: Any) -> Any:
        """The codes of `to_packed_tensor` again."""
        packed = packed_tensor.movedim(dim, -1)
        pairs = self.torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)
        return pairs[..., : original_shape[dim]].movedim(-1, dim).contiguous().to(self.torch.uint8)


class MXScaleTensor(MXTensor):
    """Scales: powers of two, each the 8 bits of an exponent. The code 255 is NaN."""

    def random(self, low: float | None = None, high: float | None = None) -> Self:
        """Fill with powers of two between two numbers."""
        first = 0 if low is None else max(0, self._exponent(low))
        last = NAN - 1 if high is None else min(NAN - 1, max(0, self._exponent(high)))
        if first > last:
            raise AssertionError(f"no scale is at least {low} and at most {high}")
        self.data = self._codes(first, last + 1)
        return self

    def _exponent(self, number: float) -> int:
        return int(self.torch.log2(self.torch.tensor(number))) + BIAS

    def to(self, dtype: Any) -> Any:
        """The powers of two, in float32."""
        if dtype != self.torch.float32:
            raise AssertionError(f"scales are given in float32, not in {dtype}")
        scales = self.torch.pow(2.0, self.data.to(dtype) - BIAS)
        scales[self.data == NAN] = self.torch.nan
        return scales

    def _from_float(self, values: Any) -> Any:
        """The power of two below each number; NaN for what is infinite, NaN or not positive."""
        torch, fits = self.torch, values.isfinite() & (values > 0)
        exponents = torch.floor(torch.log2(torch.where(fits, values, torch.ones_like(values)))).int() + BIAS
        return torch.where(fits, exponents.clamp(0, NAN - 1), NAN).to(torch.uint8)


def fp8e8m0_to_float32(scale: Any) -> Any:
    """The power of two that each code of 8 bits means, in float32."""
    tensor = MXScaleTensor(size=1)
    tensor.data = scale.view(tensor.torch.uint8)
    return tensor.to(tensor.torch.float32)


def names() -> dict[str, Any]:
    return {x.__name__: x for x in (MXFP4Tensor, MXScaleTensor, fp8e8m0_to_float32)}
