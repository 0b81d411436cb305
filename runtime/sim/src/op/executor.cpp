// The two stages of an operator's call: what the call needs is checked and planned, then its kernel is launched.

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "register/op_def_registry.h"

struct aclTensor {
    gert::Shape shape;
    aclDataType type;
    uint8_t* data;
    bool contiguous;
};

struct aclOpExecutor {
    std::string binary, function;
    std::vector<const void*> arrays;
    ascsim::OpCall call;
};

namespace {

constexpr uint32_t kLibraryBytes = 16 << 20;  // as the headers of kernels have it
constexpr const char* kParts = "/op_impl/ai_core/tbe";

std::mutex& lock() {
    static std::mutex one;
    return one;
}

aclnnStatus refuse(aclnnStatus status, const std::string& type, const std::string& why) {
    std::fprintf(stderr, "%s: %s\n", type.c_str(), why.c_str());
    return status;
}

// The folders of vendors that ASCEND_CUSTOM_OPP_PATH names.
std::vector<std::string> vendors() {
    const char* named = std::getenv("ASCEND_CUSTOM_OPP_PATH");
    std::vector<std::string> all;
    for (std::string rest = named != nullptr ? named : ""; !rest.empty();) {
        const size_t end = std::min(rest.find(':'), rest.size());
        if (end != 0) all.push_back(rest.substr(0, end));
        rest.erase(0, end + 1);
    }
    return all;
}

// The operator of a type; libraries of planning functions are loaded when it is asked for the first time.
const ops::OpDef* operator_of(const std::string& type) {
    for (const auto& vendor : vendors()) {
        if (ascsim::find_operator(type) != nullptr) break;
        dlopen((vendor + kParts + "/op_tiling/liboptiling.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
    return ascsim::find_operator(type);
}

// The family of a chip, by which configurations of operators are named.
std::string unit_of_chip() {
    const std::string name = aclrtGetSocName();
    return name.rfind("Ascend910_93", 0) == 0 ? "ascend910_93" : name.rfind("Ascend910B", 0) == 0 ? "ascend910b" : name.rfind("Ascend950", 0) == 0 ? "ascend950" : "";
}

std::string file_of(const std::string& type, const std::string& name) {
    for (const auto& vendor : vendors()) {
        const std::string path = vendor + kParts + "/kernel/" + unit_of_chip() + "/" + type + "/" + name + ".bin";
        if (std::ifstream(path).good()) return path;
    }
    return "";
}

aclnnStatus check_arrays(const ops::OpDef& op, const std::deque<ops::OpParamDef>& wanted, const aclTensor* const* given, size_t count) {
    if (count != wanted.size()) return refuse(ACLNN_ERR_INNER, op.type, "the interface is not that of the definition");
    for (size_t i = 0; i < count; ++i) {
        if (given[i] == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, op.type, wanted[i].name + " is a null pointer");
        if (!given[i]->contiguous) return refuse(ACLNN_ERR_PARAM_INVALID, op.type, wanted[i].name + " is not contiguous, which the simulated toolkit does not mend");
    }
    return ACLNN_SUCCESS;
}

// Whether the definition has a combination of the types of a call.
bool is_defined(const ops::OpDef& op, const ascsim::OpCall& call) {
    const auto fits = [](const auto& wanted, const auto& given, size_t at) {
        for (size_t i = 0; i < given.size(); ++i)
            if (at >= wanted[i].types.size() || wanted[i].types[at] != given[i].type) return false;
        return true;
    };
    const size_t combinations = op.inputs.empty() ? op.outputs.front().types.size() : op.inputs.front().types.size();
    for (size_t at = 0; at < combinations; ++at)
        if (fits(op.inputs, call.input_types, at) && fits(op.outputs, call.output_types, at)) return true;
    return false;
}

void add(const aclTensor& tensor, std::vector<gert::StorageShape>& shapes, std::vector<gert::CompileTimeTensorDesc>& types, aclOpExecutor& made) {
    shapes.emplace_back().shape = tensor.shape;
    types.emplace_back().type = static_cast<ge::DataType>(tensor.type);
    made.arrays.push_back(tensor.data);
}

// Inference must agree with the tensors that the caller made.
aclnnStatus infer(const ops::OpDef& op, ascsim::OpCall& call) {
    for (const auto& one : call.inputs) call.input_shapes.push_back(one.shape);
    call.inferred_shapes.resize(call.outputs.size());
    call.inferred_types.resize(call.outputs.size());
    gert::InferShapeContext shapes(call);
    gert::InferDataTypeContext types(call);
    if (op.infer_shape == nullptr || op.infer_shape(&shapes) != ge::GRAPH_SUCCESS) return refuse(ACLNN_ERR_INNER_INFERSHAPE_ERROR, op.type, "no shapes can be inferred");
    if (op.infer_type == nullptr || op.infer_type(&types) != ge::GRAPH_SUCCESS) return refuse(ACLNN_ERR_INNER_INFERSHAPE_ERROR, op.type, "no types can be inferred");
    for (size_t i = 0; i < call.outputs.size(); ++i)
        if (call.inferred_shapes[i] != call.outputs[i].shape) return refuse(ACLNN_ERR_INNER_INFERSHAPE_ERROR, op.type, op.outputs[i].name + " has another shape than was inferred");
    return ACLNN_SUCCESS;
}

aclnnStatus plan(const ops::OpDef& op, aclOpExecutor& made) {
    int64_t cube = 0, vector = 0;
    int32_t device = 0;
    if (aclrtGetDevice(&device) != ACL_SUCCESS) return refuse(ACLNN_ERR_RUNTIME_ERROR, op.type, "no device is set");
    aclrtGetDeviceInfo(static_cast<uint32_t>(device), ACL_DEV_ATTR_CUBE_CORE_NUM, &cube);
    aclrtGetDeviceInfo(static_cast<uint32_t>(device), ACL_DEV_ATTR_VECTOR_CORE_NUM, &vector);
    made.call.platform = {static_cast<uint32_t>(cube), static_cast<uint32_t>(vector), kLibraryBytes};
    gert::TilingContext context(made.call);
    if (op.core.tiling == nullptr || op.core.tiling(&context) != ge::GRAPH_SUCCESS) return refuse(ACLNN_ERR_INNER_TILING_ERROR, op.type, "the tiling function refuses the call");
    if (made.call.blocks == 0 || made.call.workspaces.empty()) return refuse(ACLNN_ERR_INNER_TILING_ERROR, op.type, "the tiling function sets no blocks or no workspace");
    made.function = op.type + "_" + std::to_string(made.call.tiling_key);
    made.binary = file_of(op.type, made.function);
    if (made.binary.empty()) return refuse(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, op.type, "there is no kernel " + made.function + " for " + unit_of_chip());
    return ACLNN_SUCCESS;
}

// The function of a binary, which stays loaded until the device forgets it.
aclError function_of(const aclOpExecutor& call, aclrtFuncHandle* function) {
    static std::map<std::string, aclrtBinHandle> loaded;
    const std::lock_guard<std::mutex> guard(lock());
    const auto known = loaded.find(call.binary);
    if (known != loaded.end() && aclrtBinaryGetFunction(known->second, call.function.c_str(), function) == ACL_SUCCESS) return ACL_SUCCESS;
    aclrtBinHandle binary = nullptr;
    if (const aclError error = aclrtBinaryLoadFromFile(call.binary.c_str(), nullptr, &binary); error != ACL_SUCCESS) return error;
    loaded[call.binary] = binary;
    return aclrtBinaryGetFunction(binary, call.function.c_str(), function);
}

}  // namespace

aclnnStatus aclnnInit(const char*) { return ACLNN_SUCCESS; }
aclnnStatus aclnnFinalize(void) { return ACLNN_SUCCESS; }

aclTensor* aclCreateTensor(const int64_t* dims, uint64_t rank, aclDataType type, const int64_t* strides, int64_t offset, aclFormat format, const int64_t*,
                           uint64_t, void* data) {
    if ((dims == nullptr && rank != 0) || format != ACL_FORMAT_ND || offset != 0) return nullptr;
    auto* made = new aclTensor{{}, type, static_cast<uint8_t*>(data), true};
    int64_t step = 1;
    for (uint64_t i = rank; i-- > 0; step *= dims[i])
        if (strides != nullptr && dims[i] != 1 && strides[i] != step) made->contiguous = false;
    for (uint64_t i = 0; i < rank; ++i) made->shape.AppendDim(dims[i]);
    return made;
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
    delete tensor;
    return ACLNN_SUCCESS;
}

aclnnStatus ascsim_prepare(const char* type, const aclTensor* const* inputs, size_t input_num, const AscsimAttribute* attributes, size_t attribute_num,
                           const aclTensor* const* outputs, size_t output_num, uint64_t* workspace_size, aclOpExecutor** executor) {
    if (workspace_size == nullptr || executor == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, type, "workspaceSize or executor is a null pointer");
    const ops::OpDef* op = operator_of(type);
    if (op == nullptr) return refuse(ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND, type, "no package in ASCEND_CUSTOM_OPP_PATH has this operator");
    for (const auto& [wanted, given, count] : {std::tuple(&op->inputs, inputs, input_num), std::tuple(&op->outputs, outputs, output_num)})
        if (const aclnnStatus status = check_arrays(*op, *wanted, given, count); status != ACLNN_SUCCESS) return status;
    auto made = std::make_unique<aclOpExecutor>();
    for (size_t i = 0; i < input_num; ++i) add(*inputs[i], made->call.inputs, made->call.input_types, *made);
    for (size_t i = 0; i < output_num; ++i) add(*outputs[i], made->call.outputs, made->call.output_types, *made);
    for (size_t i = 0; i < attribute_num; ++i)
        made->call.attributes.values.push_back({attributes[i].integer, static_cast<float>(attributes[i].real), attributes[i].integer != 0});
    if (!is_defined(*op, made->call)) return refuse(ACLNN_ERR_PARAM_INVALID, type, "the definition has no such combination of types");
    if (const aclnnStatus status = infer(*op, made->call); status != ACLNN_SUCCESS) return status;
    if (const aclnnStatus status = plan(*op, *made); status != ACLNN_SUCCESS) return status;
    *workspace_size = made->call.workspaces[0];
    *executor = made.release();
    return ACLNN_SUCCESS;
}

aclnnStatus ascsim_execute(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream) {
    if (executor == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "an operator", "its executor is a null pointer");
    const std::unique_ptr<aclOpExecutor> call(executor);  // it serves one call
    if (workspace_size < call->call.workspaces[0] || (workspace == nullptr && workspace_size != 0)) return refuse(ACLNN_ERR_PARAM_INVALID, call->function, "the workspace is too small");
    aclrtFuncHandle function = nullptr;
    if (function_of(*call, &function) != ACL_SUCCESS) return refuse(ACLNN_ERR_RUNTIME_ERROR, call->function, aclGetRecentErrMsg());
    auto& arrays = call->arrays;
    arrays.push_back(workspace);
    arrays.push_back(nullptr);  // where the plan lies, which the runtime fills in
    const size_t head = arrays.size() * sizeof(void*);
    std::vector<uint8_t> packed(head + call->call.tiling_bytes);
    std::memcpy(packed.data(), arrays.data(), head);
    std::memcpy(packed.data() + head, call->call.tiling.data(), call->call.tiling_bytes);
    aclrtPlaceHolderInfo place{static_cast<uint32_t>(head - sizeof(void*)), static_cast<uint32_t>(head)};
    const aclError error = aclrtLaunchKernelWithHostArgs(function, call->call.blocks, stream, nullptr, packed.data(), packed.size(), &place, 1);
    return error == ACL_SUCCESS ? ACLNN_SUCCESS : refuse(ACLNN_ERR_RUNTIME_ERROR, call->function, aclGetRecentErrMsg());
}
