// Prints the tensors of a model of any format: name, dtype, shape.
#include <iostream>

#include "wconv/error.h"
#include "wconv/format.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: list_tensors MODEL\n";
    return 2;
  }
  try {
    const wconv::Model model = wconv::open_model(argv[1], {});
    for (const wconv::Tensor& tensor : model.tensors) {
      std::cout << tensor.info.name << "  " << wconv::name(tensor.info.dtype) << "  [ ";
      for (const std::uint64_t length : tensor.info.shape) std::cout << length << ' ';
      std::cout << "]\n";
    }
  } catch (const wconv::Error& error) {
    std::cerr << "list_tensors: " << error.what() << '\n';
    return wconv::exit_status(error.code());
  }
}
