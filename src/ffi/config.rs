//! Structs that grow: the one rule by which programs and libraries of different ages agree.
//!
//! A struct begins with its size. Fields are 4 or 8 bytes, only ever appended, without
//! padding, so the version of a struct is its size. An older caller's missing tail means the
//! behaviour from before those fields; a newer caller's unknown tail must be zero.

use std::mem::MaybeUninit;
use std::ptr;

use super::arg;
use crate::error::{Error, Result};

/// Larger sizes are taken for garbage: no struct of ours comes near.
const MAX_SIZE: usize = 1 << 16;

/// A struct of the C face that begins with `struct_size: u32`.
///
/// # Safety
/// The type is `repr(C)`, has no padding, and every value that a C program can store in its
/// fields is a valid one (so: numbers, pointers, optional function pointers).
pub(super) unsafe trait Grows: Copy {
    /// Name of the C type.
    const NAME: &'static str;
    /// Size of the struct in its first version.
    const FIRST_SIZE: usize;

    /// What the struct's init function writes.
    fn defaults() -> Self;

    /// What fields mean that a caller does not know of: the behaviour from before them.
    fn before() -> Self {
        Self::defaults()
    }
}

fn check_size<T: Grows>(size: usize) -> Result<()> {
    if size < T::FIRST_SIZE || size > MAX_SIZE || !size.is_multiple_of(align_of::<T>()) {
        return Err(Error::Argument(format!(
            "{}: {size} is not a size that this struct ever had (now {}); pass sizeof",
            T::NAME,
            size_of::<T>()
        )));
    }
    Ok(())
}

/// Writes `value` over the caller's struct of `size` bytes: fields that the caller does not
/// know are left out, bytes that the library does not know become zero.
unsafe fn write<T: Grows>(target: *mut T, size: usize, value: &T, struct_size: usize) {
    let known = size.min(size_of::<T>());
    let bytes = target.cast::<u8>();
    // SAFETY: the caller of `init` and `fill` promises `size` writable bytes at `target`;
    // `value` has no padding, so all its bytes are initialised. The first field is `struct_size`.
    unsafe {
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), bytes, known);
        ptr::write_bytes(bytes.add(known), 0, size - known);
        bytes.cast::<u32>().write(struct_size as u32);
    }
}

/// Fills a caller's config struct with the defaults; its `struct_size` becomes `size`.
///
/// # Safety
/// `target` is null or points to `size` writable bytes.
pub(super) unsafe fn init<T: Grows>(target: *mut T, size: usize, argument: &str) -> Result<()> {
    arg::aligned(target, argument)?;
    check_size::<T>(size)?;
    // SAFETY: by this function's own promise.
    unsafe { write(target, size, &T::defaults(), size) };
    Ok(())
}

/// A caller's output struct of `size` bytes, checked and written last.
pub(super) struct OutStruct<T> {
    target: *mut T,
    size: usize,
}

/// Checks a caller's output struct before the work begins.
///
/// # Safety
/// `target` is null or points to `size` writable bytes until the call returns.
pub(super) unsafe fn out<T: Grows>(target: *mut T, size: usize, argument: &str) -> Result<OutStruct<T>> {
    arg::aligned(target, argument)?;
    check_size::<T>(size)?;
    Ok(OutStruct { target, size })
}

impl<T: Grows> OutStruct<T> {
    /// Hands the result over. `struct_size` tells the caller how many bytes were filled.
    pub(super) fn set(self, value: &T) {
        // SAFETY: by the promise of `out`.
        unsafe { write(self.target, self.size, value, self.size.min(size_of::<T>())) };
    }
}

/// Reads a caller's config struct of whatever age.
///
/// # Safety
/// `source` is null or points to the `struct_size` bytes that its first field tells.
pub(super) unsafe fn read<T: Grows>(source: *const T, argument: &str) -> Result<T> {
    arg::aligned(source, argument)?;
    // SAFETY: not null, aligned; the first field is there by this function's own promise.
    let size = unsafe { source.cast::<u32>().read() } as usize;
    check_size::<T>(size)?;
    let known = size.min(size_of::<T>());
    let mut value = MaybeUninit::new(T::before());
    let bytes = source.cast::<u8>();
    // SAFETY: `size` bytes can be read by this function's own promise; any bytes are a valid
    // `T` by the promise of `Grows`, and those not copied stay those of `before`.
    let (value, tail) = unsafe {
        ptr::copy_nonoverlapping(bytes, value.as_mut_ptr().cast::<u8>(), known);
        (value.assume_init(), std::slice::from_raw_parts(bytes.add(known), size - known))
    };
    match tail.iter().position(|byte| *byte != 0) {
        None => Ok(value),
        Some(at) => Err(Error::Unsupported(format!(
            "{argument}: byte {} of {} is set, but this version knows only its first {} bytes",
            known + at,
            T::NAME,
            size_of::<T>()
        ))),
    }
}

/// As [`read`]; null means the defaults.
///
/// # Safety
/// As for [`read`].
pub(super) unsafe fn read_optional<T: Grows>(source: *const T, argument: &str) -> Result<T> {
    if source.is_null() {
        return Ok(T::defaults());
    }
    // SAFETY: the same promise.
    unsafe { read(source, argument) }
}

/// Refuses a reserved field that is not zero, so that it can be given a meaning later.
pub(super) fn reserved(value: u32, argument: &str) -> Result<()> {
    if value == 0 { Ok(()) } else { Err(Error::Unsupported(format!("{argument}: reserved must be 0, and is {value}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The struct as a later version knows it: two fields came, of which one is not at its
    /// old behaviour by default.
    #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C)]
    struct Newer {
        struct_size: u32,
        beam: f32,
        frames: u64,
        exact: u32,
        rounds: u32,
    }

    #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C)]
    struct Older {
        struct_size: u32,
        beam: f32,
        frames: u64,
    }

    // SAFETY: Pod says that there is no padding and that any bytes will do.
    unsafe impl Grows for Newer {
        const NAME: &'static str = "koshi_thing";
        const FIRST_SIZE: usize = size_of::<Older>();
        fn defaults() -> Newer {
            Newer { struct_size: size_of::<Newer>() as u32, beam: 15.0, frames: 9, exact: 1, rounds: 3 }
        }
        fn before() -> Newer {
            Newer { exact: 0, ..Newer::defaults() }
        }
    }

    // SAFETY: as above.
    unsafe impl Grows for Older {
        const NAME: &'static str = "koshi_thing";
        const FIRST_SIZE: usize = size_of::<Older>();
        fn defaults() -> Older {
            Older { struct_size: size_of::<Older>() as u32, beam: 15.0, frames: 9 }
        }
    }

    fn older() -> Older {
        Older { struct_size: 16, beam: 7.0, frames: 5 }
    }

    fn newer() -> Newer {
        Newer { struct_size: 24, beam: 7.0, frames: 5, exact: 0, rounds: 0 }
    }

    #[test]
    fn caller_and_library_of_one_age() {
        let mut thing = newer();
        // SAFETY: a local of the size given.
        unsafe { init(&raw mut thing, 24, "thing").unwrap() };
        assert_eq!(thing, Newer::defaults());
        thing.rounds = 8;
        // SAFETY: as above.
        assert_eq!(unsafe { read(&raw const thing, "thing") }.unwrap(), thing);
    }

    #[test]
    fn an_older_caller_gets_the_behaviour_that_it_knows() {
        let thing = older();
        // SAFETY: the size field says how much there is.
        let read = unsafe { read((&raw const thing).cast::<Newer>(), "thing") }.unwrap();
        assert_eq!(read, Newer { struct_size: 16, beam: 7.0, frames: 5, exact: 0, rounds: 3 });
        let mut room = [older(), older()];
        // SAFETY: `size` bytes are there.
        unsafe { init(room.as_mut_ptr().cast::<Newer>(), 16, "thing").unwrap() };
        assert_eq!(room, [Older { struct_size: 16, beam: 15.0, frames: 9 }, older()], "nothing behind is touched");
    }

    #[test]
    fn a_newer_callers_tail_must_be_zero() {
        let mut thing = newer();
        // SAFETY: the size field says how much there is.
        let read_older = |thing: &Newer| unsafe { read(ptr::from_ref(thing).cast::<Older>(), "thing") };
        assert_eq!(read_older(&thing).unwrap(), Older { struct_size: 24, beam: 7.0, frames: 5 });
        thing.rounds = 1 << 16;
        match read_older(&thing) {
            Err(Error::Unsupported(message)) => assert!(message.contains("byte 22"), "{message}"),
            other => panic!("{other:?}"),
        }
        // SAFETY: `size` bytes are there.
        unsafe { init((&raw mut thing).cast::<Older>(), 24, "thing").unwrap() };
        assert_eq!(thing, Newer { struct_size: 24, beam: 15.0, frames: 9, exact: 0, rounds: 0 });
    }

    #[test]
    fn outputs_are_filled_to_the_callers_size() {
        let value = Newer { struct_size: 0, beam: 1.0, frames: 2, exact: 3, rounds: 4 };
        let mut room = [older(), older()];
        // SAFETY: `size` bytes are there.
        unsafe { out(room.as_mut_ptr().cast::<Newer>(), 16, "thing") }.unwrap().set(&value);
        assert_eq!(room, [Older { struct_size: 16, beam: 1.0, frames: 2 }, older()]);
        let mut thing = newer();
        thing.exact = 99;
        // SAFETY: `size` bytes are there.
        unsafe { out((&raw mut thing).cast::<Older>(), 24, "thing") }.unwrap().set(&older());
        assert_eq!(thing, Newer { struct_size: 16, beam: 7.0, frames: 5, exact: 0, rounds: 0 });
    }

    #[test]
    fn garbage_is_refused_before_it_is_believed() {
        let mut thing = newer();
        for size in [0, 4, 15, 17, 20, 1 << 20, u32::MAX] {
            thing.struct_size = size;
            // SAFETY: such sizes are refused before they are used.
            assert!(matches!(unsafe { read(&raw const thing, "thing") }, Err(Error::Argument(_))), "{size}");
            // SAFETY: as above.
            let result = unsafe { init(&raw mut thing, size as usize, "thing") };
            assert!(matches!(result, Err(Error::Argument(_))), "{size}");
        }
        // SAFETY: refused.
        unsafe {
            assert!(read::<Newer>(ptr::null(), "thing").is_err());
            assert!(init::<Newer>(ptr::null_mut(), 24, "thing").is_err());
            assert!(out::<Newer>(ptr::null_mut(), 24, "thing").is_err());
            assert!(read((&raw const thing).wrapping_byte_add(2), "thing").is_err());
            assert_eq!(read_optional::<Newer>(ptr::null(), "thing").unwrap(), Newer::defaults());
        }
    }
}
