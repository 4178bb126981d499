// Turns a segmentation fault inside a kernel into the kernel's failure, as a device does.

#include <pthread.h>
#include <signal.h>

#include <cstdlib>

#include "soft.h"

// There in a process that runs under AddressSanitizer, which says more of a fault than we can.
extern "C" __attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *begin, size_t bytes);

namespace soft {
namespace {

struct sigaction before;
pthread_t watched;

void on_fault(int signal, siginfo_t *info, void *) {
    if (simt_now && pthread_equal(pthread_self(), watched)) touched(info->si_addr);
    sigaction(signal, &before, nullptr);  // not ours: it happens again, for who was there before
}

// The fault may be of a fiber's stack that is full, so the handler needs its own.
void ensure_signal_stack() {
    stack_t stack;
    sigaltstack(nullptr, &stack);
    if (!(stack.ss_flags & SS_DISABLE)) return;
    constexpr size_t bytes = 64 << 10;
    stack = {};
    stack.ss_sp = malloc(bytes);  // the OS thread's, for as long as it lives
    stack.ss_size = bytes;
    if (stack.ss_sp) sigaltstack(&stack, nullptr);
}

}  // namespace

void watch_faults(bool on) {
    if (__asan_unpoison_memory_region) return;
    if (!on) {
        sigaction(SIGSEGV, &before, nullptr);
        return;
    }
    ensure_signal_stack();
    watched = pthread_self();
    struct sigaction ours{};
    ours.sa_sigaction = on_fault;
    // The handler does not return, so the signal must not stay blocked.
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &ours, &before);
}

}  // namespace soft
