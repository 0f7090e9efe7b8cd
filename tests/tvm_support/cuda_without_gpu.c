/* A driver and runtime of CUDA without a GPU: memory is that of the host, launches are printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned count; } Launch;

int cudaGetDeviceCount(int *count) { *count = 1; return 0; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaSetDevice(int device) { return 0; }
int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
    case 1: case 2: *value = 1024; break;  /* threads of a block */
    case 8: *value = 48 << 10; break;      /* shared memory of a block */
    case 10: *value = 32; break;           /* warp */
    case 75: *value = 8; break;            /* version: 8.0 */
    case 76: *value = 0; break;
    default: *value = 1 << 16;
  }
  return 0;
}
int cudaMalloc(void **data, size_t size) { *data = aligned_alloc(256, (size + 511) / 256 * 256); return 0; }
int cudaMallocHost(void **data, size_t size) { return cudaMalloc(data, size); }
int cudaFree(void *data) { free(data); return 0; }
int cudaFreeHost(void *data) { free(data); return 0; }
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) { memcpy(to, from, size); return 0; }
const char *cudaGetErrorName(int error) { return "error"; }
const char *cudaGetErrorString(int error) { return "error"; }
int cudaStreamCreate(void **stream) { *stream = NULL; return 0; }
int cudaStreamCreateWithFlags(void **stream, unsigned flags) { *stream = NULL; return 0; }
int cudaMemGetInfo(size_t *available, size_t *all) { *available = *all = (size_t)1 << 34; return 0; }
#define NOTHING(name) int name() { return 0; }
NOTHING(cudaEventCreate) NOTHING(cudaEventDestroy) NOTHING(cudaEventElapsedTime) NOTHING(cudaEventRecord)
NOTHING(cudaEventSynchronize) NOTHING(cudaGetDeviceProperties) NOTHING(cudaGetLastError)
NOTHING(cudaPeekAtLastError) NOTHING(cudaGraphDestroy) NOTHING(cudaGraphExecDestroy)
NOTHING(cudaMemcpyPeerAsync) NOTHING(cudaStreamDestroy) NOTHING(cudaStreamSynchronize)
NOTHING(cudaStreamWaitEvent)

/* A graph is the kernels that are launched while it is captured. */
static char captured[1 << 16];
static int capturing;
int cudaStreamBeginCapture(void *stream, int mode) { captured[0] = 0; capturing = 1; return 0; }
int cudaStreamEndCapture(void *stream, void **graph) { *graph = strdup(captured); return capturing = 0; }
int cudaGraphInstantiate(void **made, void *graph, void *node, char *log, size_t size) { *made = strdup(graph); return 0; }
int cudaGraphLaunch(void *graph, void *stream) { printf("graph%s\n", (char *)graph); return 0; }

int cuModuleLoadData(void **module, const unsigned char *code) {
  printf("load %02x%02x%02x%02x\n", code[0], code[1], code[2], code[3]);
  *module = (void *)code;
  return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = strdup(name); return 0; }
int cuLaunchKernelEx(const Launch *launch, void *function, void **arguments, void **extra) {
  unsigned long threads = (unsigned long)launch->block[0] * launch->block[1] * launch->block[2];
  for (int i = 0; i < 3; ++i)
    if (launch->grid[i] < 1 || launch->grid[i] > (i ? 65535u : 2147483647u) || launch->block[i] < 1) return 1;
  if (threads > 1024 || launch->shared > (48 << 10)) return 1;
  if (capturing) return strcat(strcat(captured, " "), function), 0;
  printf("launch %s %u,%u,%u %u,%u,%u %u\n", (char *)function, launch->grid[0], launch->grid[1], launch->grid[2],
         launch->block[0], launch->block[1], launch->block[2], launch->shared);
  return 0;
}
int cuGetErrorName(int error, const char **name) { *name = "error"; return 0; }
int cuGetErrorString(int error, const char **name) { *name = "error"; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "none", size); return 0; }
NOTHING(cuFuncSetAttribute) NOTHING(cuModuleUnload) NOTHING(cuTensorMapEncodeTiled)
