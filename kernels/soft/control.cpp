// What only tests call: settings, the last report, counts.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "soft.h"

namespace soft {

Settings settings;
std::string report;

namespace {

bool number(const std::string &text, uint64_t &value) {
    char *end;
    value = strtoull(text.c_str(), &end, 0);
    return !text.empty() && *end == 0;
}

bool set(const std::string &key, const std::string &value) {
    uint64_t n = 0;
    const bool is_number = number(value, n);
    if (key == "schedule") {
        settings.seed = 0;
        if (value == "rr") {
            settings.schedule = Schedule::round_robin;
        } else if (value == "reverse") {
            settings.schedule = Schedule::reverse;
        } else if (value.rfind("random:", 0) == 0 && number(value.substr(7), settings.seed)) {
            settings.schedule = Schedule::random;
        } else {
            return false;
        }
    } else if (key == "kernels") {
        if (value != "plain" && value != "asan" && value != "race" && value != "steps" && value != "traffic")
            return false;
        settings.build = value;
    } else if (key == "source") {
        settings.source = value;
    } else if (key == "fail") {  // function:n:code
        const size_t first = value.find(':'), second = value.find(':', first + 1);
        uint64_t at, code;
        if (first == std::string::npos || second == std::string::npos) return false;
        if (!number(value.substr(first + 1, second - first - 1), at) || !number(value.substr(second + 1), code))
            return false;
        settings.faults.push_back({value.substr(0, first), long(at), int(code)});
    } else if (key == "flip") {  // n:word:mask
        const size_t first = value.find(':'), second = value.find(':', first + 1);
        uint64_t at, word, mask;
        if (first == std::string::npos || second == std::string::npos) return false;
        if (!number(value.substr(0, first), at) || !number(value.substr(first + 1, second - first - 1), word) ||
            !number(value.substr(second + 1), mask))
            return false;
        settings.flips.push_back({long(at), word, uint32_t(mask)});
    } else if (!is_number) {
        return false;
    } else if (key == "lazy") {
        settings.lazy = n != 0;
    } else if (key == "poison") {
        settings.poison = static_cast<unsigned char>(n);
    } else if (key == "devices") {
        settings.devices = int(n);
    } else if (key == "memory") {
        settings.memory = n;
    } else if (key == "capability") {
        settings.capability = int(n);
    } else if (key == "driver") {
        settings.driver = int(n);
    } else if (key == "shared") {
        settings.shared = n;
    } else if (key == "refuse_binary") {
        settings.refuse_binary = n != 0;
    } else {
        return false;
    }
    return true;
}

}  // namespace

bool configure(const char *text) {
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, ',');) {
        const size_t middle = word.find('=');
        if (word.empty()) continue;
        if (middle == std::string::npos || !set(word.substr(0, middle), word.substr(middle + 1))) return false;
    }
    return true;
}

int injected(const char *function) {
    const bool is_call = strcmp(function, "kernel") != 0;
    stats.calls += is_call;
    int code = 0;
    for (Fault &fault : settings.faults) {
        const bool meant = fault.function == function || (is_call && fault.function == "any");
        if (!meant || fault.calls_left == 0 || --fault.calls_left > 0) continue;
        if (code == 0) code = fault.code;
        if (is_call) report = std::string(function) + " failed as asked";
    }
    return code;
}

void flip(void *copied, size_t bytes) {
    stats.copies_out++;
    for (Flip &flip : settings.flips) {
        if (flip.copies_left == 0 || --flip.copies_left > 0 || bytes < 4) continue;
        auto *at = static_cast<unsigned char *>(copied) + flip.word % (bytes / 4) * 4;
        uint32_t word;
        memcpy(&word, at, 4);
        report = "word " + std::to_string(flip.word % (bytes / 4)) + " of a copy of " + std::to_string(bytes) +
                 " bytes, " + std::to_string(word) + ", was changed as asked";
        word ^= flip.mask;
        memcpy(at, &word, 4);
    }
}

// Programs that cannot call `soft_configure` set the variable.
static const bool environment_read = [] {
    const char *text = getenv("KOSHI_SOFT");
    if (!text || configure(text)) return true;
    fprintf(stderr, "KOSHI_SOFT: unknown setting in \"%s\"\n", text);
    abort();
}();

}  // namespace soft
