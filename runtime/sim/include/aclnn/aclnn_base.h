// Results of the two stages of an operator's call.
#pragma once

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ACLNN_SUCCESS = 0,
    ACLNN_ERR_PARAM_NULLPTR = 161001,
    ACLNN_ERR_PARAM_INVALID = 161002,
    ACLNN_ERR_RUNTIME_ERROR = 361001,
    ACLNN_ERR_INNER = 561000,
    ACLNN_ERR_INNER_INFERSHAPE_ERROR = 561001,
    ACLNN_ERR_INNER_TILING_ERROR = 561002,
    ACLNN_ERR_INNER_FIND_KERNEL_ERROR = 561003,
    ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND = 561112
};

aclnnStatus aclnnInit(const char* configPath);
aclnnStatus aclnnFinalize(void);

// Of the simulated toolkit: what its generated functions for operators call.
typedef struct AscsimAttribute { int64_t integer; double real; } AscsimAttribute;
aclnnStatus ascsim_prepare(const char* type, const aclTensor* const* inputs, size_t inputNum, const AscsimAttribute* attributes, size_t attributeNum,
                           const aclTensor* const* outputs, size_t outputNum, uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus ascsim_execute(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif
