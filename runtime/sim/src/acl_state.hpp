// The state behind the runtime library: devices, what a program has asked of them, and the records of known chips.
#pragma once

#include <array>
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

constexpr int kDevices = 2;

struct Device {
    bool broken = false;
    int users = 0;         // calls of aclrtSetDevice that no aclrtResetDevice has taken back
    uint64_t resets = 0;
    uint64_t launches = 0;
    std::string remarks;
    aclError breakage = ACL_SUCCESS;
    std::map<uint64_t, std::unique_ptr<ascsim::Allocation>> memory;
    std::map<const void*, std::unique_ptr<Stream>> streams;
    std::map<const void*, std::unique_ptr<Event>> events;
    std::map<const void*, std::unique_ptr<Binary>> binaries;
    Stream standard;
};

struct Library {
    std::recursive_mutex lock;
    bool initialised = false;
    std::array<Device, kDevices> devices;
    Device nowhere;  // of a thread that has set no device: it has nothing
};

using Guard = std::lock_guard<std::recursive_mutex>;

Library& library();
Device& device();   // of this thread
const Soc& soc();
aclError fail(aclError code, const std::string& what);  // remembers the words for aclGetRecentErrMsg
aclError ready();                                       // whether work may be given to the device
Stream* stream_of(aclrtStream);                         // null when there is no such stream
aclError no_stream();
aclError no_device();             // a number that no device has
bool is_device_number(int64_t);
aclError none(const char* what);  // a null pointer where one is needed

}  // namespace acl
