//! The place where readers hand examples to trainers.

use super::arg;
use super::egs_example::koshi_example;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::registry::{self, Kind, Opaque};
use crate::egs::{Refusal, Repository};
use crate::error::{Error, Result, try_reserve};

/// A bounded place where some threads leave examples and others fetch them (Kaldi's
/// ExamplesRepository of nnet2, for any number of threads on both sides). Its calls may run together.
pub struct koshi_examples_repository {
    _opaque: (),
}

impl Opaque for koshi_examples_repository {
    type Object = Repository<Passed>;
    const KIND: Kind = Kind::ExamplesRepository;
}

/// The handle of an example on its way, as a number; freed if nobody fetches it.
pub struct Passed(usize);

impl Drop for Passed {
    fn drop(&mut self) {
        // A caller that wrongly freed it before has only itself to blame.
        let _ = registry::free::<koshi_example>(std::ptr::without_provenance(self.0), "example");
    }
}

impl Passed {
    fn into_handle(self) -> *mut koshi_example {
        let handle = std::ptr::without_provenance_mut(self.0);
        std::mem::forget(self);
        handle
    }
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Done => Error::State("the repository accepts nothing more: it was said that all is done".into()),
        Refusal::Cancelled => Error::Cancelled,
        Refusal::NoMemory => Error::NoMemory { what: "examples of a repository".into(), asked: 0 },
    }
}

/// Makes an empty repository, in *repository, that holds up to `capacity` examples. More at once are
/// accepted when it is empty, so with capacity 0 it never holds more than what one call brought, as
/// Kaldi's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_examples_repository_new(
    capacity: usize,
    repository: *mut *mut koshi_examples_repository,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(repository, "repository") }?;
        out.set(registry::insert(Repository::new(capacity))?);
        Ok(())
    })
}

/// Two who fetch the same example would free it under each other's hands.
fn different(handles: &[*mut koshi_example]) -> Result<()> {
    let mut sorted = arg::copy(handles, "examples of a repository")?;
    sorted.sort_unstable();
    match sorted.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(Error::Argument(format!("examples: {:p} is there twice", two[0]))),
        None => Ok(()),
    }
}

/// Hands the `count` examples over; waits as long as there is no room for all of them. They then belong to
/// the repository and after that to whoever fetches them: do not free them. After an error all of them are
/// still the caller's. KOSHI_E_ARGUMENT if one is given twice, KOSHI_E_STATE after
/// koshi_examples_repository_done, KOSHI_E_CANCELLED after koshi_examples_repository_cancel or when the
/// repository is freed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_examples_repository_accept(
    repository: *const koshi_examples_repository,
    examples: *const *mut koshi_example,
    count: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let repository = registry::get(repository, "repository")?;
        // SAFETY: the header's promise on arrays.
        let handles = unsafe { arg::array(examples, count, "examples") }?;
        for (at, &handle) in handles.iter().enumerate() {
            registry::get(handle, &format!("examples[{at}]")).map(drop)?;
        }
        different(handles)?;
        let mut batch = Vec::new();
        try_reserve(&mut batch, handles.len(), "examples of a repository")?;
        batch.extend(handles.iter().map(|&handle| Passed(handle.addr())));
        let accepted = repository.accept(&mut batch);
        // What is left was not taken over.
        batch.into_iter().for_each(std::mem::forget);
        accepted.map_err(refused)
    })
}

/// Says that nothing more will come. What is there can still be fetched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_examples_repository_done(
    repository: *const koshi_examples_repository,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        registry::get(repository, "repository")?.done();
        Ok(())
    })
}

/// Ends everything: all who wait, on either side, get KOSHI_E_CANCELLED, and examples that nobody has
/// fetched are freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_examples_repository_cancel(
    repository: *const koshi_examples_repository,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        registry::get(repository, "repository")?.cancel();
        Ok(())
    })
}

/// Fetches examples, at least one and up to `most`, into the array at `examples`, and their number into
/// *count; waits as long as there is none. They are the caller's to free. *count is 0 once
/// koshi_examples_repository_done was called and all were fetched. Each example is given once, in the
/// order of acceptance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_examples_repository_provide(
    repository: *const koshi_examples_repository,
    examples: *mut *mut koshi_example,
    most: usize,
    count: *mut usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let repository = registry::get(repository, "repository")?;
        if most == 0 {
            return Err(Error::Argument("most is 0; there must be room for an example".into()));
        }
        arg::aligned(examples, "examples")?;
        // SAFETY: the header's promise on results.
        let count = unsafe { arg::out(count, "count") }?;
        let fetched = repository.provide(most).map_err(refused)?;
        count.set(fetched.len());
        for (at, passed) in fetched.into_iter().enumerate() {
            // SAFETY: the caller promises room for `most`, and no more were fetched.
            unsafe { examples.add(at).write(passed.into_handle()) };
        }
        Ok(())
    })
}

/// Frees a repository with the examples in it; who waits gets KOSHI_E_CANCELLED. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_examples_repository_free(repository: *mut koshi_examples_repository) -> koshi_status {
    guard::free(|| {
        let freed = registry::free(repository, "repository")?;
        if let Some(repository) = &freed {
            repository.cancel();
        }
        Ok(freed)
    })
}
