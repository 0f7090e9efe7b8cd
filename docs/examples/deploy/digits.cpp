// Prints the classes of the digits in a plain PGM file, one below the other, by a compiled model.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/extra/module.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <vector>

namespace ffi = tvm::ffi;
using Object = ffi::json::Object;

struct Owned {  // Memory that the program allocates and frees itself.
  void AllocData(DLTensor* tensor, void* data) { tensor->data = data; }
  void FreeData(DLTensor*) {}
};

ffi::Tensor tensor_at(void* data, ffi::ShapeView shape, const std::string& dtype) {
  return ffi::Tensor::FromNDAlloc(Owned(), shape, ffi::StringToDLDataType(dtype),
                                  DLDevice{kDLCPU, 0}, data);
}

// The tensors in a parameter file, which stays mapped: the last argument of `main`.
ffi::Array<ffi::Tensor> map_parameters(const std::string& path, const Object& described) {
  int64_t size = described["bytes"].cast<int64_t>();
  struct stat status;
  int file = open(path.c_str(), O_RDONLY);
  if (file < 0 || fstat(file, &status) != 0 || status.st_size != size)
    TVM_FFI_THROW(ValueError) << path << " is missing or has another size than " << size;
  auto* start = static_cast<char*>(mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0));
  ffi::Array<ffi::Tensor> tensors;
  for (Object each : described["tensors"].cast<ffi::Array<Object>>()) {
    auto shape = each["shape"].cast<ffi::Array<int64_t>>();
    tensors.push_back(tensor_at(start + each["offset"].cast<int64_t>(), ffi::Shape(shape),
                                each["dtype"].cast<std::string>()));
  }
  return tensors;
}

int run(const std::string& path, const char* images) {
  ffi::Module library = ffi::Module::LoadFromFile(path);
  auto machine = library->GetFunction("vm_load_executable").value()().cast<ffi::Module>();
  machine->GetFunction("vm_initialization").value()(static_cast<int>(kDLCPU), 0, 2);

  auto text = machine->GetFunction("metadata").value()().cast<ffi::String>();
  auto metadata = ffi::json::Parse(text).cast<Object>();
  auto labels = metadata["labels"].cast<ffi::Array<ffi::String>>();
  auto image = metadata["images"].cast<Object>()["image"].cast<Object>();

  std::ifstream file(images);
  std::string kind;
  int64_t size = 0, height = 0, most = 0;
  if (!(file >> kind >> size >> height >> most) || kind != "P2")
    TVM_FFI_THROW(ValueError) << images << " is not a plain PGM file";

  // Tensors begin at multiples of 64 bytes.
  size_t bytes = (size * size * sizeof(float) + 63) / 64 * 64;
  auto* pixels = static_cast<float*>(std::aligned_alloc(64, bytes));
  std::vector<ffi::Any> arguments = {tensor_at(pixels, {1, 1, size, size}, "float32")};
  if (metadata["weights"] != nullptr)
    arguments.push_back(map_parameters(path + ".params", metadata["weights"].cast<Object>()));
  std::vector<ffi::AnyView> views(arguments.begin(), arguments.end());

  ffi::Function model = machine->GetFunction("main").value();
  for (int64_t digit = 0; digit < height / size; ++digit) {
    for (int64_t n = 0; n < size * size; ++n) {
      file >> pixels[n];
      pixels[n] *= image["scale"].cast<double>();
    }
    ffi::Any result;
    model.CallPacked(views.data(), views.size(), &result);
    auto output = result.cast<ffi::Array<ffi::Tensor>>()[0];
    auto* scores = static_cast<const float*>(output.data_ptr());
    std::cout << labels[std::max_element(scores, scores + output.numel()) - scores] << "\n";
  }
  std::free(pixels);
  return 0;
}

int main(int count, char** given) {
  try {
    return count == 3 ? run(given[1], given[2]) : 2;
  } catch (const ffi::Error& problem) {
    std::cerr << "error: " << problem.message() << "\n";
    return 1;
  }
}
