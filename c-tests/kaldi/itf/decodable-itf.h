// A stand-in for Kaldi's header of that name: docs/kaldi.md lists what the stand-ins hold.
#ifndef KALDI_STAND_IN_DECODABLE_H
#define KALDI_STAND_IN_DECODABLE_H

#include <stdexcept>

#include "base/kaldi-types.h"

namespace kaldi {

class DecodableInterface {
public:
    virtual BaseFloat LogLikelihood(int32 frame, int32 index) = 0;
    virtual bool IsLastFrame(int32 frame) const = 0;
    virtual int32 NumFramesReady() const { throw std::runtime_error("NumFramesReady is not there"); }
    virtual int32 NumIndices() const = 0;
    virtual ~DecodableInterface() {}
};

} // namespace kaldi

#endif
