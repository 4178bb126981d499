/* The speech of examples/data/prompts, and options that it is decoded well with. */

#ifndef SPEECH_H
#define SPEECH_H

#include "check.h"

#define DATA "examples/data/prompts/"

#define ACOUSTIC_SCALE 0.083333f

/* On the CPU. */
static inline koshi_decoder_config speech_config(void)
{
    koshi_decoder_config config;
    koshi_error *err = NULL;
    CHECK_OK(koshi_decoder_config_init(&config, sizeof config, &err), err);
    config.backend = KOSHI_BACKEND_CPU;
    config.beam = 13;
    config.lattice_beam = 6;
    config.max_active = 7000;
    config.acoustic_scale = ACOUSTIC_SCALE;
    return config;
}

#endif
