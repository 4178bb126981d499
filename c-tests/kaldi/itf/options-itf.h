// A stand-in for Kaldi's header of that name: docs/kaldi.md lists what the stand-ins hold.
#ifndef KALDI_STAND_IN_OPTIONS_H
#define KALDI_STAND_IN_OPTIONS_H

#include <string>

#include "base/kaldi-types.h"

namespace kaldi {

class OptionsItf {
public:
    virtual void Register(const std::string &name, bool *ptr, const std::string &doc) = 0;
    virtual void Register(const std::string &name, int32 *ptr, const std::string &doc) = 0;
    virtual void Register(const std::string &name, uint32 *ptr, const std::string &doc) = 0;
    virtual void Register(const std::string &name, float *ptr, const std::string &doc) = 0;
    virtual void Register(const std::string &name, double *ptr, const std::string &doc) = 0;
    virtual void Register(const std::string &name, std::string *ptr, const std::string &doc) = 0;
    virtual ~OptionsItf() {}
};

} // namespace kaldi

#endif
