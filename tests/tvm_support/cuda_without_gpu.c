/* A driver and runtime of CUDA without a GPU: memory is that of the host, launches are printed.

   CUDA_FAULT="FUNCTION NUMBER ERROR" makes a call of a function, cudaMalloc or cuLaunchKernelEx, fail: that with the
   number, from 1. "kernel NUMBER ERROR" is an error inside of the kernel of a launch, which all later calls report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned count; } Launch;

static int broken, calls;
static int fails(const char *function) {
  char wanted[64];
  int number, error;
  const char *fault = getenv("CUDA_FAULT");
  if (!fault || sscanf(fault, "%63s %d %d", wanted, &number, &error) != 3 || strcmp(function, wanted)) return 0;
  return ++calls == number ? error : 0;
}

int cudaGetDeviceCount(int *count) { *count = 1; return 0; }
int cudaGetDevice(int *device) { *device = 0; return broken; }
int cudaSetDevice(int device) { return broken; }
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
int cudaMalloc(void **data, size_t size) {
  int error = broken ? broken : fails("cudaMalloc");
  if (!error) *data = aligned_alloc(256, (size + 511) / 256 * 256);
  return error;
}
int cudaMallocHost(void **data, size_t size) { return cudaMalloc(data, size); }
int cudaFree(void *data) { if (!broken) free(data); return broken; }
int cudaFreeHost(void *data) { free(data); return 0; }
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
  if (!broken) memcpy(to, from, size);
  return broken;
}
const char *cudaGetErrorName(int error) {
  return error == 2     ? "cudaErrorMemoryAllocation"
         : error == 700 ? "cudaErrorIllegalAddress"
         : error == 710 ? "cudaErrorAssert"
                        : "cudaErrorInvalidValue";
}
const char *cudaGetErrorString(int error) {
  return error == 2 ? "out of memory" : error == 700 ? "an illegal memory access was encountered" : "invalid argument";
}
int cudaStreamCreate(void **stream) { *stream = NULL; return 0; }
int cudaStreamCreateWithFlags(void **stream, unsigned flags) { *stream = NULL; return 0; }
int cudaMemGetInfo(size_t *available, size_t *all) { *available = *all = (size_t)1 << 34; return broken; }
#define NOTHING(name) int name() { return broken; }
NOTHING(cudaEventCreate) NOTHING(cudaEventDestroy) NOTHING(cudaEventElapsedTime) NOTHING(cudaEventRecord)
NOTHING(cudaEventSynchronize) NOTHING(cudaGetDeviceProperties) NOTHING(cudaGetLastError)
NOTHING(cudaPeekAtLastError) NOTHING(cudaGraphDestroy) NOTHING(cudaGraphExecDestroy)
NOTHING(cudaMemcpyPeerAsync) NOTHING(cudaStreamDestroy) NOTHING(cudaStreamSynchronize)
NOTHING(cudaStreamWaitEvent)

/* A graph is the kernels that are launched while it is captured. */
static char captured[1 << 16];
static int capturing;
int cudaStreamBeginCapture(void *stream, int mode) { captured[0] = 0; capturing = 1; return broken; }
int cudaStreamEndCapture(void *stream, void **graph) { *graph = strdup(captured); capturing = 0; return broken; }
int cudaGraphInstantiate(void **made, void *graph, void *node, char *log, size_t size) { *made = strdup(graph); return broken; }
int cudaGraphLaunch(void *graph, void *stream) { printf("graph%s\n", (char *)graph); return broken; }

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
  int error = fails("cuLaunchKernelEx");
  if (broken || error) return broken ? broken : error;
  broken = fails("kernel");
  if (capturing) return strcat(strcat(captured, " "), function), 0;
  printf("launch %s %u,%u,%u %u,%u,%u %u\n", (char *)function, launch->grid[0], launch->grid[1], launch->grid[2],
         launch->block[0], launch->block[1], launch->block[2], launch->shared);
  return 0;
}
int cuGetErrorName(int error, const char **name) {
  *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
int cuGetErrorString(int error, const char **name) { *name = "error"; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "none", size); return 0; }
NOTHING(cuFuncSetAttribute) NOTHING(cuModuleUnload) NOTHING(cuTensorMapEncodeTiled)
