// The state behind the runtime library: one device, what a program has asked of it, and the records of known chips.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "machine.hpp"

namespace acl {

// A chip as aclrtGetSocName and aclrtGetDeviceInfo describe it.
struct Soc {
    const char* name;
    int arch;
    int64_t cube_cores, vector_cores, l2_bytes, memory_bytes;
};

struct Stream {
    std::vector<std::function<aclError()>> work;
};

struct Event {
    bool recorded = false;
    std::chrono::steady_clock::time_point time;
};

struct Binary {
    void* library = nullptr;
    int arch = 2201;
    int file = -1;  // open as long as the library is loaded: the loader tells libraries apart by their names
    std::map<std::string, ascsim::Entry> entries;
    Binary() = default;
    Binary(const Binary&) = delete;
    ~Binary();
};

struct Device {
    std::recursive_mutex lock;
    bool initialised = false, broken = false;
    int current = -1;
    uint64_t launches = 0;
    std::string remarks;
    aclError breakage = ACL_SUCCESS;
    std::map<uint64_t, std::unique_ptr<ascsim::Allocation>> memory;
    std::map<const void*, std::unique_ptr<Stream>> streams;
    std::map<const void*, std::unique_ptr<Event>> events;
    std::map<const void*, std::unique_ptr<Binary>> binaries;
    Stream standard;
};

using Guard = std::lock_guard<std::recursive_mutex>;

Device& device();
const Soc& soc();
aclError fail(aclError code, const std::string& what);  // remembers the words for aclGetRecentErrMsg
aclError ready();                                       // whether work may be given to the device
Stream* stream_of(aclrtStream);                         // null when there is no such stream
aclError no_stream();
aclError none(const char* what);  // a null pointer where one is needed

}  // namespace acl
