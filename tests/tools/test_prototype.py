"""Prototypes of msopgen: what one says, and that nothing hostile becomes a file, a name or a type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pypto.errors.project import WrongPrototype
from pypto.tools.prototype import prototype_of, read_prototype
from tests.cli.commands import called, kernels


def array(name: str, *types: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "param_type": "required", "format": ["ND"] * len(types), "type": list(types), **more}


def prototype(**changes: Any) -> str:
    one = {"op": "AddCustom", "language": "cpp",
           "input_desc": [array("x", "fp16", "float"), array("y", "fp16", "float")],
           "output_desc": [array("out", "float16", "float32")],
           "attr": [{"name": "alpha", "param_type": "optional", "type": "float", "default_value": 2}]}  # fmt: skip
    return json.dumps([{**one, **changes}])


def test_a_prototype() -> None:
    found = prototype_of(prototype(), "add.json")
    assert found.type == "AddCustom"
    assert found.inputs == {"x": ("f16", "f32"), "y": ("f16", "f32")}
    assert found.combinations == [dict.fromkeys(("x", "y", "out"), dtype) for dtype in ("f16", "f32")]
    assert found.attributes == {"alpha": 2.0}
    twice = prototype(input_desc=[array("x", "int8", "int8")], output_desc=[array("out", "bool", "bool")])
    assert prototype_of(twice, "add.json").combinations == [{"x": "i8", "out": "i1"}]


GUIDE = """// gelu_custom.json
{
"op": "GELUCustom",
"input_desc": [{"name": "x", "type": "float16", "format": "ND", "dynamic_shape": true}],
"output_desc": [{"name": "y", "type": "float16", "format": "ND", "dynamic_shape": true}],
"attr": [],
"kernel_name": "gelu_custom",
"need_check_supported": true
}
"""


def test_a_definition_as_guides_print_it() -> None:
    """One object without a list, its types as words, and keys of older tools."""
    found = prototype_of(GUIDE, "gelu_custom.json")
    assert (found.type, found.inputs, found.outputs) == ("GELUCustom", {"x": ("f16",)}, {"y": ("f16",)})
    assert [note.split("`")[1] for note in found.unused] == ["kernel_name", "need_check_supported"]
    assert found.dynamic == ("x", "y")


WRONG = {
    "no JSON": "[{",
    "one operator, or a list with one": '[{"op": "Add"}, {"op": "Sub"}]',
    "`dynamic_shape` of `x` is 'yes'": prototype(input_desc=[array("x", "float", "float", dynamic_shape="yes")]),
    "`kernel_name` is '../add'": prototype(kernel_name="../add"),
    "a key twice": '[{"op": "Add", "op": "Sub"}]',
    "`op` is '../Add'": prototype(op="../Add"),
    "`op` is 'Add;rm'": prototype(op="Add;rm"),
    "`op` is 'Add\"'": prototype(op='Add"'),
    "`op` is 'Add*/'": prototype(op="Add*/"),
    "`kernel_name` is 'add*/'": prototype(kernel_name="add*/"),
    "a name in `input_desc` is 'x*/'": prototype(input_desc=[array("x*/", "float", "float")]),
    "a name in `attr` is 'a\"'": prototype(attr=[{"name": 'a"', "type": "float"}]),
    "`op` is 'Größe'": prototype(op="Größe"),
    "`op` is 7": prototype(op=7),
    "`language` is not": prototype(language="py"),
    "the key 'path'": prototype(path="/etc"),
    "no list of objects": prototype(input_desc="x"),
    "a name in `input_desc` is 'x y'": prototype(input_desc=[array("x y", "float")]),
    "a name in `output_desc` is '$(id)'": prototype(output_desc=[array("$(id)", "float", "float")]),
    "no outputs": prototype(output_desc=[]),
    "a name stands for two things": prototype(input_desc=[array("x", "float")] * 2),
    "of the type 'double_float'": prototype(input_desc=[array("x", "double_float", "float")]),
    "the format 'NCHW'": prototype(input_desc=[array("x", "float", "float", format=["NCHW", "ND"])]),
    "2 types and 1 formats": prototype(input_desc=[array("x", "float", "float", format=["ND"])]),
    "'dynamic'": prototype(input_desc=[array("x", "float", "float", param_type="dynamic")]),
    "as many types": prototype(input_desc=[array("x", "float")]),
    "no list of words": prototype(input_desc=[array("x", "float", type=[1])]),
    "more than 64 words": prototype(input_desc=[array("x", *["float"] * 65)]),
    "of the type 'str'": prototype(attr=[{"name": "s", "type": "str"}]),
    "which is no int": prototype(attr=[{"name": "n", "type": "int", "default_value": True}]),
    "larger than a megabyte": " " * (1 << 20) + prototype(),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_no_prototype(words: str) -> None:
    with pytest.raises(WrongPrototype) as caught:
        prototype_of(WRONG[words], "add.json")
    assert caught.value.code == "E392"
    assert words in str(caught.value)


def test_a_deep_text_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(WrongPrototype, match="no JSON"):
        prototype_of("[" * 100000, "deep.json")
    with pytest.raises(WrongPrototype, match="cannot be read"):
        read_prototype(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(WrongPrototype, match="cannot be read"):
        read_prototype(tmp_path / "bytes.json")


def test_a_project_of_a_prototype_from_the_command_line(tmp_path: Path) -> None:
    file, made = tmp_path / "add.json", tmp_path / "made"
    words = ("compile", f"{kernels(tmp_path)}:add", "x=[100]", "y=[100]", "out=[100]", "BLOCK=64", "--target",
             "ascend910b2", "--emit", "project", "--grid", "2", "--prototype", file, "-o", made)  # fmt: skip
    file.write_text(prototype(), encoding="utf-8")
    assert "its attributes are alpha, and those of add none" in called(*words).output
    file.write_text(prototype(op="Add Custom", attr=[]), encoding="utf-8")
    assert "E392" in called(*words).output
    assert not made.exists()
    file.write_text(prototype(attr=[]), encoding="utf-8")
    result = called(*words)
    assert result.exit_code == 0, result.output
    host = (made / "op_host" / "add_custom.cpp").read_text(encoding="utf-8")
    assert ".DataType({ge::DT_FLOAT16, ge::DT_FLOAT})" in host
    assert "OP_ADD(AddCustom);" in host
    assert not [path for path in tmp_path.rglob("*") if "Add Custom" in path.name]
