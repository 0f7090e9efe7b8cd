// Runs the digits model of an exported library in TVM's runtime: 64 floats on stdin, 10 on stdout.
#include <dlfcn.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdio>
#include <cstdlib>

namespace ffi = tvm::ffi;

struct Memory {
  void AllocData(DLTensor* tensor) { tensor->data = aligned_alloc(64, 256); }
  void FreeData(DLTensor* tensor) { free(tensor->data); }
};

int main(int count, char** arguments) {
  if (!dlopen("libtvm_runtime.so", RTLD_NOW | RTLD_GLOBAL)) return puts(dlerror()), 1;
  ffi::Module library = ffi::Module::LoadFromFile(arguments[1]);
  ffi::Module machine = library->GetFunction("vm_load_executable").value()().cast<ffi::Module>();
  machine->GetFunction("vm_initialization").value()(int{kDLCPU}, 0, 2);
  ffi::Tensor image = ffi::Tensor::FromNDAlloc(Memory(), ffi::Shape({1, 1, 8, 8}),
                                               DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  if (fread(image.data_ptr(), 4, 64, stdin) != 64) return 2;
  ffi::Any result = machine->GetFunction("main").value()(image);
  ffi::Tensor found = result.as<ffi::Tensor>() ? result.cast<ffi::Tensor>()
                                               : result.cast<ffi::Array<ffi::Tensor>>()[0];
  return fwrite(found.data_ptr(), 4, 10, stdout) == 10 ? 0 : 3;
}
