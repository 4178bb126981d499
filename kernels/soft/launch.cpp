// Modules, their functions, and launches: the driver's entry points and the checks behind them.

#include "driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>

using namespace soft;

namespace {

constexpr size_t plain_shared = 48 << 10;  // dynamic and static, without opting in to more
constexpr unsigned threads_a_multiprocessor = 1024, blocks_a_multiprocessor = 16;

struct Function {
    const simt::Kernel *kernel;
    const simt::Module *module;
    size_t most_dynamic;
};

struct Module {
    const simt::Module *object;
    std::map<std::string, std::unique_ptr<Function>> functions;
};

std::set<Module *> modules;
std::map<const Function *, Function *> functions;

size_t static_shared(const simt::Module &module) { return module.shared_end - module.shared_begin; }

int launch(Stream &stream, Function &function, dim3 grid, dim3 block, size_t dynamic, void **parameters) {
    const uint64_t threads = uint64_t(block.x) * block.y * block.z;
    const char *wrong = nullptr;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0) wrong = "an empty launch";
    if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) wrong = "the grid is too large";
    if (uint64_t(grid.x) * grid.y * grid.z > UINT32_MAX) wrong = "more blocks than the software device counts";
    if (block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024) wrong = "the block is too large";
    if (threads > function.kernel->max_threads) wrong = "the block is larger than the kernel's launch bound";
    if (dynamic > function.most_dynamic) wrong = "more dynamic shared memory than the kernel may have";
    if (!parameters && function.kernel->parameters > 0) wrong = "no parameters";
    if (wrong) {
        report = std::string("launch of ") + function.kernel->name + ": " + wrong;
        return INVALID_VALUE;
    }
    // Parameters are copied at the call, each to a place that suits any type.
    auto values = std::make_shared<std::vector<std::vector<std::max_align_t>>>();
    for (unsigned at = 0; at < function.kernel->parameters; at++) {
        const size_t bytes = function.kernel->parameter_bytes[at];
        values->emplace_back(bytes / sizeof(std::max_align_t) + 1);
        memcpy(values->back().data(), parameters[at], bytes);
    }
    enqueue(stream, [=, &context = *stream.context, kernel = function.kernel, module = function.module] {
        std::vector<void *> arguments;
        for (auto &value : *values) arguments.push_back(value.data());
        arguments.push_back(nullptr);
        if (const int code = injected("kernel")) {
            report = std::string("kernel ") + kernel->name + ": failed as asked";
            context.sticky = code;
        } else {
            context.sticky = run({kernel, module, grid, block, dynamic, arguments.data()});
        }
    });
    return SUCCESS;  // a failed kernel is seen by the next call
}

// The object that an image stands for: PTX of our own compiler names it, a binary one is compiled from
// the source that the tests name.
int load(const void *image, Module *&made) {
    const auto *bytes = static_cast<const unsigned char *>(image);
    const bool fatbin = memcmp(bytes, "\x50\xed\x55\xba", 4) == 0, elf = memcmp(bytes, "\177ELF", 4) == 0;
    std::string object;
    if (fatbin || elf) {
        if (settings.refuse_binary || settings.driver < 13000) return NO_BINARY_FOR_GPU;
        if (settings.source.empty()) {
            report = "a binary image, and no `source` is set that says what is in it";
            return INVALID_IMAGE;
        }
        object = compile_file(settings.source);
    } else {
        const char *text = static_cast<const char *>(image);
        const char *version = strstr(text, "\n.version ");
        int major = 0, minor = 0;
        if (!version || sscanf(version, "\n.version %d.%d", &major, &minor) != 2)
            return memchr(bytes, 0, 4) ? INVALID_IMAGE : INVALID_PTX;
        // The language of CUDA 12 is PTX 8, that of 13 is 9.
        if (major > settings.driver / 1000 - 4) return UNSUPPORTED_PTX_VERSION;
        if (10 * major + minor < 83 && strstr(text, ".pragma \"used_bytes_mask")) return INVALID_PTX;
        if (const char *mark = strstr(text, ptx_mark)) {
            mark += strlen(ptx_mark);
            object.assign(mark, strcspn(mark, "\n"));
        } else {
            // That of a compiler that is not ours stands for the source, too.
            if (settings.refuse_binary || settings.source.empty()) return INVALID_PTX;
            object = compile_file(settings.source);
        }
    }
    if (object.empty()) return INVALID_IMAGE;
    void *library = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto *found = library ? static_cast<const simt::Module *>(dlsym(library, "simt_module")) : nullptr;
    if (!found) {
        const char *why = dlerror();
        report = why ? why : "no module in " + object;
        return INVALID_IMAGE;
    }
    made = new Module{found, {}};
    modules.insert(made);
    stats.objects++;
    return SUCCESS;
}

}  // namespace

extern "C" {

// ---- modules and kernels ----

int cuModuleLoadData(void **module, const void *image) {
    CONTEXT_CALL(cuModuleLoadData);
    if (!module || !image) return INVALID_VALUE;
    Module *made = nullptr;
    const int code = load(image, made);
    if (code == SUCCESS) *module = made;
    return code;
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned, int *, void **) {
    CONTEXT_CALL(cuModuleLoadDataEx);
    if (!module || !image) return INVALID_VALUE;
    Module *made = nullptr;
    const int code = load(image, made);
    if (code == SUCCESS) *module = made;
    return code;
}

int cuModuleUnload(void *handle) {
    CONTEXT_CALL(cuModuleUnload);
    auto *module = static_cast<Module *>(handle);
    if (!modules.erase(module)) return INVALID_HANDLE;
    for (const auto &[name, function] : module->functions) functions.erase(function.get());
    delete module;
    stats.objects--;
    return SUCCESS;
}

int cuModuleGetFunction(void **function, void *handle, const char *name) {
    CONTEXT_CALL(cuModuleGetFunction);
    if (!function || !name) return INVALID_VALUE;
    auto *module = static_cast<Module *>(handle);
    if (!modules.count(module)) return INVALID_HANDLE;
    const simt::Module &object = *module->object;
    const auto *end = object.kernels + object.count;
    const auto *found =
        std::find_if(object.kernels, end, [=](const simt::Kernel &kernel) { return !strcmp(kernel.name, name); });
    if (found == end) return NOT_FOUND;
    auto &made = module->functions[name];
    if (!made)
        made = std::make_unique<Function>(
            Function{found, &object, plain_shared - std::min(plain_shared, static_shared(object))});
    functions[made.get()] = made.get();
    *function = made.get();
    return SUCCESS;
}

int cuModuleGetGlobal_v2(Pointer *, size_t *, void *, const char *) {
    CONTEXT_CALL(cuModuleGetGlobal_v2);
    return NOT_FOUND;  // kernels have no globals
}

int cuFuncGetAttribute(int *value, int which, void *handle) {
    CONTEXT_CALL(cuFuncGetAttribute);
    NEEDED(value);
    const auto found = functions.find(static_cast<Function *>(handle));
    if (found == functions.end()) return INVALID_HANDLE;
    const Function &function = *found->second;
    switch (which) {
        case 0:
            *value = int(std::min(1024u, function.kernel->max_threads));
            break;
        case 1:
            *value = int(static_shared(*function.module));
            break;
        case 4:
            *value = 32;
            break;
        case 5:
        case 6:
            *value = settings.capability;
            break;
        case 8:
            *value = int(function.most_dynamic);
            break;
        default:
            *value = 0;
    }
    return SUCCESS;
}

int cuFuncSetAttribute(void *handle, int which, int value) {
    CONTEXT_CALL(cuFuncSetAttribute);
    const auto found = functions.find(static_cast<Function *>(handle));
    if (found == functions.end()) return INVALID_HANDLE;
    Function &function = *found->second;
    if (which == 8) {
        if (value < 0 || size_t(value) + static_shared(*function.module) > settings.shared) return INVALID_VALUE;
        function.most_dynamic = size_t(value);
    }
    return SUCCESS;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *handle, int block_size, size_t dynamic) {
    CONTEXT_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    NEEDED(blocks);
    const auto found = functions.find(static_cast<Function *>(handle));
    if (found == functions.end()) return INVALID_HANDLE;
    if (block_size <= 0) return INVALID_VALUE;
    const size_t shared = dynamic + static_shared(*found->second->module);
    size_t most = std::min<size_t>(blocks_a_multiprocessor, threads_a_multiprocessor / unsigned(block_size));
    if (shared > 0) most = std::min(most, settings.shared / shared);
    if (dynamic > found->second->most_dynamic || unsigned(block_size) > found->second->kernel->max_threads) most = 0;
    *blocks = int(most);
    return SUCCESS;
}

int cuLaunchKernel(void *handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned dynamic, void *stream_handle, void **parameters, void **extra) {
    STREAM_CALL(cuLaunchKernel, stream_handle);
    const auto found = functions.find(static_cast<Function *>(handle));
    if (found == functions.end()) return INVALID_HANDLE;
    if (extra) return INVALID_VALUE;
    return launch(*stream, *found->second, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic, parameters);
}
}
