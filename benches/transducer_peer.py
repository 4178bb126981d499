#!/usr/bin/env python3
"""The transducer searches of benches/transducer.rs in plain Python, as research toolkits have them.

    pip install numpy
    python3 benches/transducer_peer.py default 500 4

Prints microseconds a frame, the least of nine runs, and labels and score of the best hypothesis.

Lists of hypotheses with their labels, numpy for a row of scores, a dictionary of predictions: the same
algorithms on the same rows of scores. The time in the networks is taken off.
"""

import sys
import time

import numpy

FRAMES, POOL = 60, 512


def by_place(at):
    """Numbers of [0, 1), those of benches/transducer.rs."""
    mixed = (at.astype(numpy.uint64) ^ numpy.uint64(0x9E3779B9)) * numpy.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> numpy.uint64(29))) >> numpy.uint64(16)
    return (mixed & numpy.uint64(0xFFFFFF)).astype(numpy.float32) / numpy.float32(1 << 24)


class Pool:
    """Rows of scores out of a pool: competing labels where one is due, a sure blank everywhere else."""

    def __init__(self, vocab):
        self.vocab = vocab
        self.rows = 2 * by_place(numpy.arange(POOL * vocab)).reshape(POOL, vocab)
        for row in range(POOL):
            near = row % 5 == 0
            self.rows[row, 0] = 8 if near else 14
            for nth in range(3):
                one, two = by_place(POOL * vocab + 2 * (3 * row + nth) + numpy.arange(2))
                label = 1 + int(one * numpy.float32(vocab - 1))
                self.rows[row, min(label, vocab - 1)] = numpy.float32(9) + numpy.float32(4) * two if near else 6
        self.inside = 0.0

    def join(self, frames, outputs):
        start = time.perf_counter()
        picked = []
        for frame, output in zip(frames, outputs):
            count, hashed = output
            due = frame % 5 == 0 and 5 * count <= frame
            picked.append((frame * 5 + hashed * 25) % POOL // 5 * 5 + (not due))
        scores = self.rows[picked]
        self.inside += time.perf_counter() - start
        return scores

    def predict(self, labels):
        start = time.perf_counter()
        output = 7  # what the blank that begins a history gives
        for label in labels:
            output = (output * 31 + label + 7) % 4096
        self.inside += time.perf_counter() - start
        return len(labels), output


class Searches:
    def __init__(self, pool, beam):
        self.pool, self.beam, self.cache = pool, min(beam, pool.vocab), {}

    def scores(self, frames, hypotheses):
        outputs = []
        for labels, _ in hypotheses:
            key = " ".join(map(str, labels))
            if key not in self.cache:
                self.cache[key] = self.pool.predict(labels)
            outputs.append(self.cache[key])
        rows = self.pool.join(frames, outputs)
        most = rows.max(axis=1, keepdims=True)
        return rows - most - numpy.log(numpy.exp(rows - most).sum(axis=1, keepdims=True))

    def top(self, rows):
        best = numpy.argpartition(-rows[:, 1:], self.beam, axis=1)[:, : self.beam] + 1
        return best

    def keep(self, hypotheses):
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis[1])[: self.beam]

    def greedy(self):
        labels, score = [], 0.0
        for frame in range(FRAMES):
            row = self.scores([frame], [(labels, score)])[0]
            best = int(row.argmax())
            if best != 0:
                labels, score = labels + [best], score + float(row[best])
        return [(labels, score)]

    def default(self):
        kept = [([], 0.0)]
        for frame in range(FRAMES):
            opened, kept = kept, []
            while True:
                best = max(opened, key=lambda hypothesis: hypothesis[1])
                opened.remove(best)
                labels, score = best
                row = self.scores([frame], [best])
                kept.append((labels[:], score + float(row[0, 0])))
                for label in self.top(row)[0]:
                    opened.append((labels + [int(label)], score + float(row[0, label])))
                bound = max(hypothesis[1] for hypothesis in opened)
                better = [hypothesis for hypothesis in kept if hypothesis[1] > bound]
                if len(better) >= self.beam:
                    kept = sorted(better, key=lambda hypothesis: hypothesis[1])
                    break
        return self.keep(kept)

    def tsd(self, rounds=3):
        beam = [([], 0.0)]
        for frame in range(FRAMES):
            closed, opened = [], beam
            for number in range(rounds):
                rows, extended = self.scores([frame] * len(opened), opened), []
                sequences = [labels for labels, _ in closed]
                for at, (labels, score) in enumerate(opened):
                    score_closed = score + float(rows[at, 0])
                    if labels in sequences:
                        place = sequences.index(labels)
                        closed[place] = (labels, float(numpy.logaddexp(closed[place][1], score_closed)))
                    else:
                        closed.append((labels[:], score_closed))
                if number + 1 < rounds:
                    top = self.top(rows)
                    for at, (labels, score) in enumerate(opened):
                        extended += [(labels + [int(label)], score + float(rows[at, label])) for label in top[at]]
                opened = self.keep(extended)
            beam = self.keep(closed)
        return beam

    def alsd(self, u_max=100):
        beam, finals = [([], 0.0)], []
        for step in range(FRAMES + u_max):
            asked = [hypothesis for hypothesis in beam if step - len(hypothesis[0]) < FRAMES]
            if not asked:
                break
            frames = [step - len(labels) for labels, _ in asked]
            rows, made = self.scores(frames, asked), []
            top = self.top(rows)
            for at, (labels, score) in enumerate(asked):
                made.append((labels[:], score + float(rows[at, 0])))
                if frames[at] == FRAMES - 1:
                    finals.append(made[-1])
                made += [(labels + [int(label)], score + float(rows[at, label])) for label in top[at]]
            beam = []
            for labels, score in self.keep(made):
                for place, (other, other_score) in enumerate(beam):
                    if other == labels:
                        beam[place] = (labels, float(numpy.logaddexp(other_score, score)))
                        break
                else:
                    beam.append((labels, score))
        return finals or beam

    def nsc(self, nstep=2, alpha=1):
        kept = [([], 0.0)]
        for frame in range(FRAMES):
            opened = sorted(kept, key=lambda hypothesis: -len(hypothesis[0]))
            for at, (labels, score) in enumerate(opened):
                for prefix, before in opened[at + 1 :]:
                    longer = len(labels) - len(prefix)
                    if 0 < longer <= alpha and labels[: len(prefix)] == prefix:
                        for place in range(len(prefix), len(labels)):
                            before += float(self.scores([frame], [(labels[:place], 0)])[0, labels[place]])
                        opened[at] = (labels, float(numpy.logaddexp(opened[at][1], before)))
            closed = []
            for _ in range(nstep):
                rows, made = self.scores([frame] * len(opened), opened), []
                top = self.top(rows)
                for at, (labels, score) in enumerate(opened):
                    closed.append((labels[:], score + float(rows[at, 0])))
                    made += [(labels + [int(label)], score + float(rows[at, label])) for label in top[at]]
                present = [labels for labels, _ in opened]
                opened = self.keep([hypothesis for hypothesis in made if hypothesis[0] not in present])
            rows = self.scores([frame] * len(opened), opened)
            opened = [(labels, score + float(rows[at, 0])) for at, (labels, score) in enumerate(opened)]
            kept = self.keep(closed + opened)
        return kept


def main():
    name, vocab, beam = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    pool, figures = Pool(vocab), []
    for _ in range(9):
        pool.inside = 0.0
        start = time.perf_counter()
        found = getattr(Searches(pool, beam), name)()
        figures.append((time.perf_counter() - start - pool.inside) / FRAMES)
    labels, score = max(found, key=lambda hypothesis: hypothesis[1] / (len(hypothesis[0]) + 1))
    print(1e6 * min(figures), len(labels), score)


if __name__ == "__main__":
    main()
