// Kaldi's phone-pruned lattice determinizer, timed by itself.
#include <algorithm>
#include <cstdio>
#include <iostream>

#include "common.h"

namespace {

const char *const kUsage =
    "usage: kaldi-determinize [options] TRANSITION_MODEL LATTICE_ARCHIVE OUTPUT\n"
    "Determinizes each state-level lattice --repeat times, writes compact lattices (binary,\n"
    "or text with --text) and prints the seconds in the determinizer alone: of the whole\n"
    "archive, median and least over the repeats; with --each, of each lattice (median).";

fst::DeterminizeLatticePhonePrunedOptions determinizer(const Options &options) {
  fst::DeterminizeLatticePhonePrunedOptions result;
  result.delta = options.number("delta");
  result.max_mem = options.number("max-mem");
  result.phone_determinize = options.flag("phone-determinize");
  result.word_determinize = options.flag("word-determinize");
  result.minimize = options.flag("minimize");
  return result;
}

double least(const std::vector<double> &values) {
  return *std::min_element(values.begin(), values.end());
}

}  // namespace

int main(int argc, char **argv) {
  Options options(argc, argv,
                  {{"acoustic-scale", "1"}, {"beam", "10"}, {"max-mem", "50000000"},
                   {"delta", "0.0009765625"}, {"phone-determinize", "true"},
                   {"word-determinize", "true"}, {"minimize", "false"}, {"repeat", "1"},
                   {"text", "false"}, {"each", "false"}},
                  3, kUsage);
  const auto determinize = determinizer(options);
  double acoustic_scale = options.number("acoustic-scale"), beam = options.number("beam");
  size_t repeats = options.number("repeat");
  if (repeats == 0) fail("--repeat must be at least 1");

  kaldi::TransitionModel model;
  read_transition_model(options.argument(0), &model);
  ArchiveReader archive(options.argument(1));
  auto out = open_output(options.argument(2));
  std::vector<Clock> totals(repeats);
  size_t lattices = 0, early = 0, states = 0, arcs = 0, raw_states = 0, raw_arcs = 0;
  for (std::string key; archive.next(&key);) {
    auto lattice = read_lattice(&archive);
    if (!lattice) fail("cannot read the lattice of " + key);
    LatticeBytes raw = to_bytes(*lattice), result;
    raw.scale_acoustic(acoustic_scale);
    bool whole = true;
    std::vector<double> seconds;
    for (Clock &total : totals) {
      // The determinizer changes its input, so that each run needs a fresh one.
      lattice = to_lattice(raw);
      kaldi::CompactLattice compact;
      Clock start = Clock::now();
      whole = fst::DeterminizeLatticePhonePrunedWrapper(model, lattice.get(), beam, &compact,
                                                        determinize);
      seconds.push_back(total.add_since(start).cpu);
      result = to_bytes(compact);
    }
    if (options.flag("each"))
      std::printf("%s %.6f s, %zu states %zu arcs -> %zu states %zu arcs%s\n", key.c_str(),
                  median(seconds), raw.states, raw.arcs, result.states, result.arcs,
                  whole ? "" : ", ended early");
    lattices++;
    early += !whole;
    raw_states += raw.states;
    raw_arcs += raw.arcs;
    states += result.states;
    arcs += result.arcs;
    result.scale_acoustic(1 / acoustic_scale);
    write_entry(out.get(), key, result, options.flag("text"));
  }
  std::vector<double> wall, cpu;
  for (const Clock &total : totals) {
    wall.push_back(total.wall);
    cpu.push_back(total.cpu);
  }
  std::printf("processor (wall) seconds: determinizer %.6f (%.6f), least %.6f (%.6f); "
              "%zu lattices, %zu ended early; %zu states %zu arcs -> %zu states %zu arcs\n",
              median(cpu), median(wall), least(cpu), least(wall), lattices, early, raw_states,
              raw_arcs, states, arcs);
}
