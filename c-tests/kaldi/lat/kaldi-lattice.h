// A stand-in for Kaldi's header of that name: docs/kaldi.md lists what the stand-ins hold.
#ifndef KALDI_STAND_IN_LATTICE_H
#define KALDI_STAND_IN_LATTICE_H

#include "base/kaldi-types.h"
#include "fstext/lattice-weight.h"

namespace kaldi {

using LatticeWeight = fst::LatticeWeightTpl<BaseFloat>;
using CompactLatticeWeight = fst::CompactLatticeWeightTpl<LatticeWeight, int32>;
using LatticeArc = fst::ArcTpl<LatticeWeight>;
using CompactLatticeArc = fst::ArcTpl<CompactLatticeWeight>;
using Lattice = fst::VectorFst<LatticeArc>;
using CompactLattice = fst::VectorFst<CompactLatticeArc>;

} // namespace kaldi

#endif
