#!/usr/bin/env python3
"""Training examples of Kaldi's nnet2 as NumPy arrays, through Koshi's C interface.

    egs_to_numpy.py [--discriminative] RSPECIFIER [OUTPUT.npz]

prints a line for each example of a table ("ark:egs.1.ark", "scp:egs.scp") and, with an output, saves all their arrays
under "<key>/frames", "<key>/pdfs" and so on. The library is found beside a build of this repository
(target/release), by the variable KOSHI_LIBRARY, or where the system looks for libraries.

As a module:

    for key, example in egs_to_numpy.examples("ark:egs.1.ark"):
        example.frames          # float32, rows x dim: the library's own memory, nothing is copied
        example.pdfs, example.weights, example.offsets

Arrays keep their example alive, so they may be kept as long as they are wanted. Nothing but NumPy is needed.
"""

import ctypes
import os
import sys
import weakref

import numpy as np

NNET, DISCRIMINATIVE = 0, 1


class Label(ctypes.Structure):
    _fields_ = [("pdf", ctypes.c_int32), ("weight", ctypes.c_float)]


class Summary(ctypes.Structure):
    """koshi_example_summary."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("left_context", ctypes.c_int32),
        ("right_context", ctypes.c_int64),
        ("num_frames", ctypes.c_uint64),
        ("num_labels", ctypes.c_uint64),
        ("num_rows", ctypes.c_uint64),
        ("dim", ctypes.c_uint64),
        ("speaker_dim", ctypes.c_uint64),
        ("format", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


class DiscriminativeSummary(ctypes.Structure):
    """koshi_degs_summary."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("weight", ctypes.c_float),
        ("left_context", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("num_frames", ctypes.c_uint64),
        ("num_rows", ctypes.c_uint64),
        ("dim", ctypes.c_uint64),
        ("speaker_dim", ctypes.c_uint64),
    ]


class KoshiError(Exception):
    """A call that failed: the status's name and the message, which names file and byte."""


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    built = os.path.join(here, "..", "target", "release", "libkoshi.so")
    name = os.environ.get("KOSHI_LIBRARY") or (built if os.path.exists(built) else "libkoshi.so.0")
    library = ctypes.CDLL(name)
    handle, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)
    place = ctypes.POINTER(handle)
    for function, result, *arguments in [
        ("koshi_status_name", text, ctypes.c_int32),
        ("koshi_error_message", text, handle),
        ("koshi_error_free", ctypes.c_int32, handle),
        ("koshi_tables_allow_commands", ctypes.c_int32, ctypes.c_int32, place),
        ("koshi_egs_reader_open", ctypes.c_int32, text, ctypes.c_int32, place, place),
        ("koshi_egs_reader_next", ctypes.c_int32, handle, ctypes.POINTER(text), place, place),
        ("koshi_egs_reader_next_degs", ctypes.c_int32, handle, ctypes.POINTER(text), place, place),
        ("koshi_egs_reader_free", ctypes.c_int32, handle),
        ("koshi_example_info", ctypes.c_int32, handle, ctypes.POINTER(Summary), ctypes.c_size_t, place),
        ("koshi_example_frames", ctypes.POINTER(ctypes.c_float), handle, size, size),
        ("koshi_example_labels", ctypes.POINTER(Label), handle, size),
        ("koshi_example_label_offsets", ctypes.POINTER(ctypes.c_uint32), handle, size),
        ("koshi_example_speaker", ctypes.POINTER(ctypes.c_float), handle, size),
        ("koshi_example_free", ctypes.c_int32, handle),
        ("koshi_degs_info", ctypes.c_int32, handle, ctypes.POINTER(DiscriminativeSummary), ctypes.c_size_t, place),
        ("koshi_degs_frames", ctypes.POINTER(ctypes.c_float), handle, size, size),
        ("koshi_degs_alignment", ctypes.POINTER(ctypes.c_int32), handle, size),
        ("koshi_degs_speaker", ctypes.POINTER(ctypes.c_float), handle, size),
        ("koshi_degs_free", ctypes.c_int32, handle),
    ]:
        entry = getattr(library, function)
        entry.restype, entry.argtypes = result, arguments
    return library


_koshi = _load()


def _call(function, *arguments):
    """Calls a function that can fail; its error becomes an exception."""
    err = ctypes.c_void_p()
    status = function(*arguments, ctypes.byref(err))
    if status < 0:
        message = _koshi.koshi_error_message(err).decode() if err else "no memory for an error object"
        _koshi.koshi_error_free(err)
        raise KoshiError("%s: %s" % (_koshi.koshi_status_name(status).decode(), message))
    return status


class _Handle:
    """An object of the library, freed when neither it nor an array of it is used any more."""

    def __init__(self, handle, free):
        self._handle = handle
        self._finalizer = weakref.finalize(self, free, handle)

    def _view(self, query, ctype, dimensions=1):
        """The array that a query hands out, without a copy."""
        sizes = [ctypes.c_size_t() for _ in range(dimensions)]
        pointer = query(self._handle, *(ctypes.byref(size) for size in sizes))
        if not pointer:
            raise MemoryError("the library could not hand out an array")
        count = int(np.prod([size.value for size in sizes]))
        memory = (ctype * count).from_address(ctypes.addressof(pointer.contents)) if count else (ctype * 0)()
        memory.owner = self  # the array's base: it keeps this object alive
        array = np.ctypeslib.as_array(memory)
        array.flags.writeable = False
        return array.reshape([size.value for size in sizes])


class Example(_Handle):
    """Labelled frames with features for them and the frames around them."""

    def __init__(self, handle):
        super().__init__(handle, _koshi.koshi_example_free)
        info = Summary()
        _call(_koshi.koshi_example_info, handle, ctypes.byref(info), ctypes.sizeof(info))
        self.left_context, self.right_context, self.num_frames = info.left_context, info.right_context, info.num_frames
        labels = self._view(_koshi.koshi_example_labels, Label)
        self.pdfs, self.weights = labels["pdf"], labels["weight"]
        # The labels of frame f are those from offsets[f] to offsets[f + 1].
        self.offsets = self._view(_koshi.koshi_example_label_offsets, ctypes.c_uint32)
        self.speaker = self._view(_koshi.koshi_example_speaker, ctypes.c_float)

    @property
    def frames(self):
        """Features, one row a frame; expanded when first asked for."""
        return self._view(_koshi.koshi_example_frames, ctypes.c_float, dimensions=2)

    def arrays(self):
        names = ["frames", "pdfs", "weights", "offsets", "speaker", "left_context"]
        return {name: np.asarray(getattr(self, name)) for name in names}

    def __str__(self):
        return "%d frames, %d labels, input %dx%d, context %d and %d, speaker vector of %d" % (
            (self.num_frames, len(self.pdfs)) + self.frames.shape
            + (self.left_context, self.right_context, len(self.speaker))
        )


class DiscriminativeExample(_Handle):
    """An alignment with features; the lattice stays with the library."""

    def __init__(self, handle):
        super().__init__(handle, _koshi.koshi_degs_free)
        info = DiscriminativeSummary()
        _call(_koshi.koshi_degs_info, handle, ctypes.byref(info), ctypes.sizeof(info))
        self.weight, self.left_context, self.num_frames = info.weight, info.left_context, info.num_frames
        self.alignment = self._view(_koshi.koshi_degs_alignment, ctypes.c_int32)
        self.speaker = self._view(_koshi.koshi_degs_speaker, ctypes.c_float)

    @property
    def frames(self):
        """Features, one row a frame; expanded when first asked for."""
        return self._view(_koshi.koshi_degs_frames, ctypes.c_float, dimensions=2)

    def arrays(self):
        return {name: np.asarray(getattr(self, name)) for name in ["weight", "alignment", "frames", "speaker", "left_context"]}

    def __str__(self):
        return "weight %g, %d frames, input %dx%d, left context %d, speaker vector of %d" % (
            (self.weight, self.num_frames) + self.frames.shape + (self.left_context, len(self.speaker))
        )


def examples(rspecifier, kind=NNET):
    """Gives key and example for each entry of a table, in order."""
    handle, key, example = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_void_p()
    _call(_koshi.koshi_egs_reader_open, rspecifier.encode(), kind, ctypes.byref(handle))
    if kind == NNET:
        following, wrap = _koshi.koshi_egs_reader_next, Example
    else:
        following, wrap = _koshi.koshi_egs_reader_next_degs, DiscriminativeExample
    try:
        while True:
            _call(following, handle, ctypes.byref(key), ctypes.byref(example))
            if not example:
                return
            yield key.value.decode(), wrap(example.value)
    finally:
        _koshi.koshi_egs_reader_free(handle)


def main(arguments):
    kind = NNET
    if arguments and arguments[0] == "--discriminative":
        kind, arguments = DISCRIMINATIVE, arguments[1:]
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    saved = {}
    try:
        _call(_koshi.koshi_tables_allow_commands, 1)
        for key, example in examples(arguments[0], kind):
            print("%s: %s" % (key, example))
            if len(arguments) == 2:
                for name, array in example.arrays().items():
                    saved["%s/%s" % (key, name)] = array.copy()
    except KoshiError as error:
        sys.exit(str(error))
    if len(arguments) == 2:
        np.savez(arguments[1], **saved)


if __name__ == "__main__":
    main(sys.argv[1:])
