// How a kernel is called with arguments that lie as a launch packs them. It stands here so that the headers which are
// compiled once have it, and a kernel's unit need not.
#pragma once

#include <cstring>
#include <tuple>

namespace ascsim_call {  // where no kernel of a source is, whatever its name
template <typename T>
constexpr size_t place = sizeof(T) < 4 ? 4 : alignof(T);  // pointers and 64-bit numbers at 8, others at 4
template <typename T>
constexpr size_t begin(size_t end) { return (end + place<T> - 1) / place<T> * place<T>; }
template <typename T>
T take(size_t& end, const unsigned char* base) {
    T value;
    std::memcpy(&value, base + begin<T>(end), sizeof(T));
    end = begin<T>(end) + sizeof(T);
    return value;
}
template <typename... Args>
void run(void (*kernel)(Args...), const void* args) {
    [[maybe_unused]] size_t end = 0;
    std::tuple<Args...> values{take<Args>(end, static_cast<const unsigned char*>(args))...};
    std::apply(kernel, values);
}
template <typename... Args>
constexpr size_t bytes_of(void (*)(Args...)) {
    size_t end = 0;
    ((end = begin<Args>(end) + sizeof(Args)), ...);
    return end;
}
}  // namespace ascsim_call
