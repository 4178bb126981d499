"""The chain (LF-MMI) objective as a PyTorch autograd function, through ctypes: no build step.

usage: chain_pytorch.py libkoshi.so [den.fst supervision]

Without files, a graph and a supervision of a few states are made up. The derivative is held to finite differences, by
PyTorch where that is installed (on a GPU where it finds one), and in any case by NumPy. With files, the output is random.
"""
import ctypes
import struct
import sys
import warnings

import numpy as np

try:
    import torch
except ImportError:
    torch = None

c_float_p, size_t = ctypes.POINTER(ctypes.c_float), ctypes.c_size_t

KOSHI_BACKEND_CUDA = 2
KOSHI_MEMORY_DEVICE = 1


class Config(ctypes.Structure):
    """koshi_chain_config."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("backend", ctypes.c_int32),
        ("device", ctypes.c_uint32),
        ("num_threads", ctypes.c_uint32),
        ("l2_regularize", ctypes.c_float),
        ("out_of_range_regularize", ctypes.c_float),
        ("leaky_hmm_coefficient", ctypes.c_float),
        ("xent_regularize", ctypes.c_float),
        ("randomised_penalty", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("deriv_weights", c_float_p),
        ("num_deriv_weights", ctypes.c_uint64),
        ("memory", ctypes.c_int32),
        ("randomised_thresholds", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
    ]


class Koshi:
    """The library: its functions, with errors as exceptions."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        for name in ["koshi_error_message", "koshi_error_cause"]:
            getattr(self.lib, name).argtypes = [ctypes.c_void_p]
        self.lib.koshi_error_message.restype = ctypes.c_char_p
        self.lib.koshi_error_cause.restype = ctypes.c_void_p
        self.lib.koshi_error_free.argtypes = [ctypes.c_void_p]
        for name in ["num_sequences", "frames_per_sequence", "num_pdfs"]:
            function = getattr(self.lib, "koshi_supervision_" + name)
            function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_int64
        for name in ["koshi_supervision_free", "koshi_den_graph_free"]:
            getattr(self.lib, name).argtypes = [ctypes.c_void_p]

    def call(self, name, *args):
        """Calls a function whose last parameter is the place for an error. Gives its status."""
        err = ctypes.c_void_p()
        function = getattr(self.lib, name)
        function.restype = ctypes.c_int32
        status = function(*args, ctypes.byref(err))
        if status < 0:
            message = self.lib.koshi_error_message(err).decode() if err else f"status {status}"
            self.lib.koshi_error_free(err)
            raise RuntimeError(f"{name}: {message}")
        return status

    def config(self, **options):
        config = Config()
        self.call("koshi_chain_config_init", ctypes.byref(config), size_t(ctypes.sizeof(config)))
        for name, value in options.items():
            if not hasattr(config, name):  # ctypes would take it for a new attribute
                raise TypeError("koshi_chain_config has no field " + name)
            setattr(config, name, value)
        return config


class Handle:
    """Something that the library made and that is freed with this."""

    def __init__(self, koshi, kind, maker, *args):
        self.koshi, self.free = koshi, getattr(koshi.lib, f"koshi_{kind}_free")
        self.pointer = ctypes.c_void_p()
        koshi.call(f"koshi_{kind}_{maker}", *args, ctypes.byref(self.pointer))

    def __del__(self):
        self.free(self.pointer)


def den_graph(koshi, source, num_pdfs):
    """A denominator graph from a path or from bytes."""
    if isinstance(source, bytes):
        return Handle(koshi, "den_graph", "from_memory", source, size_t(len(source)), size_t(num_pdfs))
    return Handle(koshi, "den_graph", "read", source.encode(), size_t(num_pdfs))


def supervision(koshi, source):
    """A supervision from a path or from bytes."""
    if isinstance(source, bytes):
        made = Handle(koshi, "supervision", "from_memory", source, size_t(len(source)))
    else:
        made = Handle(koshi, "supervision", "read", source.encode())
    for name in ["num_sequences", "frames_per_sequence", "num_pdfs"]:
        setattr(made, name, getattr(koshi.lib, "koshi_supervision_" + name)(made.pointer))
    return made


def chain_objf(koshi, den, sup, config, shape, output, deriv):
    """objf + l2 term, the weight, and whether it is the real one, of matrices that begin at the addresses `output` and
    `deriv`, rows side by side."""
    objf, l2_term, weight = ctypes.c_double(), ctypes.c_double(), ctypes.c_double()
    rows, cols = (size_t(size) for size in shape)
    status = koshi.call(
        "koshi_chain_objf",
        den.pointer,
        sup.pointer,
        ctypes.byref(config),
        ctypes.c_void_p(output),
        rows,
        cols,
        cols,
        ctypes.byref(objf),
        ctypes.byref(l2_term),
        ctypes.byref(weight),
        ctypes.c_void_p(deriv),
        cols,
        None,
        size_t(0),
    )
    return objf.value + l2_term.value, weight.value, status == 0


def objective(koshi, den, sup, config, output):
    """objf + l2 term, its derivative, the weight, and whether it is the real one. `output` is frames * sequences by pdfs."""
    output = np.ascontiguousarray(output, np.float32)
    deriv = np.empty_like(output)
    value, weight, ok = chain_objf(koshi, den, sup, config, output.shape, output.ctypes.data, deriv.ctypes.data)
    return value, deriv, weight, ok


def objective_on_gpu(koshi, den, sup, config, output, device, stream):
    """The same for a tensor on a GPU, of float32 with rows side by side: the derivative is one there too, and a few scores a
    frame are all that the host sees. `stream` makes the tensor."""
    config = Config.from_buffer_copy(config)
    config.backend, config.device = KOSHI_BACKEND_CUDA, device
    config.memory, config.stream = KOSHI_MEMORY_DEVICE, stream
    deriv = torch.empty_like(output)
    value, weight, ok = chain_objf(koshi, den, sup, config, output.shape, output.data_ptr(), deriv.data_ptr())
    return value, deriv, weight, ok


if torch is not None:

    class ChainLoss(torch.autograd.Function):
        """What to minimise: -(objf + l2 term) / weight, of an output of shape (sequences, frames, pdfs)."""

        @staticmethod
        def forward(ctx, output, koshi, den, sup, config):
            sequences, frames, pdfs = output.shape
            # The library's rows are frame-major.
            rows = output.detach().transpose(0, 1).reshape(frames * sequences, pdfs).to(torch.float32).contiguous()
            if rows.is_cuda:
                device, stream = rows.device.index, torch.cuda.current_stream(rows.device).cuda_stream
                value, deriv, weight, ok = objective_on_gpu(koshi, den, sup, config, rows, device, stream)
            else:
                value, deriv, weight, ok = objective(koshi, den, sup, config, rows.numpy())
                deriv = torch.from_numpy(deriv)
            if not ok:
                warnings.warn("a minibatch without an objective (NaN in the output?): a bad one and no derivative stand for it")
            deriv = deriv.reshape(frames, sequences, pdfs).transpose(0, 1)
            ctx.save_for_backward((deriv / -weight).to(output))
            return output.new_tensor(-value / weight)

        @staticmethod
        def backward(ctx, gradient):
            (deriv,) = ctx.saved_tensors
            return gradient * deriv, None, None, None, None


def small_den():
    """Two states over three pdfs, as the bytes of an OpenFst vector FST."""
    arcs = [[(0, 0.5, 0), (1, 0.3, 1), (2, 0.2, 0)], [(1, 0.6, 1), (2, 0.3, 0)]]
    head = struct.pack("<i", 2125659606)
    for name in [b"vector", b"standard"]:
        head += struct.pack("<i", len(name)) + name
    head += struct.pack("<iiQqqq", 2, 0, 3, 0, len(arcs), 0)
    for state in arcs:
        head += struct.pack("<fq", float("inf"), len(state))
        for pdf, prob, destination in state:
            head += struct.pack("<iifi", pdf + 1, pdf + 1, -np.log(prob), destination)
    return head


SMALL_SUPERVISION = b"""<Supervision> <Weight> 1 <NumSequences> 2 <FramesPerSeq> 3 <LabelDim> 3 <End2End> F 
0 1 1 1 0.5
0 2 2 2 0.1
1 3 2 2
2 3 1 1 0.25
3 4 3 3
4 5 1 1
4 6 2 2 0.7
5 7 2 2
6 7 3 3
7 8 1 1
8

</Supervision> """


def differences(value, output, places, step=0.01):
    """The slope of `value` at some places of `output`, from both sides."""
    for place in places:
        sides = []
        for by in [step, -step]:
            moved = output.copy()
            moved[place] += np.float32(by)
            sides.append((float(moved[place]), value(moved)))
        (above, high), (below, low) = sides
        yield place, (high - low) / (above - below)


def check(name, slopes, deriv):
    worst = max(abs(slope - deriv[place]) / max(abs(slope), 0.05) for place, slope in slopes)
    print(f"{name}: derivative and finite differences differ by at most {worst:.1e} (relative)")
    assert worst < 1e-3, worst


def main():
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    koshi = Koshi(sys.argv[1])
    files = sys.argv[2:] or [small_den(), SMALL_SUPERVISION]
    sup = supervision(koshi, files[1])
    den = den_graph(koshi, files[0], sup.num_pdfs)
    config = koshi.config(leaky_hmm_coefficient=0.1, l2_regularize=0.01)
    random = np.random.default_rng(1)
    shape = (sup.frames_per_sequence * sup.num_sequences, sup.num_pdfs)
    output = random.uniform(-2, 2, shape).astype(np.float32)
    value, deriv, weight, ok = objective(koshi, den, sup, config, output)
    print(f"objective {value / weight:.6f} a frame over {weight:.0f} frames, {'ok' if ok else 'fallback'}")
    assert ok
    places = [tuple(place) for place in random.permutation(list(np.ndindex(shape)))[:40]]
    slopes = differences(lambda moved: objective(koshi, den, sup, config, moved)[0], output, places)
    check("NumPy", slopes, deriv)
    if torch is None:
        print("PyTorch is not installed: its part did not run")
        return
    frames, sequences, pdfs = sup.frames_per_sequence, sup.num_sequences, sup.num_pdfs
    # A layer in front, so that the gradient comes through autograd: differences are those of the loss by its weights.
    device = "cuda" if torch.cuda.is_available() else "cpu"
    inputs = torch.from_numpy(random.uniform(-1, 1, (sequences, frames, 4)).astype(np.float32)).to(device)
    layer = torch.nn.Linear(4, pdfs).to(device)
    loss = ChainLoss.apply(layer(inputs), koshi, den, sup, config)
    loss.backward()

    def moved_loss(matrix):
        with torch.no_grad():
            moved = inputs @ torch.from_numpy(matrix).to(device).T + layer.bias
            return float(ChainLoss.apply(moved.double(), koshi, den, sup, config))

    matrix = layer.weight.detach().cpu().numpy()
    places = list(np.ndindex(matrix.shape))[:40]
    check(f"PyTorch ({device})", differences(moved_loss, matrix, places), layer.weight.grad.cpu().numpy())


if __name__ == "__main__":
    main()
