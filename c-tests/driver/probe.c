/* Prints what the library finds: one line a GPU, or why there is none; and what a decoder says that asks for one. */

#include "../fst.h"

int main(void)
{
    int count = koshi_cuda_device_count(), at;
    koshi_graph *graph = graph_a();
    koshi_decoder *decoder = NULL;
    koshi_decoder_config config;
    koshi_error *err = NULL;
    for (at = 0; at < count; ++at) {
        koshi_cuda_device info;
        CHECK_OK(koshi_cuda_device_info(at, &info, sizeof info, &err), err);
        printf("%s, %u.%u, %u, %u GiB, %u\n", info.name, info.compute_major, info.compute_minor, info.multiprocessors,
               (unsigned)(info.total_memory >> 30), info.driver_version);
    }
    printf("%s\n", koshi_cuda_why_not());
    CHECK_OK(koshi_decoder_config_init(&config, sizeof config, &err), err);
    config.backend = KOSHI_BACKEND_CUDA;
    if (koshi_decoder_new(graph, &config, &decoder, &err) != KOSHI_OK) {
        printf("%s: %s\n", koshi_status_name(koshi_error_status(err)), koshi_error_message(err));
        CHECK(koshi_error_free(err) == KOSHI_OK);
        err = NULL;
    }
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK);
    config.backend = KOSHI_BACKEND_AUTO;
    CHECK_OK(koshi_decoder_new(graph, &config, &decoder, &err), err);
    CHECK(koshi_decoder_free(decoder) == KOSHI_OK && koshi_graph_free(graph) == KOSHI_OK);
    return 0;
}
