// A stand-in for Kaldi's header of that name: docs/kaldi.md lists what the stand-ins hold.
#ifndef KALDI_STAND_IN_TYPES_H
#define KALDI_STAND_IN_TYPES_H

#include <cstdint>

namespace kaldi {

using BaseFloat = float;
using int32 = std::int32_t;
using uint32 = std::uint32_t;

} // namespace kaldi

#endif
