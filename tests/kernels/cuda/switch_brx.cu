// A byte-code machine: built with --jump-table-density, the switch over opcodes becomes a jump table (brx.idx). One program a thread.
// nvcc: --jump-table-density=10
extern "C" __global__ void switch_brx(const unsigned char *code, const unsigned *starts, int *out, int programs, int max_steps) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= programs)
        return;
    const unsigned char *pc = code + starts[p];
    int acc = p, tmp = 1, steps = 0;
    for (; steps < max_steps; steps++) {
        int op = pc[0], arg = pc[1], swap;
        pc += 2;
        switch (op) {
        case 0: acc += arg; break;
        case 1: acc -= arg; break;
        case 2: acc *= arg; break;
        case 3: acc ^= arg << 8; break;
        case 4: tmp = acc; break;
        case 5: acc += tmp; break;
        case 6: acc = acc << (arg & 31); break;
        case 7: acc = acc >> (arg & 31); break;
        case 8: if (acc < 0) pc += 2; break;
        case 9: acc = acc < tmp ? acc : tmp; break;
        case 10: acc = -acc; tmp ^= 0x55; break;
        case 11: goto done;
        case 12: acc = __popc(acc) + tmp; break;
        case 13: acc = __brev(acc); break;
        case 14: swap = acc; acc = tmp; tmp = swap; break;
        case 15: if (arg) acc = acc / arg; break;
        case 16: tmp = acc & arg; break;
        case 17: acc |= arg << 16; break;
        case 18: acc = acc > tmp ? acc : tmp; break;
        case 19: acc = __clz(acc) - arg; break;
        case 20: acc = (int)((long long)acc * 0x10001 >> 8); break;
        default: acc ^= 0x5a5a5a5a; break;
        }
    }
done:
    out[p * 2] = acc;
    out[p * 2 + 1] = steps;
}
