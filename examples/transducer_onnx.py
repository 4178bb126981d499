#!/usr/bin/env python3
"""Searches a transducer whose networks run in ONNX Runtime, through the C interface.

    pip install onnx onnxruntime numpy
    python3 transducer_onnx.py path/to/libkoshi.so

The script exports a small recurrent predictor and a joiner with random weights; put the files of a trained
model in their place. A predictor keeps its recurrent states on this side, under numbers that the library
hands back with the labels; the library asks for all hypotheses of a step in one call, and says when a state
is no longer needed.
"""

import ctypes
import os
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

VOCAB, BLANK, ENCODER_DIM, OUTPUT_DIM = 20, 0, 16, 24


def export(folder):
    """Writes predictor.onnx and joiner.onnx: an Elman network, and one hidden layer."""
    random = numpy.random.default_rng(7)

    def weights(name, *shape, scale=1.0):
        return numpy_helper.from_array((scale * random.standard_normal(shape)).astype(numpy.float32), name)

    def save(name, nodes, inputs, outputs, initializers):
        info = [helper.make_tensor_value_info(tensor, kind, ["n", *shape]) for tensor, kind, shape in inputs + outputs]
        graph = helper.make_graph(nodes, name, info[: len(inputs)], info[len(inputs) :], initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model)
        path = os.path.join(folder, name + ".onnx")
        onnx.save(model, path)
        return path

    predictor = save(
        "predictor",
        [
            helper.make_node("Gather", ["embed", "label"], ["embedded"]),
            helper.make_node("MatMul", ["state", "recurrent"], ["carried"]),
            helper.make_node("Add", ["embedded", "carried"], ["sum"]),
            helper.make_node("Tanh", ["sum"], ["next"]),
        ],
        [("label", TensorProto.INT64, []), ("state", TensorProto.FLOAT, [OUTPUT_DIM])],
        [("next", TensorProto.FLOAT, [OUTPUT_DIM])],
        [weights("embed", VOCAB, OUTPUT_DIM), weights("recurrent", OUTPUT_DIM, OUTPUT_DIM, scale=0.2)],
    )
    bias = numpy.zeros(VOCAB, numpy.float32)
    bias[BLANK] = 5.0
    joiner = save(
        "joiner",
        [
            helper.make_node("MatMul", ["encoder", "from_encoder"], ["a"]),
            helper.make_node("MatMul", ["prediction", "from_prediction"], ["b"]),
            helper.make_node("Add", ["a", "b"], ["sum"]),
            helper.make_node("Tanh", ["sum"], ["hidden"]),
            helper.make_node("MatMul", ["hidden", "out"], ["unbiased"]),
            helper.make_node("Add", ["unbiased", "bias"], ["logits"]),
        ],
        [("encoder", TensorProto.FLOAT, [ENCODER_DIM]), ("prediction", TensorProto.FLOAT, [OUTPUT_DIM])],
        [("logits", TensorProto.FLOAT, [VOCAB])],
        [
            weights("from_encoder", ENCODER_DIM, 32, scale=0.4),
            weights("from_prediction", OUTPUT_DIM, 32, scale=0.4),
            weights("out", 32, VOCAB),
            numpy_helper.from_array(bias, "bias"),
        ],
    )
    return predictor, joiner


# The part of koshi.h that is used here.

STATES = ctypes.POINTER(ctypes.c_uint64)
LABELS = ctypes.POINTER(ctypes.c_int32)
FLOATS = ctypes.POINTER(ctypes.c_float)
PREDICT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, STATES, LABELS, ctypes.c_size_t, STATES, FLOATS)
JOIN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, FLOATS, FLOATS, ctypes.c_size_t, FLOATS)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint64)


class Ops(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("vocab_size", ctypes.c_uint32),
        ("blank", ctypes.c_int32),
        ("encoder_dim", ctypes.c_uint32),
        ("output_dim", ctypes.c_uint32),
        ("scores", ctypes.c_int32),
        ("predict", PREDICT),
        ("join", JOIN),
        ("release_state", RELEASE),
        ("lm_predict", ctypes.c_void_p),
    ]


class Config(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("search", ctypes.c_int32),
        ("beam", ctypes.c_uint32),
        ("max_symbols_per_frame", ctypes.c_uint32),
        ("max_expansions_per_frame", ctypes.c_uint32),
        ("max_sym_exp", ctypes.c_uint32),
        ("u_max", ctypes.c_uint32),
        ("nstep", ctypes.c_uint32),
        ("prefix_alpha", ctypes.c_uint32),
        ("lm_weight", ctypes.c_float),
        ("score_norm", ctypes.c_uint32),
        ("nbest", ctypes.c_uint32),
        ("max_cached", ctypes.c_uint32),
        ("commit_frames", ctypes.c_uint32),
    ]


class Utterance(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_void_p),
        ("frames", ctypes.c_size_t),
        ("dim", ctypes.c_size_t),
        ("stride", ctypes.c_size_t),
        ("status", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("error", ctypes.c_void_p),
    ]


GREEDY, TSD = 0, 2
KOSHI_E_INTERNAL = -701


def load(path):
    koshi = ctypes.CDLL(path)
    koshi.koshi_error_message.restype = ctypes.c_char_p
    koshi.koshi_error_message.argtypes = [ctypes.c_void_p]
    koshi.koshi_error_free.argtypes = [ctypes.c_void_p]
    koshi.koshi_transducer_free.argtypes = [ctypes.c_void_p]
    koshi.koshi_hypotheses_free.argtypes = [ctypes.c_void_p]
    koshi.koshi_hypotheses_len.restype = ctypes.c_int64
    koshi.koshi_hypotheses_len.argtypes = [ctypes.c_void_p]
    koshi.koshi_hypotheses_score.restype = ctypes.c_double
    koshi.koshi_hypotheses_score.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    koshi.koshi_hypotheses_labels.restype = LABELS
    koshi.koshi_hypotheses_labels.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
    return koshi


class Transducer:
    """Networks in ONNX Runtime, searched by the library."""

    def __init__(self, koshi, predictor, joiner):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.koshi = koshi
        self.predictor = onnxruntime.InferenceSession(predictor, options)
        self.joiner = onnxruntime.InferenceSession(joiner, options)
        self.states = {}
        self.next_state = 1
        self.calls = [0, 0]
        self.raised = None
        # The library keeps these pointers: they have to live as long as the transducer.
        self.ops = Ops(
            ctypes.sizeof(Ops), VOCAB, BLANK, ENCODER_DIM, OUTPUT_DIM, 0,
            PREDICT(self.guarded(self.predict)), JOIN(self.guarded(self.join)), RELEASE(self.release), None,
        )
        self.handle = ctypes.c_void_p()
        self.check(koshi.koshi_transducer_new, ctypes.byref(self.ops), None, None, ctypes.byref(self.handle))

    def check(self, function, *arguments):
        """Calls a function that can fail, and turns a failure into an exception."""
        error = ctypes.c_void_p()
        status = function(*arguments, ctypes.byref(error))
        if status < 0:
            raise RuntimeError(self.message(error))
        return status

    def message(self, error):
        text = self.koshi.koshi_error_message(error).decode() if error else "no memory for an error object"
        self.koshi.koshi_error_free(error)
        return text

    def guarded(self, callback):
        """No exception may leave a callback: it is kept and becomes a status, and the utterance fails with it."""

        def run(_, *arguments):
            try:
                callback(*arguments)
                return 0
            except Exception as error:
                self.raised = error
                return KOSHI_E_INTERNAL

        return run

    def predict(self, states_in, labels, n, states_out, outputs):
        self.calls[0] += 1
        labels = numpy.ctypeslib.as_array(labels, (n,))
        before = numpy.zeros((n, OUTPUT_DIM), numpy.float32)
        for at in range(n):
            if labels[at] != BLANK:  # with the blank a history begins
                before[at] = self.states[states_in[at]]
        (after,) = self.predictor.run(None, {"label": labels.astype(numpy.int64), "state": before})
        numpy.ctypeslib.as_array(outputs, (n, OUTPUT_DIM))[:] = after
        for at in range(n):
            states_out[at] = self.next_state
            self.states[self.next_state] = after[at]
            self.next_state += 1

    def join(self, encoder_rows, outputs, n, scores):
        self.calls[1] += 1
        encoder = numpy.ctypeslib.as_array(encoder_rows, (n, ENCODER_DIM))
        prediction = numpy.ctypeslib.as_array(outputs, (n, OUTPUT_DIM))
        (logits,) = self.joiner.run(None, {"encoder": encoder, "prediction": prediction})
        numpy.ctypeslib.as_array(scores, (n, VOCAB))[:] = logits

    def release(self, _, part, state):
        del self.states[state]

    def search(self, utterances, **options):
        """The n-best lists of utterances (arrays of frames x ENCODER_DIM), as pairs of labels and score."""
        config, self.raised = Config(), None
        self.check(self.koshi.koshi_transducer_config_init, ctypes.byref(config), ctypes.c_size_t(ctypes.sizeof(config)))
        for name, value in options.items():
            if not hasattr(config, name):  # ctypes would take it for a new attribute
                raise TypeError("koshi_transducer_config has no field " + name)
            setattr(config, name, value)
        given = (Utterance * len(utterances))()
        # The library reads them where they are: float32, side by side.
        utterances = [numpy.ascontiguousarray(rows, numpy.float32) for rows in utterances]
        for place, rows in zip(given, utterances):
            if rows.ndim != 2:
                raise ValueError(f"rows have {rows.ndim} dimensions; they are frames x dimensions of the encoder")
            place.rows = rows.ctypes.data
            place.frames, place.dim = rows.shape
            place.stride = place.dim
        lists = (ctypes.c_void_p * len(utterances))()
        self.check(
            self.koshi.koshi_transducer_search, self.handle, ctypes.byref(config), given,
            ctypes.c_size_t(len(given)), ctypes.c_size_t(ctypes.sizeof(Utterance)), lists,
        )
        # All are taken before one that failed is told: lists and errors are ours to free.
        messages = [self.message(place.error) for place in given if place.status < 0]
        found = [self.read(list) for list in lists if list]
        if messages:
            raise RuntimeError("; ".join(messages)) from self.raised
        return found

    def read(self, found):
        entries = []
        count = ctypes.c_size_t()
        for at in range(self.koshi.koshi_hypotheses_len(found)):
            labels = self.koshi.koshi_hypotheses_labels(found, at, ctypes.byref(count))
            entries.append((labels[: count.value], self.koshi.koshi_hypotheses_score(found, at)))
        self.koshi.koshi_hypotheses_free(found)
        return entries

    def close(self):
        self.koshi.koshi_transducer_free(self.handle)

    def plain_greedy(self, rows):
        """The best symbol of each frame, in plain Python, to compare with."""
        labels = []
        state = numpy.zeros((1, OUTPUT_DIM), numpy.float32)
        (state,) = self.predictor.run(None, {"label": numpy.array([BLANK]), "state": state})
        for row in rows:
            (logits,) = self.joiner.run(None, {"encoder": row[None], "prediction": state})
            best = int(logits[0].argmax())
            if best != BLANK:
                labels.append(best)
                (state,) = self.predictor.run(None, {"label": numpy.array([best]), "state": state})
        return labels


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: transducer_onnx.py path/to/libkoshi.so")
    random = numpy.random.default_rng(3)
    utterances = [random.standard_normal((frames, ENCODER_DIM)).astype(numpy.float32) for frames in (30, 0, 12)]
    with tempfile.TemporaryDirectory() as folder:
        transducer = Transducer(load(sys.argv[1]), *export(folder))
    for rows, greedy in zip(utterances, transducer.search(utterances, search=GREEDY)):
        labels = greedy[0][0]
        if labels != transducer.plain_greedy(rows):
            sys.exit("greedy search differs from the plain one")
        print(f"{len(rows)} frames, greedy: {labels}")
    transducer.calls = [0, 0]
    for rows, found in zip(utterances, transducer.search(utterances, search=TSD, beam=6, nbest=2)):
        for labels, score in found:
            print(f"{len(rows)} frames, beam: {labels} {score:.3f}")
    print("calls of predictor and joiner for all utterances: {} and {}".format(*transducer.calls))
    print(f"{len(transducer.states)} states left")
    transducer.close()


if __name__ == "__main__":
    main()
