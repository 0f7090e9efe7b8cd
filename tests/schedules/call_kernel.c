/* Calls one compiled kernel, for CPUs that are emulated: arguments on stdin, results on stdout.
 *
 * kernels.inc has KERNEL(name) for each kernel of the object file that this is linked with. Each
 * argument is a kind (0: an int64, 1: a tensor), and its value, or data type, rank, shape and bytes.
 * All tensors are written back. The functions of TVM's runtime that kernels call are replaced by
 * the simplest ones: tasks run one after the other.
 */
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

static int launch(Task *task, void *data, int tasks) {
    Group group = {0, tasks ? tasks : TASKS};
    for (int number = 0; number < group.tasks; ++number)
        if (task(number, &group, data)) return -1;
    return 0;
}

static void *allocate(int device, int id, uint64_t bytes, int code, int bits) {
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
}

static int release(int device, int id, void *pointer) {
    free(pointer);
    return 0;
}

static void fail(const char *kind, const char *message) { fprintf(stderr, "%s: %s\n", kind, message); }

static void fail_in_parts(const char *kind, const char **parts, int32_t count) {
    for (int32_t number = 0; number < count; ++number) fputs(parts[number], stderr);
}

#define REPLACE(name, function)                     \
    extern void *name __attribute__((weak));        \
    __attribute__((constructor)) static void set##name(void) { if (&name) name = (void *)function; }
REPLACE(__TVMBackendParallelLaunch, launch)
REPLACE(__TVMBackendAllocWorkspace, allocate)
REPLACE(__TVMBackendFreeWorkspace, release)
REPLACE(__TVMFFIErrorSetRaisedFromCStr, fail)
REPLACE(__TVMFFIErrorSetRaisedFromCStrParts, fail_in_parts)

#define KERNEL(name) extern Kernel __tvm_ffi_##name;
#include "kernels.inc"
#undef KERNEL

static const struct { const char *name; Kernel *call; } kernels[] = {
#define KERNEL(name) {#name, __tvm_ffi_##name},
#include "kernels.inc"
};

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
        tensor->data = allocate(CPU, 0, bytes[position], 0, 0);
        if (fread(tensor->data, 1, bytes[position], stdin) != (size_t)bytes[position]) exit(2);
        given[position] = (Any){.type = TENSOR, .pointer = tensor};
    }
    for (size_t each = 0; each < sizeof kernels / sizeof *kernels; ++each)
        if (!strcmp(kernels[each].name, arguments[1])) {
            if (kernels[each].call(0, given, total, &result)) return 1;
            for (int64_t position = 0; position < total; ++position)
                if (tensors[position].data) fwrite(tensors[position].data, 1, bytes[position], stdout);
            return 0;
        }
    return 3;
}
