//! The default floating-point environment, for as long as a scope lasts.
//!
//! A host may have set flush-to-zero, another rounding mode or unmasked exceptions.
//! Results must not depend on that, so every entry from C and every worker thread runs
//! inside a [`FloatEnv`]. Only the control register is touched; on processors other than
//! x86-64 and aarch64 nothing is done.

use std::marker::PhantomData;

/// While it lives, this thread rounds to nearest, keeps denormals, and traps nothing.
/// When dropped, also by a panic, what was in force before is put back bit for bit.
#[derive(Debug)]
#[must_use]
pub struct FloatEnv {
    before: Control,
    /// The register belongs to this thread.
    not_send: PhantomData<*const ()>,
}

impl FloatEnv {
    /// Remembers what is in force and sets the default.
    #[inline]
    pub fn enter() -> FloatEnv {
        let before = read();
        if before & CONTROL_BITS != DEFAULT & CONTROL_BITS {
            write(DEFAULT);
        }
        FloatEnv { before, not_send: PhantomData }
    }
}

impl Drop for FloatEnv {
    #[inline]
    fn drop(&mut self) {
        if read() != self.before {
            write(self.before);
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod register {
    use std::arch::asm;

    pub type Control = u32;
    /// All exceptions masked, round to nearest, no flush to zero, denormals are not zero.
    pub const DEFAULT: Control = 0x1f80;
    /// All of MXCSR but the six sticky exception flags.
    pub const CONTROL_BITS: Control = !0x3f;

    #[inline(always)]
    pub fn read() -> Control {
        let mut value = 0u32;
        // SAFETY: stores the 32 bits of MXCSR to a local; changes nothing else.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
        value
    }

    #[inline(always)]
    pub fn write(value: Control) {
        // SAFETY: `value` is the default or was read from MXCSR, so no reserved bit is set.
        // The compiler assumes the default environment; this asm restores it, or hands the
        // host's own back just before the host goes on.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags)) };
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod register {
    use std::arch::asm;

    pub type Control = u64;
    pub const DEFAULT: Control = 0;
    pub const CONTROL_BITS: Control = !0;

    #[inline(always)]
    pub fn read() -> Control {
        let value: u64;
        // SAFETY: reads FPCR; changes nothing.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack, preserves_flags)) };
        value
    }

    #[inline(always)]
    pub fn write(value: Control) {
        // SAFETY: `value` is the default or was read from FPCR. See the x86-64 twin.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }
}

// Miri has the default environment and no registers.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod register {
    pub type Control = u32;
    pub const DEFAULT: Control = 0;
    pub const CONTROL_BITS: Control = 0;

    pub fn read() -> Control {
        0
    }

    pub fn write(_: Control) {}
}

use register::{CONTROL_BITS, Control, DEFAULT, read, write};

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// Flush to zero, denormals are zero, round up; exceptions stay masked.
    const STRANGE: Control = DEFAULT | 1 << 15 | 1 << 6 | 0b10 << 13;

    /// Half of the least normal number: 0 where denormals are flushed.
    fn denormal() -> f32 {
        black_box(f32::MIN_POSITIVE) * black_box(0.5)
    }

    #[test]
    fn denormals_live_inside_and_the_hosts_setting_comes_back() {
        let outside = FloatEnv::enter();
        write(STRANGE);
        let flushed = denormal();
        let kept = {
            let _env = FloatEnv::enter();
            (denormal(), black_box(1.0f32) + black_box(1e-10))
        };
        let after = read();
        drop(outside);
        assert_eq!(flushed, 0.0);
        assert_eq!(kept, (f32::MIN_POSITIVE / 2.0, 1.0));
        assert_eq!(after & CONTROL_BITS, STRANGE & CONTROL_BITS);
    }

    #[test]
    fn a_panic_puts_it_back_too() {
        let outside = FloatEnv::enter();
        write(STRANGE);
        let caught = std::panic::catch_unwind(|| {
            let _env = FloatEnv::enter();
            std::panic::resume_unwind(Box::new(read()));
        });
        let after = read();
        drop(outside);
        let inside = *caught.unwrap_err().downcast::<Control>().unwrap();
        assert_eq!(inside & CONTROL_BITS, DEFAULT & CONTROL_BITS);
        assert_eq!(after & CONTROL_BITS, STRANGE & CONTROL_BITS);
    }
}
