"""The denominator's forward-backward as a NumPy loop over arcs, vectorised over sequences: the peer of benches/chain.rs.

usage: chain_numpy.py den.fst NUM_PDFS [SEQUENCES FRAMES REPEAT]
Prints the log-probability and the least and median seconds of a forward-backward with derivative.
"""
import struct
import sys
import time

import numpy as np


def read_vector_fst(path):
    """Start, arcs (source, label, cost, destination) and final costs of an OpenFst vector FST."""
    data = open(path, "rb").read()
    at = 4
    for _ in range(2):
        (length,) = struct.unpack_from("<i", data, at)
        at += 4 + length
    _version, flags, _properties, start, states, _arcs = struct.unpack_from("<iiQqqq", data, at)
    assert flags & 3 == 0, "symbol tables are not read"
    at += 40
    arcs, finals = [], []
    for state in range(states):
        final, count = struct.unpack_from("<fq", data, at)
        at += 12
        finals.append(final)
        for _ in range(count):
            label, _olabel, cost, destination = struct.unpack_from("<iifi", data, at)
            at += 16
            arcs.append((state, label - 1, np.exp(-np.float64(cost)), destination))
    return start, arcs, np.array(finals)


def initial(start, arcs, finals):
    z = np.exp(-finals.astype(np.float64))
    for source, _pdf, prob, _destination in arcs:
        z[source] += prob
    now = np.zeros(len(finals))
    now[start] = 1
    average = np.zeros(len(finals))
    for _ in range(100):
        average += now / 100
        after = np.zeros(len(finals))
        for source, _pdf, prob, destination in arcs:
            after[destination] += now[source] * prob / z[source]
        now = after / after.sum()
    return average.astype(np.float32)


def forward_backward(arcs, init, output, sequences, leak):
    frames = len(output) // sequences
    emission = np.exp(np.clip(output, -30, 30)).reshape(frames, sequences, -1).transpose(0, 2, 1).copy()
    alpha = np.zeros((frames + 1, len(init), sequences), np.float32)
    total = np.zeros((frames + 1, sequences), np.float32)
    alpha[0] = init[:, None]
    for frame in range(frames + 1):
        if frame:
            for source, pdf, prob, destination in arcs:
                alpha[frame, destination] += alpha[frame - 1, source] * prob * emission[frame - 1, pdf]
            alpha[frame] /= total[frame - 1]
        total[frame] = alpha[frame].sum(axis=0)
        alpha[frame] += leak * init[:, None] * total[frame]
    prob_all = alpha[frames].sum(axis=0)
    beta = np.ones_like(alpha[0]) / prob_all
    beta += leak * (init[:, None] * beta).sum(axis=0)
    deriv = np.zeros_like(emission)
    for frame in reversed(range(frames)):
        before = np.zeros_like(beta)
        share = alpha[frame] / total[frame]
        for source, pdf, prob, destination in arcs:
            worth = beta[destination] * prob * emission[frame, pdf]
            before[source] += worth
            deriv[frame, pdf] += share[source] * worth
        before /= total[frame]
        beta = before + leak * (init[:, None] * before).sum(axis=0)
    log_prob = np.log(prob_all.astype(np.float64)).sum() + np.log(total[:frames].astype(np.float64)).sum()
    return log_prob, deriv.transpose(0, 2, 1).reshape(output.shape)


def main():
    path, pdfs = sys.argv[1], int(sys.argv[2])
    sequences, frames, repeat = (int(word) for word in (sys.argv[3:] + ["128", "50", "3"][len(sys.argv) - 3:]))
    start, arcs, finals = read_vector_fst(path)
    init = initial(start, arcs, finals)
    arcs = [(source, pdf, np.float32(prob), destination) for source, pdf, prob, destination in arcs]
    output = np.random.default_rng(1).uniform(-1, 1, (sequences * frames, pdfs)).astype(np.float32)
    times = []
    for _ in range(repeat):
        begin = time.process_time()
        log_prob, deriv = forward_backward(arcs, init, output, sequences, np.float32(0.1))
        times.append(time.process_time() - begin)
    print(f"log-probability {log_prob:.6f}, derivative sums to {deriv.sum():.3f}")
    print(f"{min(times):.4f} s least, {sorted(times)[len(times) // 2]:.4f} s median")


main()
