/* Calls a kernel of an exported library, for CPUs that are emulated: LIBRARY KERNEL, arguments on
 * stdin, results on stdout.
 *
 * Each argument is a kind (0: an int64, 1: a tensor), and its value, or data type, rank, shape and
 * bytes. The result (its type and value) is written first, then all tensors. The functions of TVM's
 * runtime that kernels call are replaced by the simplest ones: tasks run one after the other.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int32_t type, zero; union { int64_t integer; double real; void *pointer; }; } Any;
typedef struct { int32_t type, id; } Device;
typedef struct {
    void *data;
    Device device;
    int32_t rank;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape, *strides;
    uint64_t offset;
} Tensor;
typedef struct { void *sync; int32_t tasks; } Group;
typedef int Kernel(void *, const Any *, int32_t, Any *);
typedef int Task(int, Group *, void *);

enum { INTEGER = 1, TENSOR = 7, CPU = 1, TASKS = 3, ALIGNMENT = 64 };

int TVMBackendParallelLaunch(Task *task, void *data, int tasks) {
    Group group = {0, tasks ? tasks : TASKS};
    for (int number = 0; number < group.tasks; ++number)
        if (task(number, &group, data)) return -1;
    return 0;
}

void *TVMBackendAllocWorkspace(int device, int id, uint64_t bytes, int code, int bits) {
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
}

int TVMBackendFreeWorkspace(int device, int id, void *pointer) {
    free(pointer);
    return 0;
}

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) { fprintf(stderr, "%s: %s\n", kind, message); }

void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count) {
    for (int32_t number = 0; number < count; ++number) fputs(parts[number], stderr);
}

int TVMFFIEnvCheckSignals(void) { return 0; }

/* Kernels call these by name, or through a variable of the library. */
static const struct { const char *name; void *function; } runtime[] = {
    {"__TVMBackendParallelLaunch", TVMBackendParallelLaunch},
    {"__TVMBackendAllocWorkspace", TVMBackendAllocWorkspace},
    {"__TVMBackendFreeWorkspace", TVMBackendFreeWorkspace},
    {"__TVMFFIErrorSetRaisedFromCStr", TVMFFIErrorSetRaisedFromCStr},
    {"__TVMFFIErrorSetRaisedFromCStrParts", TVMFFIErrorSetRaisedFromCStrParts},
};

static Kernel *kernel_of(const char *path, const char *name) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    for (size_t each = 0; each < sizeof runtime / sizeof *runtime; ++each) {
        void **variable = dlsym(library, runtime[each].name);
        if (variable) *variable = runtime[each].function;
    }
    char symbol[1000];
    snprintf(symbol, sizeof symbol, "__tvm_ffi_%s", name);
    Kernel *kernel = (Kernel *)dlsym(library, symbol);
    if (!kernel) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    return kernel;
}

static int64_t number(void) {
    int64_t value;
    if (fread(&value, sizeof value, 1, stdin) != 1) exit(2);
    return value;
}

int main(int count, char **arguments) {
    Any given[64] = {{0}}, result = {0};
    Tensor tensors[64] = {{0}};
    int64_t bytes[64] = {0};
    int64_t total = number();
    for (int64_t position = 0; position < total; ++position) {
        if (!number()) {
            given[position] = (Any){.type = INTEGER, .integer = number()};
            continue;
        }
        Tensor *tensor = tensors + position;
        tensor->device.type = CPU;
        tensor->dtype.code = number(), tensor->dtype.bits = number(), tensor->dtype.lanes = 1;
        tensor->rank = number();
        tensor->shape = calloc(2 * tensor->rank + 1, sizeof *tensor->shape);
        tensor->strides = tensor->shape + tensor->rank;
        for (int32_t axis = 0; axis < tensor->rank; ++axis) tensor->shape[axis] = number();
        int64_t stride = 1;
        for (int32_t axis = tensor->rank; axis-- > 0; stride *= tensor->shape[axis])
            tensor->strides[axis] = stride;
        bytes[position] = number();
        tensor->data = TVMBackendAllocWorkspace(CPU, 0, bytes[position], 0, 0);
        if (fread(tensor->data, 1, bytes[position], stdin) != (size_t)bytes[position]) exit(2);
        given[position] = (Any){.type = TENSOR, .pointer = tensor};
    }
    if (kernel_of(arguments[1], arguments[2])(0, given, total, &result)) return 1;
    int64_t returned[] = {result.type, result.integer};
    fwrite(returned, sizeof returned, 1, stdout);
    for (int64_t position = 0; position < total; ++position)
        if (tensors[position].data) fwrite(tensors[position].data, 1, bytes[position], stdout);
    return fflush(stdout) ? 2 : 0;
}
