// Definitions of operators, as the public documentation of OpDef describes them, and the registry that keeps them.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "ascsim/contexts.h"

namespace ops {

enum Option { OPTIONAL = 0, REQUIRED = 1 };
using InferShapeFunction = ge::graphStatus (*)(gert::InferShapeContext*);
using InferTypeFunction = ge::graphStatus (*)(gert::InferDataTypeContext*);
using TilingFunction = ge::graphStatus (*)(gert::TilingContext*);

// An array of an operator: its type and format in each of the combinations that there are kernels for.
class OpParamDef {
public:
    explicit OpParamDef(std::string name) : name(std::move(name)) {}
    OpParamDef& ParamType(Option option) { return required = option == REQUIRED, *this; }
    OpParamDef& DataType(std::vector<ge::DataType> each) { return types = std::move(each), *this; }
    OpParamDef& Format(std::vector<ge::Format> each) { return formats = std::move(each), *this; }
    OpParamDef& UnknownShapeFormat(std::vector<ge::Format>) { return *this; }
    std::string name;
    bool required = true;
    std::vector<ge::DataType> types;
    std::vector<ge::Format> formats;
};

class OpAttrDef {
public:
    explicit OpAttrDef(std::string name) : name(std::move(name)) {}
    OpAttrDef& AttrType(Option option) { return required = option == REQUIRED, *this; }
    OpAttrDef& Bool() { return kind = "bool", *this; }
    OpAttrDef& Bool(bool) { return Bool(); }
    OpAttrDef& Int() { return kind = "int", *this; }
    OpAttrDef& Int(int64_t) { return Int(); }
    OpAttrDef& Float() { return kind = "float", *this; }
    OpAttrDef& Float(float) { return Float(); }
    std::string name, kind;
    bool required = true;
};

class OpAICoreDef {
public:
    OpAICoreDef& SetTiling(TilingFunction function) { return tiling = function, *this; }
    OpAICoreDef& AddConfig(const char* unit) { return units.emplace_back(unit), *this; }
    TilingFunction tiling = nullptr;
    std::vector<std::string> units;
};

class OpDef {
public:
    explicit OpDef(const char* type) : type(type) {}
    OpParamDef& Input(const char* name) { return inputs.emplace_back(name); }
    OpParamDef& Output(const char* name) { return outputs.emplace_back(name); }
    OpAttrDef& Attr(const char* name) { return attributes.emplace_back(name); }
    OpDef& SetInferShape(InferShapeFunction function) { return infer_shape = function, *this; }
    OpDef& SetInferDataType(InferTypeFunction function) { return infer_type = function, *this; }
    OpAICoreDef& AICore() { return core; }
    std::string type;
    std::deque<OpParamDef> inputs, outputs;
    std::deque<OpAttrDef> attributes;
    InferShapeFunction infer_shape = nullptr;
    InferTypeFunction infer_type = nullptr;
    OpAICoreDef core;
};

}  // namespace ops

namespace ascsim {
int add_operator(const ops::OpDef& made);  // one with the same type is replaced
const ops::OpDef* find_operator(const std::string& type);
}  // namespace ascsim

#define OP_ADD(Type) [[maybe_unused]] static const int ascsim_added_##Type = ascsim::add_operator(Type(#Type))
