// Stackful fibers: an own switch of a dozen instructions on x86-64, ucontext elsewhere.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "soft.h"

// There in a process that runs under AddressSanitizer, which wants to know of other stacks.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t bytes);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom, size_t *bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *begin, size_t bytes);
}

namespace soft {

static void take_stack(Fiber &fiber) {
    const size_t page = sysconf(_SC_PAGESIZE);
    void *mapped =
        mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED || mprotect(mapped, page, PROT_NONE) != 0) abort();
    fiber.stack = static_cast<unsigned char *>(mapped) + page;
}

// A stack that a failed kernel left half way still has its frames marked.
static void clean(Fiber &fiber) {
    if (fiber.left_open && __asan_unpoison_memory_region) __asan_unpoison_memory_region(fiber.stack, stack_bytes);
    fiber.left_open = true;
    fiber.sanitizer_stack = nullptr;
}

// The stack of the OS thread, learned when a fiber is first left for it.
static const void *thread_stack;
static size_t thread_stack_bytes;
static Fiber *came_from;

static void arrived(Fiber &here) {
    if (!__sanitizer_finish_switch_fiber) return;
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(here.sanitizer_stack, &bottom, &bytes);
    if (came_from->stack == nullptr) {
        thread_stack = bottom;
        thread_stack_bytes = bytes;
    }
}

static void leaving(Fiber &from, Fiber &to, bool from_ends) {
    if (!__sanitizer_start_switch_fiber) return;
    came_from = &from;
    __sanitizer_start_switch_fiber(from_ends ? nullptr : &from.sanitizer_stack, to.stack ? to.stack : thread_stack,
                                   to.stack ? stack_bytes : thread_stack_bytes);
}

static void (*first_call)();
static Fiber *first_fiber;

static void enter() {
    arrived(*first_fiber);
    first_call();
    abort();  // a body ends by switching away
}

#if defined(__x86_64__)

// Pushes the registers that a call must keep, and goes on where the other stack was left.
extern "C" void simt_switch(void **from, void *to);
asm(R"(
.text
.type simt_switch, @function
simt_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size simt_switch, . - simt_switch
)");

void make_fiber(Fiber &fiber, void (*body)()) {
    if (!fiber.stack) take_stack(fiber);
    clean(fiber);
    first_call = body;
    void **top = reinterpret_cast<void **>(fiber.stack + stack_bytes);
    top[-1] = nullptr;
    top[-2] = reinterpret_cast<void *>(enter);
    for (int at = 3; at <= 8; at++) top[-at] = nullptr;
    fiber.stack_pointer = top - 8;
}

void switch_fiber(Fiber &from, Fiber &to, bool from_ends) {
    if (from_ends) from.left_open = false;
    leaving(from, to, from_ends);
    first_fiber = &to;
    simt_switch(&from.stack_pointer, to.stack_pointer);
    arrived(from);
}

#else

}  // namespace soft

#include <ucontext.h>

namespace soft {

void make_fiber(Fiber &fiber, void (*body)()) {
    if (!fiber.stack) take_stack(fiber);
    clean(fiber);
    if (!fiber.stack_pointer) fiber.stack_pointer = new ucontext_t;
    first_call = body;
    ucontext_t &context = *static_cast<ucontext_t *>(fiber.stack_pointer);
    getcontext(&context);
    context.uc_stack.ss_sp = fiber.stack;
    context.uc_stack.ss_size = stack_bytes;
    context.uc_link = nullptr;
    makecontext(&context, enter, 0);
}

void switch_fiber(Fiber &from, Fiber &to, bool from_ends) {
    if (from_ends) from.left_open = false;
    leaving(from, to, from_ends);
    first_fiber = &to;
    if (!from.stack_pointer) from.stack_pointer = new ucontext_t;
    swapcontext(static_cast<ucontext_t *>(from.stack_pointer), static_cast<ucontext_t *>(to.stack_pointer));
    arrived(from);
}

#endif

}  // namespace soft
