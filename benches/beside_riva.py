#!/usr/bin/env python3
"""Times Kaldi's CUDA decoder (the wheel riva-asrlib-decoder) on the graph and the scores of koshi_bench_gpu.

koshi_bench_gpu --export FOLDER writes the scores, the column of each transition-id, and its own words and costs, to
which this decoder's are held before it is timed. It takes labels of columns, so the graph (an OpenFst `const` file) is
relabelled. What is timed is from scores in device memory to lattices in host memory, determinized by neither.

    beside_riva.py --wheels FOLDER --export FOLDER --graph HCLG.fst --words words.txt [--budget SECONDS] [--batch N,N]

Needs numpy, and where a GPU is, torch. `--check` does all that needs no GPU.
"""
import argparse
import glob
import os
import sys
import tempfile
import time
import zipfile

import numpy


def find_decoder(wheels):
    """The module with the decoder, out of the wheel for this Python, or as it is installed."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    for wheel in glob.glob(os.path.join(wheels, f"riva_asrlib_decoder-*-{tag}-{tag}-*.whl")) if wheels else []:
        folder = tempfile.mkdtemp()
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        sys.path.insert(0, folder)
    from riva.asrlib.decoder import python_decoder
    return python_decoder


def read_export(folder):
    """Scores by utterance, columns by transition-id, and Koshi's results by setting and utterance."""
    scores = {}
    with open(os.path.join(folder, "utterances.txt")) as index, open(os.path.join(folder, "rows.f32"), "rb") as rows:
        for line in index:
            key, frames, columns = line.split()
            shape = int(frames), int(columns)
            scores[key] = numpy.frombuffer(rows.read(4 * shape[0] * shape[1]), "<f4").reshape(shape)
    columns = numpy.loadtxt(os.path.join(folder, "columns.txt"), dtype=numpy.int32, ndmin=1)
    costs = {}
    with open(os.path.join(folder, "costs.txt")) as lines:
        for line in lines:
            setting, key, _, graph, acoustic, *words = line.split()
            costs.setdefault(setting, {})[key] = (float(graph) + float(acoustic), [int(word) for word in words])
    return scores, columns, costs


def relabel(graph, columns, out):
    """Writes a `const` graph with label column + 1 in place of each transition-id. Gives how many arcs it has."""
    with open(graph, "rb") as file:
        data = bytearray(file.read())
    at = 4
    names = []
    for _ in range(2):
        size = int.from_bytes(data[at:at + 4], "little")
        names.append(bytes(data[at + 4:at + 4 + size]))
        at += 4 + size
    if data[:4] != (2125659606).to_bytes(4, "little") or names != [b"const", b"standard"]:
        sys.exit(f"{graph}: not an OpenFst const file of standard arcs (fstconvert --fst_type=const makes one)")
    arcs = int.from_bytes(data[at + 32:at + 40], "little")  # behind version, flags, properties, start, states
    labels = numpy.frombuffer(data, "<i4", 4 * arcs, len(data) - 16 * arcs).reshape(-1, 4)[:, 0]
    labels[:] = numpy.where(labels == 0, 0, columns[numpy.maximum(labels - 1, 0)] + 1)
    with open(out, "wb") as file:
        file.write(data)
    return arcs


def best_paths(text):
    """Cost and words of the best path of each lattice of a text archive of compact lattices."""
    found = {}
    for entry in text.split("\n\n"):
        lines = entry.strip("\n").split("\n")
        key = lines[0].strip()
        if not key:
            continue
        arcs, finals = [], {}
        for line in lines[1:]:
            fields = line.split()
            weight = fields[-1].split(",") if "," in fields[-1] else ("0", "0")
            cost = float(weight[0] or 0) + float(weight[1] or 0)
            if len(fields) >= 3:
                arcs.append((int(fields[0]), int(fields[1]), int(fields[2]), cost))
            elif fields:
                finals[int(fields[0])] = cost
        start = int(lines[1].split()[0]) if len(lines) > 1 else 0
        best, changed = {start: (0.0, [])}, True
        while changed:
            changed = False
            for source, to, word, cost in arcs:
                if source in best and best[source][0] + cost < best.get(to, (float("inf"),))[0] - 1e-9:
                    best[to] = (best[source][0] + cost, best[source][1] + ([word] if word else []))
                    changed = True
        ends = [(best[state][0] + cost, best[state][1]) for state, cost in finals.items() if state in best]
        found[key] = min(ends, default=(float("inf"), []))
    return found


def config_of(module, setting, batch, determinize):
    beam, lattice_beam, max_active, _ = setting
    config = module.BatchedMappedDecoderCudaConfig()
    config.n_input_per_chunk = 64
    online = config.online_opts
    online.decoder_opts.default_beam = beam
    online.decoder_opts.lattice_beam = lattice_beam
    online.decoder_opts.max_active = int(min(max_active, 1 << 20))
    online.max_batch_size = batch
    online.num_channels = 2 * batch
    online.frame_shift_seconds = 0.01
    online.determinize_lattice = determinize
    online.use_lattice_postprocessor = False
    # The writer of lattices is shared by the threads that make them, so where they are read it is one.
    online.num_post_processing_worker_threads = 1 if determinize else os.cpu_count()
    return config


def compare(ours, theirs):
    """Prints how far the results agree; whether they do at all."""
    differences = sorted(abs(theirs[key][0] - ours[key][0]) for key in ours if key in theirs)
    words = sum(theirs[key][1] == ours[key][1] for key in ours if key in theirs)
    if not differences:
        print("  no utterance in common")
        return False
    near = sum(difference < 0.05 for difference in differences)
    print(f"  of {len(differences)} utterances the words are the same in {words}, costs within 0.05 in {near}, "
          f"the largest difference is {differences[-1]:.3f}")
    return 2 * near > len(differences)


def check_best_paths():
    """Two lattices that can be reckoned by hand."""
    text = ("a\n0 1 5 1.5,2.25,1_2_3\n0 2 6 1,2,4\n1 3 0 0.5,0,\n2 3 7 5,5,2\n3 0.25,0,\n\n"
            "b\n0 1 4 1,1,1\n1\n\n")
    assert best_paths(text) == {"a": (4.5, [5]), "b": (2.0, [4])}


def measure(module, arguments, graph, scores, costs):
    import torch
    agree = True
    end = time.monotonic() + arguments.budget
    for number, (name, ours) in enumerate(costs.items()):
        setting = [float(value) for value in name.split(",")]
        print(f"== beam, lattice beam, max-active, scale: {name}", flush=True)
        keys = [key for key in scores if key in ours]
        until = time.monotonic() + (end - time.monotonic()) / (len(costs) - number)
        columns = scores[keys[0]].shape[1]

        def tensors(count):
            chosen = [keys[at % len(keys)] for at in range(count)]
            longest = max(len(scores[key]) for key in chosen)
            rows = torch.zeros(count, longest, columns)
            for at, key in enumerate(chosen):
                rows[at, :len(scores[key])] = torch.from_numpy(scores[key] * numpy.float32(setting[3]))
            return rows.cuda(), torch.tensor([len(scores[key]) for key in chosen])

        decoder = module.BatchedMappedDecoderCuda(config_of(module, setting, 32, True), graph, arguments.words, columns)
        with tempfile.NamedTemporaryFile(suffix=".lat") as out:
            rows, lengths = tensors(len(keys))
            decoder.decode_write_lattice(rows, lengths, keys, "ark,t:" + out.name)
            with open(out.name) as file:
                agree &= compare(ours, best_paths(file.read()))
        del decoder
        for batch in arguments.batch:
            if time.monotonic() > until:
                print(f"  {batch} lanes: out of time")
                continue
            decoder = module.BatchedMappedDecoderCuda(config_of(module, setting, batch, False), graph, arguments.words,
                                                      columns)
            rows, lengths = tensors(2 * batch)
            names = [str(at) for at in range(2 * batch)]
            times = []
            while len(times) < 2 or (time.monotonic() < until and len(times) < 6):
                torch.cuda.synchronize()
                since = time.monotonic()
                decoder.decode_write_lattice(rows, lengths, names, "ark:/dev/null")
                times.append(time.monotonic() - since)
            rate = int(lengths.sum()) / sorted(times[1:])[(len(times) - 1) // 2]
            print(f"  {batch:5} lanes: {rate:9.0f} frames/s with lattices, median of {len(times) - 1}", flush=True)
            del decoder
    return agree


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", help="folder with the wheel; unless given, the package is installed")
    parser.add_argument("--export", required=True, help="what koshi_bench_gpu --export has written")
    parser.add_argument("--graph", required=True)
    parser.add_argument("--words", required=True, help="symbol table")
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("--batch", default="128,256,512", help="lanes")
    parser.add_argument("--relabelled", help="file for the relabelled graph (a temporary one)")
    parser.add_argument("--check", action="store_true", help="stop before the GPU is needed")
    arguments = parser.parse_args()
    arguments.batch = [int(count) for count in arguments.batch.split(",")]
    scores, columns, costs = read_export(arguments.export)
    with tempfile.TemporaryDirectory() as folder:
        graph = arguments.relabelled or os.path.join(folder, "columns.fst")
        arcs = relabel(arguments.graph, columns, graph)
        frames = sum(map(len, scores.values()))
        print(f"{arcs} arcs relabelled, {len(scores)} utterances, {frames} frames, {len(costs)} settings", flush=True)
        check_best_paths()
        if arguments.check and not arguments.wheels:
            return 0
        module = find_decoder(arguments.wheels)
        for name in costs:
            config_of(module, [float(value) for value in name.split(",")], 4, True)
        if arguments.check:
            print("the decoder is there")
            return 0
        return 0 if measure(module, arguments, graph, scores, costs) else 1


if __name__ == "__main__":
    sys.exit(main())
