#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ __noinline__ int reduce(int x) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    for (int d = 4; d > 0; d /= 2) x += tile.shfl_down(x, d);
    return tile.shfl(x, 0);
}
