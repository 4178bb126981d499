//! Callbacks that are told what becomes of queued rows.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use super::callback::{UserData, koshi_drop_fn, outside};
use super::channel::{koshi_channel, object};
use super::config::{self, Grows};
use super::error::{koshi_error, koshi_status, line, status};
use super::guard;
use crate::decoder::Listener;
use crate::error::{Error, Result};

/// What a channel tells of its queued rows (koshi_channel_submit). Any of them may be NULL. All run on one
/// thread of the decoder's, which does nothing else: one at a time for all channels of a decoder, so a slow
/// one holds up the others. It holds up no search: rows are searched while new words wait to be told, and what
/// is new then is told at once, so a slow listener gets fewer partials. Behind an end point, and during a
/// callback, its channel is not searched: what the callback asks is what it was told of.
///
/// Calls on the channel work from inside, also koshi_channel_submit, _finish, _begin, _cancel, _free and
/// _set_listener; koshi_channel_wait, on any channel of the decoder, answers KOSHI_E_BUSY. As another thread
/// frees the channel, its handle is dead before the callback has returned: calls from inside then answer
/// KOSHI_E_HANDLE (-1, NaN or NULL where there is no status), which is no fault of the listener's, and what it
/// has fetched stays valid. A callback must not wait for a thread that frees the channel or its decoder or
/// replaces the listener: that one may wait for the callback, and neither would ever end.
///
/// They come in the order below. Either finished or failed comes exactly once an utterance, as the last of
/// its events; neither for one that begin has cut short. What koshi_channel_push does is not told.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_channel_listener {
    /// sizeof this struct.
    pub struct_size: u32,
    /// Must be 0.
    pub reserved: u32,
    /// The words of koshi_channel_partial are others than they were; a new segment begins with none.
    pub partial: Option<unsafe extern "C" fn(user_data: *mut c_void, channel: *mut koshi_channel)>,
    /// An end point was found. Rows behind one that stops a push or closes a segment are not searched yet;
    /// of a closed segment the last words are not told as a partial, koshi_channel_segment has them.
    pub endpoint: Option<unsafe extern "C" fn(user_data: *mut c_void, channel: *mut koshi_channel)>,
    /// All rows are searched and the channel is finished.
    pub finished: Option<unsafe extern "C" fn(user_data: *mut c_void, channel: *mut koshi_channel)>,
    /// The utterance stopped before its end; `status` and `message`, which is valid for the call only, say
    /// why. What came before can be fetched.
    pub failed: Option<
        unsafe extern "C" fn(
            user_data: *mut c_void,
            channel: *mut koshi_channel,
            status: koshi_status,
            message: *const c_char,
        ),
    >,
}

const _: () = assert!(size_of::<koshi_channel_listener>() == koshi_channel_listener::FIRST_SIZE);

// SAFETY: two numbers of 4 bytes, then pointers of 8; a function pointer may hold anything.
unsafe impl Grows for koshi_channel_listener {
    const NAME: &'static str = "koshi_channel_listener";
    const FIRST_SIZE: usize = 40;

    fn defaults() -> koshi_channel_listener {
        koshi_channel_listener {
            struct_size: Self::FIRST_SIZE as u32,
            reserved: 0,
            partial: None,
            endpoint: None,
            finished: None,
            failed: None,
        }
    }
}

/// A listener that was set, for the handle that it was set on.
struct Callbacks {
    functions: koshi_channel_listener,
    channel: usize,
    user_data: UserData,
}

impl Callbacks {
    fn tell(&self, function: Option<unsafe extern "C" fn(*mut c_void, *mut koshi_channel)>) {
        if let Some(function) = function {
            // SAFETY: the caller gave this function for this data.
            outside(|| unsafe { function(self.user_data.pointer(), std::ptr::without_provenance_mut(self.channel)) });
        }
    }
}

impl Listener for Callbacks {
    fn wants_partial(&self) -> bool {
        self.functions.partial.is_some()
    }

    fn partial(&self) {
        self.tell(self.functions.partial);
    }

    fn endpoint(&self) {
        self.tell(self.functions.endpoint);
    }

    fn finished(&self) {
        self.tell(self.functions.finished);
    }

    fn failed(&self, error: &Error) {
        let Some(function) = self.functions.failed else { return };
        let (status, message) = (status(error), line(&error.chain()));
        let (user_data, channel) = (self.user_data.pointer(), std::ptr::without_provenance_mut(self.channel));
        // SAFETY: the caller gave this function for this data; the text outlives the call.
        outside(|| unsafe { function(user_data, channel, status, message.as_ptr()) });
    }
}

/// Tells `listener`, which is copied, in place of the one set before; NULL: nobody. `drop` runs once when
/// `user_data` is no longer used, also when this call fails. May be called at any time from any thread;
/// returns when no callback of the one set before runs any more and its data is dropped, and no further one
/// follows. From inside a callback, of a listener or of a decodable, it returns at once; the data is then
/// dropped when the callback that runs has returned. koshi_channel_free does the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_set_listener(
    channel: *mut koshi_channel,
    listener: *const koshi_channel_listener,
    user_data: *mut c_void,
    drop: koshi_drop_fn,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let user_data = UserData::new(user_data, drop);
        let object = object(channel)?;
        if listener.is_null() {
            return object.channel.set_listener(None);
        }
        // SAFETY: the header's promise on structs.
        let functions = unsafe { config::read(listener, "listener") }?;
        config::reserved(functions.reserved, "listener")?;
        let callbacks = Callbacks { functions, channel: channel.addr(), user_data };
        object.channel.set_listener(Some(Arc::new(callbacks) as Arc<dyn Listener>)) as Result<()>
    })
}
