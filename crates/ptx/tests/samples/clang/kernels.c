/* Compiled to the PTX beside by clang's NVPTX back end (LLVM 22): -O3 for sm_75, -O1 -g for sm_90a, -O0 for sm_120,
 * each with `clang --target=nvptx64-cuda -mcpu=sm_XX -S`. */
typedef unsigned u32; typedef unsigned long long u64;
#define KERNEL __attribute__((nvptx_kernel))
#define G __attribute__((address_space(1)))
#define S __attribute__((address_space(3)))
static S float tile[256];
static inline int gid(void){ return __nvvm_read_ptx_sreg_ctaid_x()*__nvvm_read_ptx_sreg_ntid_x()+__nvvm_read_ptx_sreg_tid_x(); }
KERNEL void saxpy(G float* x, G float* y, float a, int n){ int i=gid(); if(i<n) y[i]=a*x[i]+y[i]; }
KERNEL void reduce(G float* x, G float* o, int n){ int t=__nvvm_read_ptx_sreg_tid_x(); tile[t]=gid()<n?x[gid()]:0; __nvvm_bar_sync(0);
 for(int s=128;s>0;s>>=1){ if(t<s) tile[t]+=tile[t+s]; __nvvm_bar_sync(0);} if(t==0) o[__nvvm_read_ptx_sreg_ctaid_x()]=tile[0]; }
__attribute__((noinline)) static int fib(int n){ return n<2?n:fib(n-1)+fib(n-2); }
KERNEL void calls(G int* o,int n){ o[gid()]=fib(n+(gid()&7)); }
struct P { double a; int b; char c[5]; short d; };
__attribute__((noinline)) static struct P mk(int i, struct P q){ q.a+=i; q.c[i%5]=(char)i; q.d*=3; return q; }
KERNEL void structs(G struct P* p,int n){ int i=gid(); if(i<n){ struct P q=*(struct P*)(p+i); *(struct P*)(p+i)=mk(i,q);} }
KERNEL void sw(G int* o, G int* s,int n){ int i=gid(); int v=s[i]; switch(v){case 0:v=n*7;break;case 1:v=n^3;break;case 2:v=n/5;break;case 3:v=n%11;break;case 4:v=__builtin_popcount(n);break;case 5:v=__builtin_clz(n|1);break;case 6: v=n<<3;break;default:v=-1;} o[i]=v; }
typedef int (*F)(int);
__attribute__((noinline)) static int f1(int a){return a*3;} __attribute__((noinline)) static int f2(int a){return a^9;} 
static F table[2]={f1,f2};
KERNEL void ind(G int* o,int n){ o[gid()]=table[(gid()+n)&1](n); }
KERNEL void loc(G int* o,int n){ int a[64]; for(int i=0;i<64;i++) a[i]=i*n; int s=0; for(int i=0;i<n;i++) s+=a[(i*7)&63]; o[gid()]=s; }
KERNEL void d(G double* x, G u64* y,int n){ int i=gid(); x[i]=x[i]/3.0+(double)y[i]; y[i]=y[i]/7+(u64)x[i]; }
KERNEL void h(G _Float16* x,int n){ int i=gid(); x[i]=x[i]*(_Float16)2.5+(_Float16)n; }
KERNEL void at(G int* x,G u64* y,int n){ __atomic_fetch_add((int*)x,n,__ATOMIC_RELAXED); __atomic_fetch_max((int*)x+1,n,__ATOMIC_SEQ_CST); u64 e=3; __atomic_compare_exchange_n((u64*)y,&e,n,0,__ATOMIC_ACQ_REL,__ATOMIC_ACQUIRE); __atomic_thread_fence(__ATOMIC_ACQ_REL); }
KERNEL void i128(G __int128* x,int n){ int i=gid(); x[i]=x[i]*x[i+1]+n; }
