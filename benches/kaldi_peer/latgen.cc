// Kaldi's LatticeFasterDecoder over a graph and an archive of log-likelihoods, timed by parts.
#include <cmath>
#include <cstdio>
#include <iostream>

#include "common.h"

namespace {

const char *const kUsage =
    "usage: kaldi-latgen [options] TRANSITION_MODEL GRAPH LOGLIKES_ARCHIVE OUTPUT\n"
    "Writes state-level lattices (compact ones with --determinize-lattice) and prints the\n"
    "seconds in the search (raw lattice included) apart from those in reading scores, in\n"
    "determinization and in writing raw lattices.";

// A matrix of scores seen through the transition model, as latgen-faster-mapped sees it.
class ScaledScores : public kaldi::DecodableInterface {
 public:
  ScaledScores(const std::vector<int> &pdf_of, const kaldi::Matrix<float> &matrix, float scale)
      : pdf_of_(pdf_of), matrix_(matrix), scale_(scale) {}
  float LogLikelihood(int frame, int id) override {
    return scale_ * matrix_.data[size_t(frame) * matrix_.stride + pdf_of_[id]];
  }
  bool IsLastFrame(int frame) const override { return frame == matrix_.rows - 1; }
  int NumFramesReady() const override { return matrix_.rows; }
  int NumIndices() const override { return pdf_of_.size() - 1; }

 private:
  const std::vector<int> &pdf_of_;
  const kaldi::Matrix<float> &matrix_;
  float scale_;
};

std::vector<int> pdfs(const kaldi::TransitionModel &model, const kaldi::Matrix<float> &matrix) {
  kaldi::DecodableMatrixMapped counter(model, matrix, 0);
  std::vector<int> result(1, -1);
  for (int id = 1; id <= counter.NumIndices(); id++) {
    int state = model.TransitionIdToTransitionState(id);
    result.push_back(model.IsSelfLoop(id) ? model.TransitionStateToSelfLoopPdf(state)
                                          : model.TransitionStateToForwardPdf(state));
  }
  return result;
}

kaldi::LatticeFasterDecoderConfig decoder_config(const Options &options) {
  kaldi::LatticeFasterDecoderConfig config;
  config.beam = options.number("beam");
  config.lattice_beam = options.number("lattice-beam");
  config.max_active = options.number("max-active");
  config.min_active = options.number("min-active");
  config.beam_delta = options.number("beam-delta");
  config.hash_ratio = options.number("hash-ratio");
  config.prune_interval = options.number("prune-interval");
  config.determinize.max_mem = options.number("max-mem");
  return config;
}

}  // namespace

int main(int argc, char **argv) {
  Options options(argc, argv,
                  {{"acoustic-scale", "0.1"}, {"beam", "16"}, {"lattice-beam", "10"},
                   {"max-active", "2147483647"}, {"min-active", "200"}, {"beam-delta", "0.5"},
                   {"hash-ratio", "2"}, {"prune-interval", "25"}, {"max-mem", "50000000"},
                   {"determinize-lattice", "false"}, {"allow-partial", "false"},
                   {"text", "false"}, {"each", "false"}},
                  4, kUsage);
  const auto config = decoder_config(options);
  float scale = options.number("acoustic-scale");
  bool determinize = options.flag("determinize-lattice");

  kaldi::TransitionModel model;
  read_transition_model(options.argument(0), &model);
  std::unique_ptr<fst::Fst<kaldi::StdArc>> graph(
      fst::ReadFstKaldiGeneric(options.argument(1), true));
  kaldi::LatticeFasterDecoder decoder(*graph, config);
  ArchiveReader archive(options.argument(2));
  auto out = open_output(options.argument(3));
  std::vector<int> pdf_of;
  size_t utterances = 0, failed = 0, frames = 0, raw_arcs = 0, states = 0, arcs = 0;
  double cost = 0;
  Clock reading, search, determinizer, writing;
  for (std::string key; archive.next(&key);) {
    kaldi::Matrix<float> matrix;
    Clock start = Clock::now();
    bool binary = archive.in().peek() == 0;
    if (binary) archive.in().ignore(2);
    matrix.Read(archive.in(), binary, false);
    reading.add_since(start);
    if (pdf_of.empty()) pdf_of = pdfs(model, matrix);

    ScaledScores scores(pdf_of, matrix, scale);
    kaldi::Lattice lattice;
    start = Clock::now();
    bool decoded = decoder.Decode(&scores);
    decoded &= options.flag("allow-partial") || !std::isinf(decoder.FinalRelativeCost());
    if (decoded) {
      decoder.GetRawLattice(&lattice, true);
      fst::Connect<kaldi::LatticeArc>(&lattice);
    }
    Clock searched = search.add_since(start);
    if (!decoded) {
      std::fprintf(stderr, "%s: no final state reached\n", key.c_str());
      failed++;
      continue;
    }
    start = Clock::now();
    LatticeBytes result = to_bytes(lattice);
    writing.add_since(start);
    double best = result.best_cost();
    utterances++;
    frames += matrix.rows;
    cost += best;
    raw_arcs += result.arcs;
    if (determinize) {
      kaldi::CompactLattice compact;
      start = Clock::now();
      fst::DeterminizeLatticePhonePrunedWrapper(model, &lattice, config.lattice_beam, &compact,
                                                config.determinize);
      determinizer.add_since(start);
      result = to_bytes(compact);
    }
    if (options.flag("each"))
      std::printf("%s %d frames, cost %.9g, search %.6f (%.6f) s, %zu states %zu arcs\n", key.c_str(),
                  matrix.rows, best, searched.cpu, searched.wall, result.states, result.arcs);
    states += result.states;
    arcs += result.arcs;
    result.scale_acoustic(1.0 / scale);
    write_entry(out.get(), key, result, options.flag("text"));
  }
  std::printf("processor (wall) seconds: search %.6f (%.6f), reading %.6f (%.6f), "
              "determinizer %.6f (%.6f), writing %.6f (%.6f); %zu utterances, %zu failed, "
              "%zu frames, log-likelihood a frame %.7g; raw arcs %zu; written %zu states %zu arcs\n",
              search.cpu, search.wall, reading.cpu, reading.wall, determinizer.cpu,
              determinizer.wall, writing.cpu, writing.wall, utterances, failed, frames,
              -cost / frames, raw_arcs, states, arcs);
}
