"""`calibrate` begins the calibration of a model, which is given as blocks or as a torch module."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from pypto.arguments import BOUNDARY
from pypto.quant.calibrate.blocks import Block, Calibration, calibrate_blocks
from pypto.quant.config import Config

if TYPE_CHECKING:
    from pypto.quant.torch_modules.calibration import ModuleCalibration


@overload
def calibrate(model: Sequence[Block], config: Config, folder: str | os.PathLike[str] | None = None) -> Calibration: ...


@overload
def calibrate(
    model: Any, config: Config, folder: str | os.PathLike[str] | None = None, blocks: Any = None
) -> ModuleCalibration: ...


@BOUNDARY
def calibrate(
    model: Any, config: Config, folder: str | os.PathLike[str] | None = None, blocks: Any = None
) -> Calibration | ModuleCalibration:
    """Begins a calibration.

    Parameters
    ----------
    model : sequence of Block, or torch.nn.Module
        The blocks in the order in which they compute, or a module that has them.
    config : Config
    folder : path, optional
        The folder that stores the inputs of blocks and the results as safetensors; a killed calibration resumes there.
        By default, a temporary folder, which is removed at the end of the ``with`` block.
    blocks : str or sequence of torch.nn.Module, optional
        For a torch module: the name of the submodule whose children are the blocks, as in ``"model.layers"``, a
        regular expression that matches their names, or a list of them. Each block takes the result of the previous
        one. By default, the whole module is one block.

    Returns
    -------
    Calibration or ModuleCalibration
        For a torch module, ``run`` takes the arguments of the model, and ``convert`` returns a module.

    Raises
    ------
    WrongCalibration
        If two layers have the same name, if there are no layers, or if the folder belongs to another model or
        configuration.
    NoSuchLayer
        For a pattern in ``config.skip`` that matches nothing.

    Warns
    -----
    StaysFloat
        If the blocks of a torch module have other weights that stay in floats, and ``config.skip`` does not name them.

    Examples
    --------
    >>> import numpy as np
    >>> from pypto import quant
    >>> layer = quant.Layer("up", np.eye(2, dtype=np.float32))
    >>> block = Block("0", [layer], lambda values, linear: {"x": linear("up", values["x"])})
    >>> with quant.calibrate([block], quant.Config()) as run:
    ...     run({"x": np.ones((3, 2), np.float32)})
    ...     layers = run.convert()
    >>> layers["up"].weight.codes.tolist()
    [[127, 0], [0, 127]]
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        return calibrate_blocks(model, config, folder)
    from pypto.quant.torch_modules.calibration import calibrate_module

    return calibrate_module(model, config, folder, blocks)
