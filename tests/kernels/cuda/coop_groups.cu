// Cooperative groups: tiles of 8 and 32 with shuffles, reductions and scans, labelled partitions, a group of the threads in a branch, block barriers.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void coop_groups(const int *in, int *out, int *odd_count, int n) {
    __shared__ int s[64];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    auto warp = cg::tiled_partition<32>(block);
    int t = block.thread_rank(), i = blockIdx.x * 64 + t, v = i < n ? in[i] : 0;
    s[t] = v;
    block.sync();
    int sum = cg::reduce(tile, v, cg::plus<int>());
    int scan = cg::inclusive_scan(warp, v);
    auto same = cg::labeled_partition(warp, v & 3);
    int most = cg::reduce(same, s[t ^ 1], cg::greater<int>());
    int rank = same.thread_rank() * 100 + same.size();
    if (v & 1) {
        auto odd = cg::coalesced_threads();
        if (odd.thread_rank() == 0)
            atomicAdd(odd_count, (int)odd.size());
    }
    warp.sync();
    int right = tile.shfl_down(v, 1), first = tile.shfl(v, 0);
    int *o = out + i * 6;
    o[0] = sum;
    o[1] = scan;
    o[2] = most;
    o[3] = rank;
    o[4] = right - first;
    o[5] = tile.any(v > 90) + 2 * tile.meta_group_rank();
}
