"""Uses Inductor's Triton templates for products and convolutions as candidates beside ATen, under `max_autotune`.

Inductor writes a kernel for each size of blocks, measures all of them and the function of ATen, and takes the quickest;
what follows in the graph is then fused into a template that won. A candidate's text is loaded as a module, by Python's
own imports, so one line of it imports what it needs from us.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any, Final

from pypto.errors.inductor import NoTemplate
from pypto.torch.inductor.generated import FAILED
from pypto.tuning import Config

select: Any = importlib.import_module("torch._inductor.select_algorithm")
choices: Any = importlib.import_module("torch._inductor.choices")
virtualized: Any = importlib.import_module("torch._inductor.virtualized")
heuristics: Any = importlib.import_module("torch._inductor.template_heuristics.triton")

_BLOCKS: Final = ((32, 128, 64), (128, 128, 64), (64, 256, 256))  # rows, columns and depth of a product
_IMPORTS: Final = """
from pypto.torch.inductor.load import imported
globals().update(imported())
"""


class TemplateKernel(select.TritonTemplateKernel):  # type: ignore[misc]
    """The writer of the text of one template."""

    @classmethod
    def gen_common_triton_imports(cls) -> str:
        """Returns one import, which works both under Python's own imports and under those of `load.py`."""
        return _IMPORTS

    @classmethod
    def inductor_meta_common(cls) -> dict[str, Any]:
        """Returns no metadata, since Inductor's is for its own tuner."""
        return {}


class Blocks:
    """The sizes of blocks that suit a CPU, whose compiler splits them into register tiles."""

    def _get_config_generator(self) -> Any:
        return configurations


class Product(Blocks, heuristics.CPUMMTemplateConfigHeuristic):  # type: ignore[misc]
    """Candidates for a product, or for several of them."""


class ProductAndSum(Blocks, heuristics.CPUAddmmTemplateConfigHeuristic):  # type: ignore[misc]
    """Candidates for a product to which something is added."""


class TwoProducts(Blocks, heuristics.CPUMMPlusMMTemplateConfigHeuristic):  # type: ignore[misc]
    """Candidates for the sum of two products."""


class IntegerProduct(Blocks, heuristics.CPUInt8MMTemplateConfigHeuristic):  # type: ignore[misc]
    """Candidates for a product of bytes."""


_PRODUCTS: Final[Mapping[str, type]] = MappingProxyType({
    "mm": Product, "bmm": Product, "addmm": ProductAndSum, "baddbmm": ProductAndSum, "mm_plus_mm": TwoProducts,
    "int_mm": IntegerProduct,
})  # fmt: skip


def configurations(m: Any, n: Any, k: Any, **_: Any) -> list[Config]:
    """Returns the blocks that are tried for a product, or for the product that a convolution is."""
    return [
        Config({"BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": depth}, num_stages=1, num_warps=1)
        for rows, columns, depth in _BLOCKS
    ]


class Choices(choices.InductorChoices):  # type: ignore[misc]
    """The handler of choices, which says which candidates exist."""

    def get_ktc(self, kernel_inputs: Any, template: Any, op_name: str, kwarg_overrides: Any = None) -> Any:
        """Returns the candidates of one template, or the function of ATen."""
        if not isinstance(template, select.TritonTemplate):
            return super().get_ktc(kernel_inputs, template, op_name, kwarg_overrides)
        if op_name not in _PRODUCTS:
            return iter(())
        product_choices = _PRODUCTS[op_name]()
        return choices.make_ktc_generator(
            template=template,
            cs=product_choices.get_template_configs(kernel_inputs, op_name),
            extra_kwargs=product_choices.get_extra_kwargs(kernel_inputs, op_name),
            overrides=kwarg_overrides or {},
            layout=kernel_inputs.output_layout(),
            inputs=product_choices.adjust_kernel_inputs(kernel_inputs, op_name),
        )

    def get_conv_configs(self, device_type: str | None = "cpu") -> Any:
        """Returns the function that lists the candidates of a convolution."""
        return configurations

    def get_depthwise_conv_configs(self, device_type: str | None = "cpu") -> list[Any]:
        """Returns no candidates, since those of a depthwise convolution are ATen's."""
        return []


@contextmanager
def ours() -> Iterator[None]:
    """Installs pypto's templates and candidates during a `with` block."""
    owner, failed = select.TritonTemplate, list[str]()
    token = FAILED.set(failed)
    try:
        with ExitStack() as stack:
            stack.callback(setattr, owner, "kernel_type", owner.kernel_type)
            owner.kernel_type = TemplateKernel
            stack.enter_context(virtualized.V.set_choices_handler(Choices()))
            yield
    except Exception as error:  # Inductor's own, with this name in its text
        if failed and select.NoValidChoicesError.__name__ in str(error):
            raise NoTemplate(problem=failed[0]) from error
        raise
    finally:
        FAILED.reset(token)
