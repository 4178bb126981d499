#!/usr/bin/env python3
"""Decodes log-likelihoods that are NumPy arrays, through Koshi's C interface: words with times and confidences.

    decode.py [--threads=N] trans.mdl HCLG.fst words.txt word_boundary.int ark:loglikes.ark

prints an object of JSON a line for each utterance of a table. The library is found beside a build of this repository
(target/release), by the variable KOSHI_LIBRARY, or where the system looks for libraries.

As a module:

    decoder = decode.Decoder("trans.mdl", "HCLG.fst", "words.txt", "word_boundary.int", acoustic_scale=1 / 12)
    result = decoder.decode(rows)               # frames x pdfs, float32; of a torch tensor: tensor.cpu().numpy()
    result["words"], result["alternatives"]     # as koshi_words_to_json and koshi_paths_to_json say

    channel = decoder.channel()                 # a live line
    channel.begin()
    channel.push(rows)
    channel.partial()                           # words up to now, and how many of them will stay
    channel.finish()
    channel.result()

Calls leave the interpreter's lock alone, so threads search side by side, each with a channel of its own. Failures are
exceptions of the class KoshiError. Nothing but NumPy is needed.
"""

import collections
import ctypes
import json
import os
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np

HANDLE, TEXT, INT, SIZE, FLOAT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_size_t, ctypes.c_float
PLACE = ctypes.POINTER(HANDLE)


class DecoderConfig(ctypes.Structure):
    """koshi_decoder_config."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("backend", ctypes.c_int32),
        ("device", ctypes.c_uint32),
        ("beam", ctypes.c_float),
        ("lattice_beam", ctypes.c_float),
        ("max_active", ctypes.c_uint32),
        ("min_active", ctypes.c_uint32),
        ("beam_delta", ctypes.c_float),
        ("acoustic_scale", ctypes.c_float),
        ("link_budget", ctypes.c_uint32),
        ("num_lanes", ctypes.c_uint32),
        ("num_threads", ctypes.c_uint32),
        ("max_channels", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("frame_shift", ctypes.c_double),
        ("max_frames", ctypes.c_uint64),
        ("candidate_capacity", ctypes.c_uint64),
        ("token_capacity", ctypes.c_uint64),
        ("link_capacity", ctypes.c_uint64),
        ("memory_limit", ctypes.c_uint64),
        ("queue_frames", ctypes.c_uint32),
        ("chunk_frames", ctypes.c_uint32),
        ("max_batch_wait", ctypes.c_double),
    ]


class Phrase(ctypes.Structure):
    """koshi_phrase."""

    _fields_ = [
        ("labels", ctypes.POINTER(ctypes.c_int32)),
        ("len", ctypes.c_size_t),
        ("bonus", ctypes.c_float),
        ("reserved", ctypes.c_uint32),
    ]


class KoshiError(Exception):
    """A call that failed: the status's name and the message, which names file and byte, frame and column, or argument."""


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    built = os.path.join(here, "..", "target", "release", "libkoshi.so")
    name = os.environ.get("KOSHI_LIBRARY") or (built if os.path.exists(built) else "libkoshi.so.0")
    library = ctypes.CDLL(name)
    # ctypes takes what is not declared for an int, and cuts handles in half.
    for function, result, *arguments in [
        ("koshi_status_name", TEXT, INT),
        ("koshi_error_message", TEXT, HANDLE),
        ("koshi_error_free", INT, HANDLE),
        ("koshi_transitions_read", INT, TEXT, PLACE, PLACE),
        ("koshi_transitions_free", INT, HANDLE),
        ("koshi_graph_read", INT, TEXT, HANDLE, PLACE, PLACE),
        ("koshi_graph_free", INT, HANDLE),
        ("koshi_symbols_read", INT, TEXT, PLACE, PLACE),
        ("koshi_symbols_find", INT, HANDLE, TEXT),
        ("koshi_symbols_free", INT, HANDLE),
        ("koshi_word_boundary_read", INT, TEXT, PLACE, PLACE),
        ("koshi_word_boundary_free", INT, HANDLE),
        ("koshi_decoder_config_init", INT, ctypes.POINTER(DecoderConfig), SIZE, PLACE),
        ("koshi_decoder_new", INT, HANDLE, ctypes.POINTER(DecoderConfig), PLACE, PLACE),
        ("koshi_decoder_free", INT, HANDLE),
        ("koshi_channel_new", INT, HANDLE, PLACE, PLACE),
        ("koshi_channel_begin", INT, HANDLE, PLACE),
        ("koshi_channel_push", INT, HANDLE, HANDLE, SIZE, SIZE, SIZE, PLACE),
        ("koshi_channel_finish", INT, HANDLE, PLACE),
        ("koshi_channel_partial", INT, HANDLE, PLACE, ctypes.POINTER(SIZE), PLACE),
        ("koshi_channel_set_bias", INT, HANDLE, ctypes.POINTER(Phrase), SIZE, PLACE),
        ("koshi_channel_lattice", INT, HANDLE, INT, PLACE, PLACE),
        ("koshi_channel_free", INT, HANDLE),
        ("koshi_path_text", INT, HANDLE, HANDLE, TEXT, SIZE, ctypes.POINTER(SIZE), PLACE),
        ("koshi_path_free", INT, HANDLE),
        ("koshi_lattice_determinize", INT, HANDLE, HANDLE, HANDLE, PLACE, ctypes.POINTER(FLOAT), PLACE),
        ("koshi_lattice_align_words", INT, HANDLE, HANDLE, HANDLE, HANDLE, PLACE, ctypes.POINTER(INT), PLACE),
        ("koshi_lattice_nbest", INT, HANDLE, SIZE, FLOAT, PLACE, PLACE),
        ("koshi_lattice_words", INT, HANDLE, HANDLE, PLACE, PLACE),
        ("koshi_lattice_free", INT, HANDLE),
        ("koshi_paths_to_json", INT, HANDLE, HANDLE, PLACE, PLACE),
        ("koshi_paths_free", INT, HANDLE),
        ("koshi_words_to_json", INT, HANDLE, TEXT, FLOAT, HANDLE, PLACE, PLACE),
        ("koshi_words_free", INT, HANDLE),
        ("koshi_buffer_data", HANDLE, HANDLE),
        ("koshi_buffer_size", ctypes.c_int64, HANDLE),
        ("koshi_buffer_free", INT, HANDLE),
        ("koshi_matrix_reader_open", INT, TEXT, PLACE, PLACE),
        ("koshi_matrix_reader_next", INT, HANDLE, ctypes.POINTER(TEXT), PLACE, PLACE),
        ("koshi_matrix_reader_free", INT, HANDLE),
        ("koshi_matrix_data", ctypes.POINTER(FLOAT), HANDLE, ctypes.POINTER(SIZE), ctypes.POINTER(SIZE)),
        ("koshi_matrix_free", INT, HANDLE),
    ]:
        entry = getattr(library, function)
        entry.restype, entry.argtypes = result, arguments
    return library


_koshi = _load()


def _call(function, *arguments):
    """Calls a function that can fail; its error becomes an exception."""
    err = HANDLE()
    status = function(*arguments, ctypes.byref(err))
    if status < 0:
        message = _koshi.koshi_error_message(err).decode() if err else "no memory for an error object"
        _koshi.koshi_error_free(err)
        raise KoshiError("%s: %s" % (_koshi.koshi_status_name(status).decode(), message))
    return status


class _Object:
    """An object of the library that `function` makes; it is freed with this."""

    def __init__(self, kind, function, *arguments, behind=()):
        place = HANDLE()
        _call(function, *arguments, ctypes.byref(place), *behind)
        self.handle = place.value
        weakref.finalize(self, getattr(_koshi, "koshi_%s_free" % kind), self.handle)


def _json(function, *arguments):
    buffer = _Object("buffer", function, *arguments)
    text = ctypes.string_at(_koshi.koshi_buffer_data(buffer.handle), _koshi.koshi_buffer_size(buffer.handle))
    return json.loads(text)


class Decoder:
    """A graph with its model and words. `options` are fields of koshi_decoder_config."""

    def __init__(self, model, graph, words, boundary=None, **options):
        self.model = _Object("transitions", _koshi.koshi_transitions_read, os.fsencode(model))
        self.words = _Object("symbols", _koshi.koshi_symbols_read, os.fsencode(words))
        self.boundary = boundary and _Object("word_boundary", _koshi.koshi_word_boundary_read, os.fsencode(boundary))
        graph = _Object("graph", _koshi.koshi_graph_read, os.fsencode(graph), self.model.handle)
        self.config = DecoderConfig()
        _call(_koshi.koshi_decoder_config_init, self.config, ctypes.sizeof(self.config))
        for name, value in options.items():
            if not hasattr(self.config, name):
                raise TypeError("koshi_decoder_config has no field " + name)
            setattr(self.config, name, value)
        self._decoder = _Object("decoder", _koshi.koshi_decoder_new, graph.handle, self.config)

    def channel(self):
        return Channel(self, _Object("channel", _koshi.koshi_channel_new, self._decoder.handle))

    def decode(self, rows, nbest=1):
        """The result of a whole utterance."""
        channel = self.channel()
        channel.begin()
        channel.push(rows)
        channel.finish()
        return channel.result(nbest)

    def decode_all(self, entries, threads=1):
        """Keys and results of pairs of key and rows, in their order. So that a table may be larger than memory, no more than
        twice as many utterances as threads are held at a time."""
        waiting = collections.deque()
        with ThreadPoolExecutor(threads) as pool:
            for key, rows in entries:
                waiting.append((key, pool.submit(self.decode, rows)))
                if len(waiting) == 2 * threads:
                    key, result = waiting.popleft()
                    yield key, result.result()
            for key, result in waiting:
                yield key, result.result()


class Channel:
    """One utterance at a time, and one thread at a time."""

    def __init__(self, decoder, channel):
        self._decoder, self._channel = decoder, channel

    def set_phrases(self, phrases):
        """Makes pairs of words and a bonus more likely, as [("has ended", 14.0)]; from the next begin on."""
        raw, kept = (Phrase * len(phrases))(), []
        for place, (text, bonus) in zip(raw, phrases):
            labels = [_koshi.koshi_symbols_find(self._decoder.words.handle, word.encode()) for word in text.split()]
            if min(labels, default=0) < 0:
                raise ValueError("%r: not all words are in the table" % text)
            kept.append((ctypes.c_int32 * len(labels))(*labels))
            place.labels, place.len, place.bonus = kept[-1], len(labels), bonus
        _call(_koshi.koshi_channel_set_bias, self._channel.handle, raw, len(phrases))

    def begin(self):
        _call(_koshi.koshi_channel_begin, self._channel.handle)

    def push(self, rows):
        """Searches rows of log-likelihoods, an array of frames x columns."""
        rows = np.ascontiguousarray(rows, np.float32)
        if rows.ndim != 2:
            raise ValueError("rows have %d dimensions; they are frames x columns" % rows.ndim)
        frames, columns = rows.shape
        _call(_koshi.koshi_channel_push, self._channel.handle, rows.ctypes.data, frames, columns, columns)

    def partial(self):
        """The words up to now, and how many of them will not change any more."""
        stable, size = SIZE(), SIZE()
        path = _Object(
            "path", _koshi.koshi_channel_partial, self._channel.handle, behind=[ctypes.byref(stable)]
        )
        words = self._decoder.words.handle
        _call(_koshi.koshi_path_text, path.handle, words, None, 0, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value + 1)
        _call(_koshi.koshi_path_text, path.handle, words, text, len(text), ctypes.byref(size))
        return text.value.decode(), stable.value

    def finish(self):
        _call(_koshi.koshi_channel_finish, self._channel.handle)

    def result(self, nbest=1):
        """Words with times and confidences, as koshi_words_to_json has them, and the list "alternatives" of the `nbest`
        best paths, as koshi_paths_to_json has them. Times are those of the words where the decoder has a table of word
        boundaries."""
        decoder, words = self._decoder, self._decoder.words.handle
        lattice = _Object("lattice", _koshi.koshi_channel_lattice, self._channel.handle, 1)
        lattice = _Object(
            "lattice", _koshi.koshi_lattice_determinize, lattice.handle, decoder.model.handle, None, behind=[None]
        )
        if decoder.boundary:
            lattice = _Object(
                "lattice", _koshi.koshi_lattice_align_words, lattice.handle, decoder.model.handle,
                decoder.boundary.handle, None, behind=[None],
            )
        # NULL for options: the defaults, at the scale of the search.
        found = _Object("words", _koshi.koshi_lattice_words, lattice.handle, None)
        result = _json(_koshi.koshi_words_to_json, found.handle, None, decoder.config.frame_shift, words)
        paths = _Object("paths", _koshi.koshi_lattice_nbest, lattice.handle, nbest, decoder.config.acoustic_scale)
        result["alternatives"] = _json(_koshi.koshi_paths_to_json, paths.handle, words)["paths"]
        return result


def matrices(rspecifier):
    """Keys and arrays of a table of Kaldi's."""
    reader = _Object("matrix_reader", _koshi.koshi_matrix_reader_open, rspecifier.encode())
    while True:
        key, rows, columns = TEXT(), SIZE(), SIZE()
        matrix = _Object("matrix", _koshi.koshi_matrix_reader_next, reader.handle, ctypes.byref(key))
        if key.value is None:
            return
        data = _koshi.koshi_matrix_data(matrix.handle, ctypes.byref(rows), ctypes.byref(columns))
        shape = rows.value, columns.value
        yield key.value.decode(), np.ctypeslib.as_array(data, shape).copy() if data else np.empty(shape, np.float32)


def main():
    names, threads = sys.argv[1:], 1
    if names and names[0].startswith("--threads="):
        threads = int(names.pop(0).partition("=")[2])
    if len(names) != 5:
        sys.exit(__doc__)
    model, graph, words, boundary, scores = names
    options = {"beam": 13, "lattice_beam": 6, "max_active": 7000, "acoustic_scale": 1 / 12}
    try:
        decoder = Decoder(model, graph, words, boundary, **options)
        for key, result in decoder.decode_all(matrices(scores), threads):
            print(json.dumps({"utterance": key, **result}, ensure_ascii=False))
    except KoshiError as error:
        sys.exit("decode.py: %s" % error)


if __name__ == "__main__":
    main()
