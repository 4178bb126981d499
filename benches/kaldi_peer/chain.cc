// Kaldi's chain denominator with its derivative on the CPU, timed by itself.
#include <algorithm>
#include <cstdio>

#include "common.h"

namespace {

const char *const kUsage =
    "usage: kaldi-chain [options] DEN_FST PDFS\n"
    "Forward and backward over made-up scores, --repeat times. Prints the log-probability, the sum of the\n"
    "derivatives' squares, and least and median processor seconds.";

// The numbers that ../chain.rs has.
void fill(kaldi::CuMatrix<float> *matrix) {
  uint64_t bits = 0x9e3779b97f4a7c15;
  for (int row = 0; row < matrix->rows; row++) {
    for (int column = 0; column < matrix->columns; column++) {
      bits = bits * 6364136223846793005u + 1442695040888963407u;
      matrix->data[size_t(row) * matrix->stride + column] = float(bits >> 40) / float(1 << 23) - 1;
    }
  }
}

double squares(const kaldi::CuMatrix<float> &matrix) {
  double sum = 0;
  for (int row = 0; row < matrix.rows; row++) {
    const float *values = matrix.data + size_t(row) * matrix.stride;
    for (int column = 0; column < matrix.columns; column++) sum += double(values[column]) * values[column];
  }
  return sum;
}

}  // namespace

int main(int argc, char **argv) {
  Options options(argc, argv,
                  {{"sequences", "128"}, {"frames", "50"}, {"leaky-hmm-coefficient", "0.1"}, {"repeat", "5"}},
                  2, kUsage);
  int sequences = options.number("sequences"), frames = options.number("frames");
  int pdfs = std::atoi(options.argument(1).c_str()), repeat = options.number("repeat");
  if (repeat < 1) fail("--repeat must be at least 1");
  kaldi::chain::ChainTrainingOptions training;
  training.leaky_hmm_coefficient = options.number("leaky-hmm-coefficient");

  std::unique_ptr<fst::VectorFst<kaldi::StdArc>> fst(fst::ReadFstKaldi(options.argument(0)));
  kaldi::chain::DenominatorGraph graph(*fst, pdfs);
  kaldi::CuMatrix<float> output(sequences * frames, pdfs, kaldi::kSetZero, kaldi::kDefaultStride);
  kaldi::CuMatrix<float> derivative(sequences * frames, pdfs, kaldi::kSetZero, kaldi::kDefaultStride);
  fill(&output);
  std::vector<double> seconds;
  double log_probability = 0;
  for (int round = 0; round < repeat; round++) {
    derivative.SetZero();
    Clock total, start = Clock::now();
    kaldi::chain::DenominatorComputation computation(training, graph, sequences, output);
    log_probability = computation.Forward();
    if (!computation.Backward(-1, &derivative)) fail("Kaldi finds its own result wrong");
    seconds.push_back(total.add_since(start).cpu);
  }
  std::printf("log-probability %.7g, squares %.7g, least %.6f, median %.6f\n", log_probability,
              squares(derivative), *std::min_element(seconds.begin(), seconds.end()), median(seconds));
}
