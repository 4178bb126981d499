#!/usr/bin/env python3
"""The transducer searches of benches/transducer.rs in plain Python, as research toolkits have them.

    pip install numpy
    python3 benches/transducer_peer.py

Lists of hypotheses with their labels, numpy for a row of scores, a dictionary of predictions: the same
algorithms with the same kind of scores. Times are milliseconds a frame; the time in the networks is taken off.
"""

import time

import numpy

FRAMES, POOL = 200, 512


class Pool:
    """Rows of scores out of a pool: a sure blank in most frames, competing labels in each fifth."""

    def __init__(self, vocab):
        random = numpy.random.default_rng(1)
        self.vocab = vocab
        self.rows = (2.0 * random.random((POOL, vocab))).astype(numpy.float32)
        for row in range(POOL):
            near = row % 5 == 0
            self.rows[row, 0] = 8 if near else 14
            for label in random.integers(1, vocab, 3):
                self.rows[row, label] = 9 + 4 * random.random() if near else 6
        self.inside = 0.0

    def join(self, frames, outputs):
        start = time.perf_counter()
        picked = []
        for frame, output in zip(frames, outputs):
            row = (frame * 5 + output * 25 + (frame % 5 != 0)) % POOL
            picked.append(row // 5 * 5 if frame % 5 == 0 else row)
        scores = self.rows[picked]
        self.inside += time.perf_counter() - start
        return scores

    def predict(self, labels):
        start = time.perf_counter()
        output = 0
        for label in labels:
            output = (output * 31 + label + 7) % 65536
        self.inside += time.perf_counter() - start
        return output


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
        return self.keep(finals or beam)

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
    for vocab in (500, 5000):
        pool = Pool(vocab)
        for beam in (4, 16):
            for name in ("default", "tsd", "alsd", "nsc"):
                figures = []
                for _ in range(3):
                    pool.inside = 0.0
                    start = time.perf_counter()
                    getattr(Searches(pool, beam), name)()
                    figures.append((time.perf_counter() - start - pool.inside) / FRAMES)
                print(f"vocabulary {vocab}, beam {beam}, {name}: {1000 * sorted(figures)[1]:.3f} ms a frame", flush=True)


if __name__ == "__main__":
    main()
