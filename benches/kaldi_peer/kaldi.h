// What the programs beside this file call of Kaldi's shared libraries: names and shapes only.
//
// The libraries come without headers, so the few types passed to them are declared here. Objects
// that Kaldi makes and owns are opaque; those made on our side have room to spare. Everything is
// as in the wheel that ../beside_kaldi.sh fetches: another build of Kaldi may lay its options out otherwise.
// Compile with -D_GLIBCXX_USE_CXX11_ABI=0: the libraries pass std::string the old way.
#ifndef KALDI_PEER_KALDI_H_
#define KALDI_PEER_KALDI_H_

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace fst {

template <class F> class TropicalWeightTpl;
template <class F> class LatticeWeightTpl;
template <class W, class I> class CompactLatticeWeightTpl;
template <class W> struct ArcTpl;
template <class A, class M = std::allocator<A>> class VectorState;

// The first virtual function of every OpenFst class is its destructor, so that `delete` works.
template <class A> class Fst {
 public:
  virtual ~Fst();
};
template <class A> class MutableFst : public Fst<A> {};
template <class A, class S = VectorState<A>> class VectorFst : public MutableFst<A> {
 public:
  VectorFst();
  ~VectorFst() override;

 private:
  char room_[56];
};

template <class A> void Connect(MutableFst<A> *fst);

Fst<ArcTpl<TropicalWeightTpl<float>>> *ReadFstKaldiGeneric(std::string name, bool throw_on_error);
VectorFst<ArcTpl<TropicalWeightTpl<float>>> *ReadFstKaldi(std::string name);

struct DeterminizeLatticePhonePrunedOptions {
  float delta = 1.0f / 1024;
  int max_mem = 50000000;
  bool phone_determinize = true;
  bool word_determinize = true;
  bool minimize = false;
};

}  // namespace fst

namespace kaldi {

using StdArc = fst::ArcTpl<fst::TropicalWeightTpl<float>>;
using LatticeArc = fst::ArcTpl<fst::LatticeWeightTpl<float>>;
using CompactLatticeArc = fst::ArcTpl<fst::CompactLatticeWeightTpl<fst::LatticeWeightTpl<float>, int>>;
using Lattice = fst::VectorFst<LatticeArc>;
using CompactLattice = fst::VectorFst<CompactLatticeArc>;

bool ReadLattice(std::istream &in, bool binary, Lattice **lattice);
bool ReadCompactLattice(std::istream &in, bool binary, CompactLattice **lattice);
bool WriteLattice(std::ostream &out, bool binary, const Lattice &lattice);
bool WriteCompactLattice(std::ostream &out, bool binary, const CompactLattice &lattice);

// Kaldi's default constructor is inline and leaves nothing but empty vectors and zeros.
class TransitionModel {
 public:
  void Read(std::istream &in, bool binary);
  int TransitionIdToTransitionState(int id) const;
  int TransitionStateToForwardPdf(int state) const;
  int TransitionStateToSelfLoopPdf(int state) const;
  bool IsSelfLoop(int id) const;

 private:
  alignas(16) char room_[4096] = {};
};

// Rows of numbers; how far apart they lie is `stride`.
template <class R> class MatrixBase {
 public:
  const R *data = nullptr;
  int columns = 0, rows = 0, stride = 0;
};
template <class R> class Matrix : public MatrixBase<R> {
 public:
  Matrix() = default;
  Matrix(const Matrix &) = delete;
  ~Matrix();
  void Read(std::istream &in, bool binary, bool add);
};

enum MatrixResizeType { kSetZero };
enum MatrixStrideType { kDefaultStride };

// On the CPU laid out as MatrixBase.
template <class R> class CuMatrixBase {
 public:
  R *data = nullptr;
  int columns = 0, rows = 0, stride = 0;
  void SetZero();
};
template <class R> class CuMatrix : public CuMatrixBase<R> {
 public:
  CuMatrix(int rows, int columns, MatrixResizeType resize, MatrixStrideType stride);
  ~CuMatrix();
};

// Where the decoder gets its scores from: the order of these functions is what matters.
class DecodableInterface {
 public:
  virtual float LogLikelihood(int frame, int index) = 0;
  virtual bool IsLastFrame(int frame) const = 0;
  virtual int NumFramesReady() const = 0;
  virtual int NumIndices() const = 0;
  virtual ~DecodableInterface() {}
};

// Only used to learn how many transition-ids a model has.
class DecodableMatrixMapped : public DecodableInterface {
 public:
  DecodableMatrixMapped(const TransitionModel &model, const MatrixBase<float> &scores,
                        int first_frame);
  float LogLikelihood(int frame, int index) override;
  bool IsLastFrame(int frame) const override;
  int NumFramesReady() const override;
  int NumIndices() const override;
  ~DecodableMatrixMapped() override;

 private:
  char room_[248];
};

struct LatticeFasterDecoderConfig {
  float beam = 16;
  int max_active = std::numeric_limits<int>::max();
  int min_active = 200;
  float lattice_beam = 10;
  int prune_interval = 25;
  bool determinize_lattice = true;
  float beam_delta = 0.5;
  float hash_ratio = 2;
  float prune_scale = 0.1;
  fst::DeterminizeLatticePhonePrunedOptions determinize;
};

namespace decoder {
struct StdToken;
}

template <class F, class T> class LatticeFasterDecoderTpl {
 public:
  LatticeFasterDecoderTpl(const F &graph, const LatticeFasterDecoderConfig &config);
  ~LatticeFasterDecoderTpl();
  bool Decode(DecodableInterface *scores);
  bool GetRawLattice(Lattice *lattice, bool use_final_costs) const;
  float FinalRelativeCost() const;

 private:
  alignas(16) char room_[1024];
};
using LatticeFasterDecoder = LatticeFasterDecoderTpl<fst::Fst<StdArc>, decoder::StdToken>;

namespace chain {

struct ChainTrainingOptions {
  float l2_regularize = 0;
  float out_of_range_regularize = 0.01;
  float leaky_hmm_coefficient = 1e-5;
  float xent_regularize = 0;
};

// Its destructor is inline in Kaldi's header: what it holds stays until the program ends.
class DenominatorGraph {
 public:
  DenominatorGraph(const fst::VectorFst<StdArc> &graph, int pdfs);

 private:
  alignas(16) char room_[512] = {};
};

class DenominatorComputation {
 public:
  DenominatorComputation(const ChainTrainingOptions &options, const DenominatorGraph &graph,
                         int sequences, const CuMatrixBase<float> &output);
  ~DenominatorComputation();
  float Forward();
  bool Backward(float weight, CuMatrixBase<float> *derivative);

 private:
  alignas(16) char room_[512] = {};
};

}  // namespace chain

}  // namespace kaldi

namespace fst {

bool DeterminizeLatticePhonePrunedWrapper(const kaldi::TransitionModel &model,
                                          MutableFst<kaldi::LatticeArc> *raw, double beam,
                                          MutableFst<kaldi::CompactLatticeArc> *compact,
                                          DeterminizeLatticePhonePrunedOptions options);

}  // namespace fst

#endif
