"""LLVM IR as text, for backends that hand it to LLVM: values, instructions and elementwise rules.

Comes in: calls of lane rules and of a backend's emitters. Goes out: the text of a module. Read `value` (a named SSA
value with dtype and width), `writer` (frames, hoisting, functions), `lane_emitter` (what the rules of the op table are
written against; a backend overrides what its targets do better), `conversions` (between element types), `compiled`
(helpers that clang made of C).
"""
