// A stand-in for Kaldi's header of that name: docs/kaldi.md lists what the stand-ins hold.
#ifndef KALDI_STAND_IN_DETERMINIZE_H
#define KALDI_STAND_IN_DETERMINIZE_H

#include "fst/fstlib.h"
#include "itf/options-itf.h"

namespace fst {

struct DeterminizeLatticePhonePrunedOptions {
    float delta = kDelta;
    int max_mem = 50000000;
    bool phone_determinize = true;
    bool word_determinize = true;
    bool minimize = false;

    void Register(kaldi::OptionsItf *opts)
    {
        opts->Register("delta", &delta, "");
        opts->Register("max-mem", &max_mem, "");
        opts->Register("phone-determinize", &phone_determinize, "");
        opts->Register("word-determinize", &word_determinize, "");
        opts->Register("minimize", &minimize, "");
    }
};

} // namespace fst

#endif
