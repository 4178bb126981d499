// Rows that a caller has in device memory: checked, and scaled to costs as the search reads them.
#include "lane.cuh"

struct KoshiRows {
    const float *rows;
    float *costs;   // scaled, `columns` a row
    float *raw;     // as they are, `columns` a row
    unsigned *bad;  // of each row: least column that is not usable or KOSHI_NONE, and its value
    unsigned long long stride;
    unsigned dim;
    unsigned columns;
    float scale;
    unsigned reserved;
};

static_assert(sizeof(KoshiRows) == 56, "layout.rs");

// One block a row. The same arithmetic as `scale_row` (src/search/rows.rs).
extern "C" __global__ void __launch_bounds__(KOSHI_THREADS) koshi_k_rows(KoshiRows rows) {
    __shared__ koshi_block_scratch scratch;
    const float *row = rows.rows + blockIdx.x * rows.stride;
    unsigned bad = KOSHI_NONE;
    for (unsigned long long column = threadIdx.x; column < rows.dim; column += KOSHI_THREADS) {
        const float value = row[column];
        const float scaled = -(rows.scale * value);
        const bool no_arc = value == -KOSHI_INFINITY;
        if (!no_arc && !(value < KOSHI_INFINITY && scaled > -KOSHI_INFINITY) && column < bad) {
            bad = unsigned(column);
        }
        if (column < rows.columns) {
            const unsigned long long place = blockIdx.x * (unsigned long long)rows.columns + column;
            rows.costs[place] = no_arc ? KOSHI_INFINITY : scaled;
            rows.raw[place] = value;
        }
    }
    bad = koshi_block_min(bad, &scratch);
    if (threadIdx.x == 0) {
        rows.bad[2 * blockIdx.x] = bad;
        rows.bad[2 * blockIdx.x + 1] = bad == KOSHI_NONE ? 0 : __float_as_uint(row[bad]);
    }
}
