//! Bytes taken for the growing structs of the C face, with any size: refused, or an object that works.
//!
//! The first two bytes are added to `struct_size`, the third says whether numbers are taken from the bytes or left at
//! their defaults, eight at a time.

use std::mem::MaybeUninit;

use koshi::ffi::*;

use super::face::{Alone, DIM, call, free, free_made, graph, make, row};

/// What a program could have in memory: larger than any struct, so that a size that is told too large reads from it.
#[repr(C, align(8))]
struct Room([u8; 1 << 16]);

/// The defaults, and over them the bytes where a bit of the mask is set.
fn filled<T: Copy>(
    bytes: &[u8],
    init: unsafe extern "C" fn(*mut T, usize, *mut *mut koshi_error) -> koshi_status,
) -> Box<Room> {
    let mut room = Box::new(Room([0; 1 << 16]));
    // SAFETY: the room is larger than the struct and aligned to 8.
    assert_eq!(call(|err| unsafe { init(room.0.as_mut_ptr().cast(), size_of::<T>(), err) }), 0);
    let (&[low, high, mask], rest) = bytes.split_first_chunk().unwrap_or((&[0; 3], &[]));
    for (at, word) in rest.chunks(4).enumerate().take(size_of::<T>() / 4) {
        if mask >> (at % 8) & 1 == 1 {
            room.0[4 * at..4 * at + word.len()].copy_from_slice(word);
        }
    }
    let size = if low == 0 { size_of::<T>() as u16 } else { u16::from_le_bytes([low, high]) };
    room.0[..4].copy_from_slice(&u32::from(size).to_le_bytes());
    room
}

pub fn run(bytes: &[u8]) -> bool {
    let alone = Alone::new();
    let taken = decode(bytes);
    alone.end();
    taken
}

fn decode(bytes: &[u8]) -> bool {
    // SAFETY: live handles; structs of the sizes that they tell lie in a room that is larger; places for results.
    unsafe {
        let mut room = filled(bytes, koshi_decoder_config_init);
        let config = room.0.as_mut_ptr().cast::<koshi_decoder_config>();
        // No GPU; and what is merely large is as good as any in small: threads, lanes and memory are taken at once.
        (*config).backend += i32::from((*config).backend == 0) - i32::from((*config).backend == 2);
        (*config).num_threads = (*config).num_threads.min(3) + u32::from((*config).num_threads > 1 << 20) * (1 << 30);
        (*config).num_lanes = (*config).num_lanes.min(5) + u32::from((*config).num_lanes > 1 << 20) * (1 << 30);
        if (*config).max_batch_wait > 0.01 && (*config).max_batch_wait <= 10.0 {
            (*config).max_batch_wait = 0.01; // nobody waits for it here
        }
        if let Some(decoder) = make(|out, err| koshi_decoder_new(graph(), config, out, err)) {
            let mut info = MaybeUninit::<koshi_decoder_summary>::zeroed();
            let size = size_of::<koshi_decoder_summary>();
            assert_eq!(call(|err| koshi_decoder_info(decoder, info.as_mut_ptr(), size, err)), 0);
            if let Some(channel) = make(|out, err| koshi_channel_new(decoder, out, err)) {
                endpoints(bytes, decoder);
                use_of(channel, bytes);
                free(koshi_channel_free, channel);
            }
            free(koshi_decoder_free, decoder);
            return true;
        }
    }
    false
}

unsafe fn endpoints(bytes: &[u8], decoder: *mut koshi_decoder) {
    let room = filled(bytes, koshi_endpoint_config_init);
    let silence = [1, 2];
    // SAFETY: as above.
    unsafe {
        call(|err| koshi_decoder_set_endpoint_rules(decoder, room.0.as_ptr().cast(), silence.as_ptr(), 2, err));
    }
}

unsafe fn use_of(channel: *mut koshi_channel, bytes: &[u8]) {
    let all: Vec<f32> = (0..2).flat_map(row).collect();
    // SAFETY: as above.
    unsafe {
        let room = filled(bytes, koshi_determinize_config_init);
        call(|err| koshi_channel_set_determinize(channel, std::ptr::null(), room.0.as_ptr().cast(), err));
        call(|err| koshi_channel_begin(channel, err));
        call(|err| koshi_channel_push(channel, all.as_ptr(), 2, DIM, DIM, err));
        call(|err| koshi_channel_submit(channel, all.as_ptr(), 2, DIM, DIM, err));
        call(|err| koshi_channel_finish(channel, err));
        call(|err| koshi_channel_wait(channel, -1.0, err));
        let mut beam = 0.0;
        let compact = make(|out, err| koshi_channel_compact_lattice(channel, 1, out, &mut beam, err));
        if let Some(lattice) = make(|out, err| koshi_channel_lattice(channel, 1, out, err)) {
            let again = make(|out, err| {
                koshi_lattice_determinize(lattice, std::ptr::null(), room.0.as_ptr().cast(), out, &mut beam, err)
            });
            free_made(koshi_lattice_free, again);
            let room = filled(bytes, koshi_words_config_init);
            let words = make(|out, err| koshi_lattice_words(lattice, room.0.as_ptr().cast(), out, err));
            free_made(koshi_words_free, words);
            free(koshi_lattice_free, lattice);
        }
        free_made(koshi_lattice_free, compact);
    }
}
