// A stand-in for libnvrtc: the text is compiled by g++ for the software device, and the "PTX" names
// the object. Only what cudarc calls.

#include <cstring>
#include <string>

#include "soft.h"

extern "C" {
int soft_compile(const char *text, const char **object, const char **log);
int soft_injected(const char *function);
}

namespace {

constexpr int success = 0, invalid_input = 3, compilation = 6;

struct Program {
    std::string text, ptx, log;
};

}  // namespace

extern "C" {

int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return success;
}

const char *nvrtcGetErrorString(int code) {
    return code == success ? "NVRTC_SUCCESS" : code == compilation ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}

int nvrtcCreateProgram(void **program, const char *text, const char *, int headers, const char *const *,
                       const char *const *) {
    if (const int code = soft_injected("nvrtcCreateProgram")) return code;
    if (!program || !text || headers != 0) return invalid_input;
    *program = new Program{text, "", ""};
    return success;
}

int nvrtcDestroyProgram(void **program) {
    delete static_cast<Program *>(*program);
    *program = nullptr;
    return success;
}

int nvrtcCompileProgram(void *handle, int, const char *const *) {
    if (const int code = soft_injected("nvrtcCompileProgram")) return code;
    auto &program = *static_cast<Program *>(handle);
    const char *object, *log;
    const bool made = soft_compile(program.text.c_str(), &object, &log) == 0;
    program.log = log;
    if (!made) return compilation;
    program.ptx = std::string("//\n.version 9.0\n.target sm_75\n.address_size 64\n") + soft::ptx_mark + object + "\n";
    return success;
}

int nvrtcGetProgramLogSize(void *handle, size_t *bytes) {
    *bytes = static_cast<Program *>(handle)->log.size() + 1;
    return success;
}

int nvrtcGetProgramLog(void *handle, char *out) {
    const std::string &log = static_cast<Program *>(handle)->log;
    memcpy(out, log.c_str(), log.size() + 1);
    return success;
}

int nvrtcGetPTXSize(void *handle, size_t *bytes) {
    *bytes = static_cast<Program *>(handle)->ptx.size() + 1;
    return success;
}

int nvrtcGetPTX(void *handle, char *out) {
    const std::string &ptx = static_cast<Program *>(handle)->ptx;
    memcpy(out, ptx.c_str(), ptx.size() + 1);
    return success;
}
}
