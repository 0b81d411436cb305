"""What plans and fused functions show of themselves; the views are loaded when one is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pypto.markup import Shown

if TYPE_CHECKING:
    from pypto.debug.inspection import Inspection
    from pypto.graph.plan.plan import Plan
    from pypto.graph.views.drawing import SavablePicture
    from pypto.graph.views.measured import PlanProfile


class PlanViews(Shown):
    """The views of a plan."""

    def drawing(self, name: str = "execution") -> SavablePicture:
        """A picture of one level, which shows itself, and is written by ``save("x.svg")`` or ``save("x.dot")``.

        Parameters
        ----------
        name : str
            ``tensor`` is the Tensor graph with the groups that became kernels, ``execution`` the steps with their
            dependencies, ``arena`` the memory over the steps.

        Raises
        ------
        ValueError
            For another name.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> plan = pto.fuse(lambda x: np.exp(x) + 1).plan(np.zeros(8, np.float32))
        >>> [box.title for box in plan.drawing("tensor").boxes]
        ['x', 'exp', 'add ·, 1', 'result']
        """
        from pypto.graph.views.arena import arena_drawing
        from pypto.graph.views.execution import execution_drawing
        from pypto.graph.views.tensor_graph import plan_drawing

        makers: dict[str, Any] = {"tensor": plan_drawing, "execution": execution_drawing, "arena": arena_drawing}
        if name not in makers:
            raise ValueError(f"there is no picture {name!r} of a plan; there are {', '.join(makers)}")
        return cast("SavablePicture", makers[name](cast("Plan", self)))

    def html(self) -> str:
        """All views as a page of its own, which needs nothing from elsewhere."""
        from pypto.graph.views.page import page

        return page(cast("Plan", self))

    def save(self, path: str | Path) -> Path:
        """Write the page to a file."""
        Path(path).write_text(self.html(), encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        from pypto.graph.views.page import body

        return body(cast("Plan", self))


class FusedViews(Shown):
    """The views of a fused function."""

    def profile(self, *args: Any, **kwargs: Any) -> PlanProfile:
        """Run the function step by step on these arguments, which it does not write to, and time every step.

        Returns
        -------
        PlanProfile
            A table of the steps; ``timeline(path)`` writes them for ui.perfetto.dev.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> f = pto.fuse(lambda x: np.exp(x) + 1)
        >>> found = f.profile(np.zeros(8, np.float32))
        >>> [step.form for step in found.steps]
        ['pointwise']
        """
        from pypto.graph.views.measured import measured

        return measured(cast("Any", self), args, kwargs)

    def inspect(self, *args: Any, step: int = 0, target: str | None = None, **kwargs: Any) -> Inspection:
        """A kernel of the plan from its text down: Tile IR, then the levels of a backend, linked by line.

        Parameters
        ----------
        *args, **kwargs
            As the function takes them.
        step : int
            Of the plan; its kernel is shown as it is compiled for this step.
        target : str, optional
            A chip, as in ``ascend910b2``, whose levels are shown instead of the CPU's.

        Raises
        ------
        ValueError
            When there is no such step, or numpy does it.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> f = pto.fuse(lambda x: np.exp(x) + 1)
        >>> [level.name for level in f.inspect(np.zeros(8, np.float32)).levels][:2]
        ['tile-ir', 'optimized-ir']
        """
        from pypto.graph.views.inspecting import inspected

        return inspected(cast("Any", self), args, kwargs, step, target)

    def _repr_html_(self) -> str:
        from pypto.graph.views.cards import fused_card

        return fused_card(cast("Any", self))
