#!/usr/bin/env python3
"""ESPnet's own transducer searches on the rows of scores of benches/transducer.rs.

    pip install torch numpy
    pip download --no-deps espnet==202511 && unzip -d espnet espnet-202511-*.whl
    ESPNET=espnet python3 benches/transducer_espnet.py default 500 4

Prints what transducer_peer.py prints. ESPnet's module of searches is loaded by itself, with small stand-ins for the classes
that it only names in annotations, so that none of its other requirements are needed. The networks are replaced by a
look-up; all time in them, the keeping of states and predictions included, is taken off, which is in ESPnet's favour.
"""

import importlib.util
import os
import sys
import time
import types

import numpy
import torch

from transducer_peer import FRAMES, Pool


def load_searches(folder):
    """espnet2.asr.transducer.beam_search_transducer, without what its package imports on the way."""

    def stand_in(name, **members):
        module = types.ModuleType(name)
        module.__dict__.update(members)
        sys.modules[name] = module
        module.__path__ = []

    def load(name):
        path = os.path.join(folder, *name.split(".")) + ".py"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    for name in ["espnet2", "espnet2.asr", "espnet2.asr.decoder", "espnet2.asr_transducer", "espnet2.lm", "espnet"]:
        stand_in(name)
    for name in ["espnet.nets", "espnet.nets.pytorch_backend", "espnet.nets.pytorch_backend.transducer"]:
        stand_in(name)
    stand_in("espnet2.asr.decoder.abs_decoder", AbsDecoder=object)
    stand_in("espnet2.asr_transducer.joint_network", JointNetwork=object)
    stand_in("espnet2.lm.transformer_lm", TransformerLM=type("TransformerLM", (), {}))
    stand_in("espnet.nets.pytorch_backend.nets_utils", pad_list=None)
    load("espnet.nets.transducer_decoder_interface")
    load("espnet.nets.pytorch_backend.transducer.utils")
    return load("espnet2.asr.transducer.beam_search_transducer")


class Networks:
    """Decoder and joint network of an ESPnet model, in place of which rows are looked up."""

    blank_id, dunits, device = 0, 1, "cpu"

    def __init__(self, pool):
        self.odim, self.rows, self.inside = pool.vocab, torch.from_numpy(pool.rows), 0.0

    def set_device(self, device):
        pass

    def init_state(self, batch):
        return None

    def select_state(self, states, at):
        return None

    def create_batch_states(self, states, news, labels):
        return None

    def output(self, labels):
        hashed = 7
        for label in labels[1:]:  # the first is the blank that begins a history
            hashed = (hashed * 31 + label + 7) % 4096
        return len(labels) - 1, hashed

    def score(self, hypothesis, cache):
        start = time.perf_counter()
        output = torch.tensor(self.output(hypothesis.yseq))
        self.inside += time.perf_counter() - start
        return output, None, None

    def batch_score(self, hypotheses, states, cache, use_lm):
        start = time.perf_counter()
        outputs = torch.tensor([self.output(hypothesis.yseq) for hypothesis in hypotheses])
        self.inside += time.perf_counter() - start
        return outputs, None, None

    def join(self, frames, outputs):
        start = time.perf_counter()
        frame, count, hashed = frames[..., 0].long(), outputs[..., 0], outputs[..., 1]
        due = (frame % 5 == 0) & (5 * count <= frame)
        scores = self.rows[(frame * 5 + hashed * 25) % len(self.rows) // 5 * 5 + (~due).long()]
        self.inside += time.perf_counter() - start
        return scores


def main():
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    name, vocab, beam = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    searches = load_searches(os.environ["ESPNET"])
    networks = Networks(Pool(vocab))
    kind, beam = ("default", 1) if name == "greedy" else (name, beam)
    options = {"max_sym_exp": 3, "nstep": 2, "u_max": 100, "search_type": kind, "nbest": 1}
    search = searches.BeamSearchTransducer(networks, networks.join, beam, **options)
    frames, figures = torch.arange(FRAMES, dtype=torch.float32).unsqueeze(1), []
    for _ in range(9):
        networks.inside = 0.0
        start = time.perf_counter()
        found = search(frames)
        figures.append((time.perf_counter() - start - networks.inside) / FRAMES)
    print(1e6 * min(figures), len(found[0].yseq) - 1, float(found[0].score))


if __name__ == "__main__":
    main()
