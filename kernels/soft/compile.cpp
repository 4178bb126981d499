// Kernels' text to a shared object: g++ behind simt.h, with a table of the kernels at the end. An
// object is named by the hash of all that went into it, and lies beside the driver's own library.

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "soft.h"

namespace soft {
namespace {

std::string read_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// Where this library lies.
std::string own_folder() {
    Dl_info info;
    if (!dladdr(reinterpret_cast<void *>(&read_file), &info) || !info.dli_fname) return ".";
    char *path = realpath(info.dli_fname, nullptr);
    std::string folder(path ? path : info.dli_fname);
    free(path);
    return folder.substr(0, folder.find_last_of('/'));
}

// The rule of one line an entry point serves here: what a launch may ask of each stands in the text.
std::string table(const std::string &text) {
    static const std::regex entry(
        R"re(extern\s*"C"\s*__global__\s+void\s+__launch_bounds__\(\s*(\w+)\s*\)\s*(\w+)\s*\()re");
    std::string kernels;
    for (std::sregex_iterator at(text.begin(), text.end(), entry), end; at != end; ++at) {
        kernels += (kernels.empty() ? "" : ", ") + ("SIMT_KERNEL(" + (*at)[2].str()) + ", " + (*at)[1].str() + ")";
    }
    return kernels.empty() ? "" : "\nSIMT_MODULE(" + kernels + ")\n";
}

std::string flags_of(const std::string &build) {
    const std::string always = "-x c++ -std=c++17 -O2 -gdwarf-4 -fPIC -fno-strict-aliasing -ffp-contract=off ";
    if (build == "asan") {
        return always +
               "-fsanitize=address,undefined -fno-sanitize=object-size -fno-sanitize-recover=all "
               "-fsanitize-sections=simt_shared "
               "-fno-omit-frame-pointer";
    }
    if (build == "race" || build == "traffic") return always + "-fsanitize=thread --param tsan-distinguish-volatile=1";
    if (build == "steps") return always + "-fsanitize-coverage=trace-pc";
    return always;
}

std::string shell_word(const std::string &text) {
    return "'" + std::regex_replace(text, std::regex("'"), "'\\''") + "'";
}

int shell(const std::string &command, const std::string &log) {
    const int status = system((command + " > " + shell_word(log) + " 2>&1").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string compile(const std::string &text) {
    const std::string kernels = table(text);
    if (kernels.empty()) {
        report = "the source has no entry point (extern \"C\" __global__ void __launch_bounds__(N) name, on one line)";
        return "";
    }
    const char *compiler = getenv("CXX");
    const std::string flags = flags_of(settings.build);
    const std::string header = SOFT_FOLDER "/simt.h";
    const std::string all = text + kernels + flags + (compiler ? compiler : "") + read_file(header);
    char name[64];
    snprintf(name, sizeof name, "%s-%016zx", settings.build.c_str(), std::hash<std::string>()(all));
    const std::string folder = own_folder() + "/kernels";
    mkdir(folder.c_str(), 0777);
    const std::string base = folder + "/" + name, object = base + ".so";
    if (access(object.c_str(), R_OK) == 0) return object;

    // Several processes may do this at once: each in files of its own, the last step is a rename.
    const std::string own = base + "." + std::to_string(getpid());
    const std::string source = own + ".cu", compiled = own + ".o", linked = own + ".so", log = own + ".log";
    std::ofstream(source, std::ios::binary) << text << kernels;
    const std::string gxx = compiler ? compiler : "g++";
    // Not linked with -fsanitize=thread: the hooks are the driver's.
    const std::string link_flags = settings.build == "asan" ? " -fsanitize=address,undefined" : "";
    int status = shell(gxx + " " + flags + " -include " + shell_word(header) + " -c " + shell_word(source) + " -o " +
                           shell_word(compiled),
                       log);
    if (status == 0) {
        status = shell(gxx + " -shared" + link_flags + " " + shell_word(compiled) + " -o " + shell_word(linked) +
                           " -L" + shell_word(own_folder()) + " -lcuda",
                       log);
    }
    if (status != 0) {
        report = "g++ refuses the kernels: " + read_file(log);
    } else if (rename(linked.c_str(), object.c_str()) != 0) {
        report = "cannot write " + object;
        status = 1;
    }
    for (const std::string &file : {source, compiled, linked, log}) unlink(file.c_str());
    return status == 0 ? object : "";
}

std::string compile_file(const std::string &path) {
    if (access(path.c_str(), R_OK) != 0) {
        report = "cannot read " + path;
        return "";
    }
    return compile(read_file(path));
}

}  // namespace soft
