// What functions of an operator are called with: shapes, types and attributes of a call, and what the functions answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/types.h"

namespace fe {
// The chip that an operator is planned for.
struct PlatFormInfos {
    uint32_t cube_cores, vector_cores, library_bytes;
};
}  // namespace fe

namespace gert {

class Shape {
public:
    size_t GetDimNum() const { return dims_.size(); }
    int64_t GetDim(size_t at) const { return at < dims_.size() ? dims_[at] : 0; }
    void SetDimNum(size_t count) { dims_.resize(count); }
    void SetDim(size_t at, int64_t size) {
        if (at < dims_.size()) dims_[at] = size;
    }
    void AppendDim(int64_t size) { dims_.push_back(size); }
    int64_t GetShapeSize() const {
        int64_t size = 1;
        for (const int64_t n : dims_) size *= n;
        return size;
    }
    bool operator==(const Shape& other) const { return dims_ == other.dims_; }
    bool operator!=(const Shape& other) const { return dims_ != other.dims_; }

private:
    std::vector<int64_t> dims_;
};

class StorageShape {
public:
    const Shape& GetOriginShape() const { return shape; }
    const Shape& GetStorageShape() const { return shape; }
    Shape shape;
};

class CompileTimeTensorDesc {
public:
    ge::DataType GetDataType() const { return type; }
    ge::DataType type = ge::DT_UNDEFINED;
};

class RuntimeAttrs {
public:
    size_t GetAttrNum() const { return values.size(); }
    const int64_t* GetInt(size_t at) const { return at < values.size() ? &values[at].integer : nullptr; }
    const float* GetFloat(size_t at) const { return at < values.size() ? &values[at].real : nullptr; }
    const bool* GetBool(size_t at) const { return at < values.size() ? &values[at].truth : nullptr; }
    struct Value {
        int64_t integer = 0;
        float real = 0;
        bool truth = false;
    };
    std::vector<Value> values;
};

}  // namespace gert

namespace ascsim {

// One call of an operator, of which each context shows a part.
struct OpCall {
    std::vector<gert::StorageShape> inputs, outputs;
    std::vector<gert::Shape> input_shapes, inferred_shapes;
    std::vector<gert::CompileTimeTensorDesc> input_types, output_types, inferred_types;
    gert::RuntimeAttrs attributes;
    fe::PlatFormInfos platform{};
    std::vector<size_t> workspaces;
    alignas(8) std::array<uint8_t, 4096> tiling{};
    size_t tiling_bytes = 0;
    uint64_t tiling_key = 0;
    uint32_t blocks = 0;
};

template <typename Of>
auto* item(Of& items, size_t at) { return at < items.size() ? &items[at] : nullptr; }

}  // namespace ascsim

namespace gert {

class Context {
public:
    explicit Context(ascsim::OpCall& call) : call_(call) {}
    const CompileTimeTensorDesc* GetInputDesc(size_t at) const { return ascsim::item(call_.input_types, at); }
    const RuntimeAttrs* GetAttrs() const { return &call_.attributes; }

protected:
    ascsim::OpCall& call_;
};

class InferShapeContext : public Context {
public:
    using Context::Context;
    const Shape* GetInputShape(size_t at) const { return ascsim::item(call_.input_shapes, at); }
    Shape* GetOutputShape(size_t at) { return ascsim::item(call_.inferred_shapes, at); }
};

class InferDataTypeContext : public Context {
public:
    using Context::Context;
    ge::DataType GetInputDataType(size_t at) const {
        const auto* found = GetInputDesc(at);
        return found == nullptr ? ge::DT_UNDEFINED : found->type;
    }
    ge::graphStatus SetOutputDataType(size_t at, ge::DataType type) {
        if (at >= call_.inferred_types.size()) return ge::GRAPH_FAILED;
        call_.inferred_types[at].type = type;
        return ge::GRAPH_SUCCESS;
    }
};

class TilingContext : public Context {
public:
    using Context::Context;
    const StorageShape* GetInputShape(size_t at) const { return ascsim::item(call_.inputs, at); }
    const StorageShape* GetOutputShape(size_t at) const { return ascsim::item(call_.outputs, at); }
    const CompileTimeTensorDesc* GetOutputDesc(size_t at) const { return ascsim::item(call_.output_types, at); }
    fe::PlatFormInfos* GetPlatformInfo() const { return &call_.platform; }
    template <typename T>
    T* GetTilingData() {
        if (sizeof(T) > call_.tiling.size()) return nullptr;
        call_.tiling_bytes = sizeof(T);
        return reinterpret_cast<T*>(call_.tiling.data());
    }
    ge::graphStatus SetTilingKey(uint64_t key) { return call_.tiling_key = key, ge::GRAPH_SUCCESS; }
    ge::graphStatus SetBlockDim(uint32_t blocks) { return call_.blocks = blocks, ge::GRAPH_SUCCESS; }
    size_t* GetWorkspaceSizes(size_t count) {
        call_.workspaces.resize(count);
        return call_.workspaces.data();
    }
};

}  // namespace gert
