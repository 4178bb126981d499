//! The floating-point environment of a thread. A host may have set flush-to-zero, denormals
//! as zero, another rounding mode or unmasked exceptions; the search is defined under the
//! default environment, so it is set on entry and the caller's is put back on the way out.

/// Puts the caller's environment back when dropped.
#[derive(Debug)]
pub struct DefaultEnvironment {
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    saved: u64,
}

impl DefaultEnvironment {
    /// Sets round-to-nearest, gradual underflow and masked exceptions.
    #[inline]
    pub fn enter() -> DefaultEnvironment {
        let saved = read();
        write(DEFAULT);
        DefaultEnvironment { saved }
    }
}

impl Drop for DefaultEnvironment {
    #[inline]
    fn drop(&mut self) {
        write(self.saved);
    }
}

#[cfg(target_arch = "x86_64")]
const DEFAULT: u64 = 0x1f80; // MXCSR: exceptions masked, round to nearest, no FTZ, no DAZ

#[cfg(target_arch = "x86_64")]
#[inline]
fn read() -> u64 {
    let mut mxcsr = 0u32;
    // SAFETY: stores the 32-bit MXCSR to a local of that size; nothing else is touched.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut mxcsr, options(nostack, preserves_flags)) };
    u64::from(mxcsr)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn write(value: u64) {
    let mxcsr = value as u32;
    // SAFETY: loads a value that is either the architecture's default or one read before, so
    // no reserved bit is set.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &mxcsr, options(nostack, preserves_flags)) };
}

#[cfg(target_arch = "aarch64")]
const DEFAULT: u64 = 0; // FPCR: round to nearest, no flush to zero, exceptions untrapped

#[cfg(target_arch = "aarch64")]
#[inline]
fn read() -> u64 {
    let fpcr: u64;
    // SAFETY: reads a register that user code may read.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags)) };
    fpcr
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn write(value: u64) {
    // SAFETY: writes the default or a value read before.
    unsafe { std::arch::asm!("msr fpcr, {}", in(reg) value, options(nomem, nostack, preserves_flags)) };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const DEFAULT: u64 = 0;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn read() -> u64 {
    0
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn write(_value: u64) {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn flush_to_zero_is_off_inside_and_back_outside() {
        const FTZ_DAZ_UPWARD: u64 = 0x1f80 | 1 << 15 | 1 << 6 | 2 << 13;
        let before = read();
        write(FTZ_DAZ_UPWARD);
        let halved = {
            let _inside = DefaultEnvironment::enter();
            std::hint::black_box(f32::MIN_POSITIVE) * std::hint::black_box(0.5)
        };
        let after = read() & 0xffc0; // the low bits are sticky flags
        write(before);
        assert!(halved > 0.0);
        assert_eq!(after, FTZ_DAZ_UPWARD & 0xffc0);
    }
}
