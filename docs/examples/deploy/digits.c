/* The same as digits.cpp, by the C interface of TVM FFI, for models without a parameter file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

static TVMFFIAny text(const char* value) {
  TVMFFIAny any = {.type_index = kTVMFFIRawStr};
  any.v_c_str = value;
  return any;
}

static TVMFFIAny integer(int64_t value) {
  TVMFFIAny any = {.type_index = kTVMFFIInt};
  any.v_int64 = value;
  return any;
}

/* The content of a string that a function returned; short ones have no object. */
static const char* content(const TVMFFIAny* value) {
  if (value->type_index == kTVMFFISmallStr) return value->v_bytes;
  return ((TVMFFIByteArray*)((char*)value->v_obj + sizeof(TVMFFIObject)))->data;
}

/* What a call returned; ends the program with the message of an error. */
static TVMFFIAny checked(int failed, TVMFFIAny result) {
  TVMFFIObjectHandle error;
  if (!failed) return result;
  TVMFFIErrorMoveFromRaised(&error);
  TVMFFIErrorCell* cell = (TVMFFIErrorCell*)((char*)error + sizeof(TVMFFIObject));
  fprintf(stderr, "error: %.*s\n", (int)cell->message.size, cell->message.data);
  exit(1);
}

static TVMFFIAny call(TVMFFIAny function, int count, TVMFFIAny* arguments) {
  TVMFFIAny result = {.type_index = kTVMFFINone};
  int failed = TVMFFIFunctionCall(function.v_obj, arguments, count, &result);
  return checked(failed, result);
}

/* Calls a function of the TVM libraries by its name, such as ffi.ArrayGetItem. */
static TVMFFIAny call_global(const char* name, int count, TVMFFIAny* arguments) {
  TVMFFIByteArray bytes = {name, strlen(name)};
  TVMFFIAny function = {.type_index = kTVMFFIFunction};
  TVMFFIObjectHandle handle = NULL;
  checked(TVMFFIFunctionGetGlobal(&bytes, &handle), function);
  function.v_obj = handle;
  TVMFFIAny result = call(function, count, arguments);
  TVMFFIObjectDecRef(handle);
  return result;
}

static TVMFFIAny function_of(TVMFFIAny module, const char* name) {
  return call_global("ffi.ModuleGetFunction", 3, (TVMFFIAny[]){module, text(name), integer(0)});
}

static TVMFFIAny member(TVMFFIAny object, const char* name) {
  return call_global("ffi.MapGetItem", 2, (TVMFFIAny[]){object, text(name)});
}

static TVMFFIAny item(TVMFFIAny array, int64_t number) {
  return call_global("ffi.ArrayGetItem", 2, (TVMFFIAny[]){array, integer(number)});
}

static void release(TVMFFIAny value) {
  if (value.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(value.v_obj);
}

int main(int count, char** given) {
  if (count != 3) return 2;
  TVMFFIAny library = call_global("ffi.ModuleLoadFromFile", 1, (TVMFFIAny[]){text(given[1])});
  TVMFFIAny machine = call(function_of(library, "vm_load_executable"), 0, NULL);
  TVMFFIAny device[] = {integer(kDLCPU), integer(0), integer(2)};
  call(function_of(machine, "vm_initialization"), 3, device);

  TVMFFIAny described = call(function_of(machine, "metadata"), 0, NULL);
  TVMFFIAny metadata = call_global("ffi.json.Parse", 1, &described);
  TVMFFIAny labels = member(metadata, "labels");
  double scale = member(member(member(metadata, "images"), "image"), "scale").v_float64;

  long size, height, most;
  FILE* file = fopen(given[2], "r");
  if (file == NULL || fscanf(file, "P2 %ld %ld %ld", &size, &height, &most) != 3) {
    fprintf(stderr, "error: %s is not a plain PGM file\n", given[2]);
    return 1;
  }
  /* Tensors begin at multiples of 64 bytes. */
  float* pixels = aligned_alloc(64, (size * size * sizeof(float) + 63) / 64 * 64);
  int64_t shape[] = {1, 1, size, size};
  DLManagedTensor image = {.dl_tensor = {.data = pixels, .device = {kDLCPU, 0}, .ndim = 4,
                                         .dtype = {kDLFloat, 32, 1}, .shape = shape}};
  TVMFFIAny input = {.type_index = kTVMFFITensor};
  TVMFFIObjectHandle tensor = NULL;
  checked(TVMFFITensorFromDLPack(&image, 64, 1, &tensor), input);
  input.v_obj = tensor;

  TVMFFIAny model = function_of(machine, "main");
  for (long digit = 0; digit < height / size; ++digit) {
    for (long n = 0; n < size * size; ++n) {
      if (fscanf(file, "%f", &pixels[n]) != 1) return 1;
      pixels[n] *= scale;
    }
    TVMFFIAny outputs = call(model, 1, &input), output = item(outputs, 0);
    DLTensor* found = (DLTensor*)((char*)output.v_obj + sizeof(TVMFFIObject));
    const float* scores = (const float*)((char*)found->data + found->byte_offset);
    int64_t best = 0;
    for (int64_t n = 1; n < found->shape[1]; ++n)
      if (scores[n] > scores[best]) best = n;
    TVMFFIAny label = item(labels, best);
    puts(content(&label));
    release(label), release(output), release(outputs);
  }
  return 0;
}
