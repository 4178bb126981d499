//! Sources of log-likelihoods that a channel pulls from: a matrix of the caller's, or callbacks.

use std::ffi::c_void;

use super::arg;
use super::callback::{Gate, UserData, koshi_drop_fn, outside};
use super::config::{self, Grows};
use super::error::{callback_result, koshi_error, koshi_status};
use super::guard;
use super::registry::{self, Kind, Opaque};
use crate::decoder::{Decodable, Source};
use crate::error::{Error, Result};
use crate::exclusive::Exclusive;
use crate::search::Rows;

/// A source of log-likelihoods for koshi_channel_advance. One call at a time may use it.
pub struct koshi_decodable {
    _opaque: (),
}

impl Opaque for koshi_decodable {
    type Object = Scores;
    const KIND: Kind = Kind::Decodable;
}

/// The callbacks of a decodable. Columns count from 0. All run on the thread that calls
/// koshi_channel_advance, one at a time. A negative answer is a koshi_status of the callback's
/// choice; it ends that call with KOSHI_E_CALLBACK and leaves the channel as it was before the frame.
/// Either of the first two may be NULL; the others must be there.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_decodable_ops {
    /// sizeof this struct.
    pub struct_size: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Writes the log-likelihood of column `index` at `frame` to *out. Used where there is no
    /// frame_log_likelihoods: at most once a column and frame, and only for columns that the search
    /// needs.
    pub log_likelihood:
        Option<unsafe extern "C" fn(user_data: *mut c_void, frame: i64, index: i32, out: *mut f32) -> koshi_status>,
    /// Writes all `dim` log-likelihoods of `frame` to `row`, which is the library's and valid for
    /// the call only. Preferred.
    pub frame_log_likelihoods:
        Option<unsafe extern "C" fn(user_data: *mut c_void, frame: i64, row: *mut f32, dim: usize) -> koshi_status>,
    /// Answers how many frames can be asked for now. Never falls.
    pub num_frames_ready: Option<unsafe extern "C" fn(user_data: *mut c_void) -> i64>,
    /// Answers 1 if `frame` is the last of the utterance, else 0.
    pub is_last_frame: Option<unsafe extern "C" fn(user_data: *mut c_void, frame: i64) -> i32>,
    /// Answers the number of columns. Asked once a call of koshi_channel_advance. More than 2^24 are
    /// KOSHI_E_LIMIT, unless the graph reads as many.
    pub num_indices: Option<unsafe extern "C" fn(user_data: *mut c_void) -> i32>,
}

const _: () = assert!(size_of::<koshi_decodable_ops>() == koshi_decodable_ops::FIRST_SIZE);

// SAFETY: two numbers of 4 bytes, then pointers of 8; a function pointer may hold anything.
unsafe impl Grows for koshi_decodable_ops {
    const NAME: &'static str = "koshi_decodable_ops";
    const FIRST_SIZE: usize = 48;

    fn defaults() -> koshi_decodable_ops {
        koshi_decodable_ops {
            struct_size: Self::FIRST_SIZE as u32,
            reserved: 0,
            log_likelihood: None,
            frame_log_likelihoods: None,
            num_frames_ready: None,
            is_last_frame: None,
            num_indices: None,
        }
    }
}

/// What a `koshi_decodable` stands for.
pub struct Scores {
    source: Exclusive<Scored>,
    /// Closed by the free function, which waits for whoever is inside.
    gate: Gate,
}

/// Where the scores come from.
enum Scored {
    Matrix(Matrix),
    Callbacks(Callbacks),
}

impl Scores {
    fn new(source: Scored) -> Scores {
        Scores { source: Exclusive::new("koshi_decodable", source), gate: Gate::default() }
    }

    /// Runs `body` with the source, for it alone.
    pub(super) fn with<T>(&self, body: impl FnOnce(&mut dyn Decodable) -> Result<T>) -> Result<T> {
        let mut source = self.source.write()?;
        let _inside = self.gate.enter().ok_or_else(freed)?;
        match &mut *source {
            Scored::Matrix(matrix) => body(&mut Gated { inner: matrix, gate: &self.gate }),
            Scored::Callbacks(callbacks) => body(&mut Gated { inner: callbacks, gate: &self.gate }),
        }
    }
}

impl Source for Scores {
    fn with(&self, body: &mut dyn FnMut(&mut dyn Decodable) -> Result<()>) -> Result<()> {
        Scores::with(self, body)
    }
}

#[cold]
fn freed() -> Error {
    Error::Handle("the decodable was freed during the call".into())
}

/// Asks the gate before each question, so that after the free function nobody is asked any more.
struct Gated<'a, D> {
    inner: &'a mut D,
    gate: &'a Gate,
}

impl<D> Gated<'_, D> {
    fn open(&mut self) -> Result<&mut D> {
        if self.gate.closed() { Err(freed()) } else { Ok(self.inner) }
    }
}

impl<D: Decodable> Decodable for Gated<'_, D> {
    fn num_columns(&mut self) -> Result<usize> {
        self.open()?.num_columns()
    }

    fn num_frames_ready(&mut self) -> Result<u64> {
        self.open()?.num_frames_ready()
    }

    fn is_last_frame(&mut self, frame: u64) -> Result<bool> {
        self.open()?.is_last_frame(frame)
    }

    fn fills_whole_rows(&self) -> bool {
        self.inner.fills_whole_rows()
    }

    fn fill_row(&mut self, frame: u64, needed: &dyn Fn(&mut [bool]), row: &mut [f32]) -> Result<()> {
        self.open()?.fill_row(frame, needed, row)
    }
}

/// A matrix that the caller lends until the decodable is freed.
struct Matrix {
    rows: *const f32,
    frames: usize,
    dim: usize,
    stride: usize,
}

// SAFETY: the memory is only read, and by the header's promise nobody writes to it meanwhile.
unsafe impl Send for Matrix {}
// SAFETY: as above.
unsafe impl Sync for Matrix {}

impl Decodable for Matrix {
    fn num_columns(&mut self) -> Result<usize> {
        Ok(self.dim)
    }

    fn num_frames_ready(&mut self) -> Result<u64> {
        Ok(self.frames as u64)
    }

    fn is_last_frame(&mut self, frame: u64) -> Result<bool> {
        Ok(frame.checked_add(1) == Some(self.frames as u64))
    }

    fn fills_whole_rows(&self) -> bool {
        true
    }

    fn fill_row(&mut self, frame: u64, _: &dyn Fn(&mut [bool]), row: &mut [f32]) -> Result<()> {
        // SAFETY: checked when the decodable was made, lent until it is freed.
        let rows = unsafe { rows(self.rows, self.frames, self.dim, self.stride) }?;
        let at = usize::try_from(frame).ok().filter(|at| *at < rows.frames() && row.len() == rows.dim());
        let at = at.ok_or_else(|| Error::Argument(format!("the decodable has no frame {frame} of {}", row.len())))?;
        row.copy_from_slice(rows.row(at));
        Ok(())
    }
}

/// Callbacks and their data.
struct Callbacks {
    log_likelihood: Option<unsafe extern "C" fn(*mut c_void, i64, i32, *mut f32) -> koshi_status>,
    frame_log_likelihoods: Option<unsafe extern "C" fn(*mut c_void, i64, *mut f32, usize) -> koshi_status>,
    num_frames_ready: unsafe extern "C" fn(*mut c_void) -> i64,
    is_last_frame: unsafe extern "C" fn(*mut c_void, i64) -> i32,
    num_indices: unsafe extern "C" fn(*mut c_void) -> i32,
    user_data: UserData,
    /// Columns that the search will look at.
    needed: Vec<bool>,
}

impl Callbacks {
    fn new(ops: &koshi_decodable_ops, user_data: UserData) -> Result<Callbacks> {
        config::reserved(ops.reserved, "ops")?;
        let missing = |name: &str| Error::Argument(format!("ops: {name} is NULL"));
        if ops.log_likelihood.is_none() && ops.frame_log_likelihoods.is_none() {
            return Err(missing("log_likelihood as well as frame_log_likelihoods"));
        }
        Ok(Callbacks {
            log_likelihood: ops.log_likelihood,
            frame_log_likelihoods: ops.frame_log_likelihoods,
            num_frames_ready: ops.num_frames_ready.ok_or_else(|| missing("num_frames_ready"))?,
            is_last_frame: ops.is_last_frame.ok_or_else(|| missing("is_last_frame"))?,
            num_indices: ops.num_indices.ok_or_else(|| missing("num_indices"))?,
            user_data,
            needed: Vec::new(),
        })
    }

    fn fill_needed(&mut self, frame: i64, needed: &dyn Fn(&mut [bool]), row: &mut [f32]) -> Result<()> {
        let Some(function) = self.log_likelihood else { return Ok(()) };
        self.needed.clear();
        crate::error::try_reserve(&mut self.needed, row.len(), "needed columns")?;
        self.needed.resize(row.len(), false);
        needed(&mut self.needed);
        let user_data = self.user_data.pointer();
        for (index, value) in row.iter_mut().enumerate().filter(|(index, _)| self.needed[*index]) {
            let index = index as i32;
            // SAFETY: the caller gave this function for this data; `value` is ours.
            let status = outside(|| unsafe { function(user_data, frame, index, value) });
            callback_result("log_likelihood", status)?;
        }
        Ok(())
    }
}

impl Decodable for Callbacks {
    fn num_columns(&mut self) -> Result<usize> {
        // SAFETY: the caller gave this function for this data.
        let count = outside(|| unsafe { (self.num_indices)(self.user_data.pointer()) });
        callback_result("num_indices", count)?;
        Ok(count as usize)
    }

    fn num_frames_ready(&mut self) -> Result<u64> {
        // SAFETY: the caller gave this function for this data.
        let count = outside(|| unsafe { (self.num_frames_ready)(self.user_data.pointer()) });
        let refused = |_| Error::Callback { what: "num_frames_ready".into(), status: count as i32 };
        u64::try_from(count).map_err(refused)
    }

    fn is_last_frame(&mut self, frame: u64) -> Result<bool> {
        // SAFETY: the caller gave this function for this data.
        let answer = outside(|| unsafe { (self.is_last_frame)(self.user_data.pointer(), frame as i64) });
        callback_result("is_last_frame", answer)?;
        Ok(answer != 0)
    }

    fn fills_whole_rows(&self) -> bool {
        self.frame_log_likelihoods.is_some()
    }

    fn fill_row(&mut self, frame: u64, needed: &dyn Fn(&mut [bool]), row: &mut [f32]) -> Result<()> {
        let Some(function) = self.frame_log_likelihoods else {
            return self.fill_needed(frame as i64, needed, row);
        };
        let user_data = self.user_data.pointer();
        // SAFETY: the caller gave this function for this data; `row` is ours, of that length.
        let status = outside(|| unsafe { function(user_data, frame as i64, row.as_mut_ptr(), row.len()) });
        callback_result("frame_log_likelihoods", status)
    }
}

/// A caller's rows: `frames` of `dim` columns, `stride` elements apart.
///
/// # Safety
/// `pointer` is null or points to the `(frames - 1) * stride + dim` elements of such a matrix,
/// which live for `'a` and nobody writes to.
pub(super) unsafe fn rows<'a>(pointer: *const f32, frames: usize, dim: usize, stride: usize) -> Result<Rows<'a>> {
    let elements = Rows::elements(frames, dim, stride)
        .ok_or_else(|| Error::Shape(format!("{frames} rows at stride {stride} are more than memory can hold")))?;
    // SAFETY: by this function's own promise.
    Rows::new(unsafe { arg::array(pointer, elements, "rows") }?, frames, dim, stride)
}

/// Makes a decodable of a matrix of `frames` rows of `dim` log-likelihoods, `stride` elements apart,
/// in *decodable. All frames are ready. The matrix is not copied: it must stay as it is until the
/// decodable is freed. KOSHI_E_SHAPE if `stride` is below `dim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_decodable_from_matrix(
    rows: *const f32,
    frames: usize,
    dim: usize,
    stride: usize,
    decodable: *mut *mut koshi_decodable,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(decodable, "decodable") }?;
        // SAFETY: the header's promise on rows; looked at here only to check shape and alignment.
        unsafe { self::rows(rows, frames, dim, stride) }?;
        out.set(registry::insert(Scores::new(Scored::Matrix(Matrix { rows, frames, dim, stride })))?);
        Ok(())
    })
}

/// Makes a decodable of callbacks, in *decodable. `ops` is copied. `drop` runs once when `user_data`
/// is no longer used: in koshi_decodable_free, or when this call fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_decodable_new(
    ops: *const koshi_decodable_ops,
    user_data: *mut c_void,
    drop: koshi_drop_fn,
    decodable: *mut *mut koshi_decodable,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let user_data = UserData::new(user_data, drop);
        // SAFETY: the header's promises on results and structs.
        let (out, ops) = unsafe { (arg::out(decodable, "decodable")?, config::read(ops, "ops")?) };
        out.set(registry::insert(Scores::new(Scored::Callbacks(Callbacks::new(&ops, user_data)?)))?);
        Ok(())
    })
}

/// Frees `decodable`. Waits until no other thread uses it; a koshi_channel_advance that does ends
/// with KOSHI_E_HANDLE before its next frame. From inside one of its own callbacks it returns at
/// once, and `drop` runs when that koshi_channel_advance ends. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_decodable_free(decodable: *mut koshi_decodable) -> koshi_status {
    guard::free(|| {
        let scores = registry::free(decodable, "decodable")?;
        if let Some(scores) = &scores {
            scores.gate.close();
        }
        Ok(scores)
    })
}
