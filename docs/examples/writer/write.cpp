// Writes text in the style of Python's help(), a character at a time, by a compiled model.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <random>
#include <sstream>
#include <vector>

namespace ffi = tvm::ffi;

struct Aligned {  // Memory of tensors, which begin at multiples of 64 bytes.
  void AllocData(DLTensor* tensor) {
    tensor->data = std::aligned_alloc(64, (ffi::GetDataSize(*tensor) + 63) / 64 * 64);
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

ffi::Tensor allocated(ffi::ShapeView shape, DLDataType dtype) {
  return ffi::Tensor::FromNDAlloc(Aligned(), shape, dtype, DLDevice{kDLCPU, 0});
}

class Model {  // A compiled model and its state.
 public:
  explicit Model(const std::string& path)
      : library_(ffi::Module::LoadFromFile(path)),
        machine_(library_->GetFunction("vm_load_executable").value()().cast<ffi::Module>()) {
    machine_->GetFunction("vm_initialization").value()(static_cast<int>(kDLCPU), 0, 2);
    main_ = machine_->GetFunction("main").value();
    reset();
  }

  // A call may write to the memory of the state, so the values in the library are copied.
  void reset() {
    state_.clear();
    auto first = machine_->GetFunction("initial_state").value()().cast<ffi::Array<ffi::Tensor>>();
    for (ffi::Tensor each : first) {
      state_.push_back(allocated(each.shape(), each.dtype()));
      std::memcpy(state_.back().data_ptr(), each.data_ptr(), ffi::GetDataSize(each));
    }
  }

  void save(std::ostream& file) const {
    for (const ffi::Tensor& each : state_)
      file.write(static_cast<const char*>(each.data_ptr()), ffi::GetDataSize(each));
  }

  void restore(std::istream& file) {
    for (ffi::Tensor& each : state_)
      if (!file.read(static_cast<char*>(each.data_ptr()), ffi::GetDataSize(each)))
        TVM_FFI_THROW(ValueError) << "the file is not a state of this model";
  }

  std::vector<double> operator()(int32_t character) {
    *static_cast<int32_t*>(input_.data_ptr()) = character;
    std::vector<ffi::AnyView> arguments = {input_};
    arguments.insert(arguments.end(), state_.begin(), state_.end());
    ffi::Any made;
    main_.CallPacked(arguments.data(), arguments.size(), &made);
    auto results = made.cast<ffi::Array<ffi::Tensor>>();
    for (size_t n = 0; n < state_.size(); ++n) state_[n] = results[n + 1];
    auto* scores = static_cast<const float*>(results[0].data_ptr());
    return {scores, scores + results[0].numel()};
  }

 private:
  ffi::Module library_, machine_;
  ffi::Function main_{nullptr};
  std::vector<ffi::Tensor> state_;
  ffi::Tensor input_ = allocated({1}, DLDataType{kDLInt, 32, 1});
};

int sampled(std::vector<double> scores, double temperature, std::mt19937& random) {
  auto largest = std::max_element(scores.begin(), scores.end());
  if (temperature == 0) return largest - scores.begin();
  double most = *largest;
  for (double& each : scores) each = std::exp((each - most) / temperature);
  return std::discrete_distribution<int>(scores.begin(), scores.end())(random);
}

int run(const std::string& path, const std::string& beginning, double temperature, int count,
        int texts) {
  Model model(path);
  std::mt19937 random(std::random_device{}());
  std::vector<double> first, scores;
  for (char each : beginning) first = model(each == '\n' ? 0 : each - 31);
  std::stringstream start;
  model.save(start);
  for (int text = 0; text < texts; ++text) {
    start.seekg(0);
    model.restore(start);
    scores = first;
    std::cout << beginning;
    for (int n = 0; n < count; ++n) {
      int character = sampled(scores, temperature, random);
      std::cout << static_cast<char>(character == 0 ? '\n' : character + 31) << std::flush;
      scores = model(character);
    }
    std::cout << "\n";
  }
  return 0;
}

int main(int count, char** given) {
  try {
    if (count == 6)
      return run(given[1], given[2], std::stod(given[3]), std::stoi(given[4]), std::stoi(given[5]));
    std::cerr << "usage: write MODEL.so BEGINNING TEMPERATURE COUNT TEXTS\n";
    return 2;
  } catch (const ffi::Error& problem) {
    std::cerr << "error: " << problem.message() << "\n";
    return 1;
  }
}
