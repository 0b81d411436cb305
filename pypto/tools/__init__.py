"""Files made of kernels, for use without pypto.

Operator projects: `project`, `project_operator`, `project_kernel`, `project_backward`, `project_torch`, `project_call`,
`project_autograd`, `project_tests`, `project_fields`, `project_formula`, `prototype`. Libraries: `aot`.
"""
