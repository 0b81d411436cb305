// The registry of operators, and what it says of them to the generator of their interface.

#include <map>

#include "register/op_def_registry.h"

namespace ascsim {

namespace {

std::map<std::string, ops::OpDef>& registry() {
    static std::map<std::string, ops::OpDef> all;
    return all;
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string arrays(const std::deque<ops::OpParamDef>& each) {
    std::string text;
    for (const auto& one : each) {
        text += (text.empty() ? "" : ", ") + std::string("{\"name\": ") + quoted(one.name) + ", \"types\": [";
        for (size_t i = 0; i < one.types.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(one.types[i]);
        text += "], \"formats\": " + std::to_string(one.formats.size()) + "}";
    }
    return "[" + text + "]";
}

std::string attributes(const std::deque<ops::OpAttrDef>& each) {
    std::string text;
    for (const auto& one : each)
        text += (text.empty() ? "" : ", ") + std::string("{\"name\": ") + quoted(one.name) + ", \"kind\": " + quoted(one.kind) + "}";
    return "[" + text + "]";
}

std::string described(const ops::OpDef& one) {
    std::string units;
    for (const auto& unit : one.core.units) units += (units.empty() ? "" : ", ") + quoted(unit);
    return "{\"type\": " + quoted(one.type) + ", \"inputs\": " + arrays(one.inputs) + ", \"attributes\": " + attributes(one.attributes) +
           ", \"outputs\": " + arrays(one.outputs) + ", \"units\": [" + units + "], \"tiling\": " + (one.core.tiling != nullptr ? "true" : "false") + "}";
}

}  // namespace

int add_operator(const ops::OpDef& made) {
    registry().insert_or_assign(made.type, made);
    return 0;
}

const ops::OpDef* find_operator(const std::string& type) {
    const auto found = registry().find(type);
    return found == registry().end() ? nullptr : &found->second;
}

}  // namespace ascsim

// All operators that are registered, as JSON.
extern "C" const char* ascsim_operators(void) {
    static std::string text;
    text.clear();
    for (const auto& [type, one] : ascsim::registry()) text += (text.empty() ? "" : ", ") + ascsim::described(one);
    text = "[" + text + "]";
    return text.c_str();
}
