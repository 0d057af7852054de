// The mutator of every target: by structure where the bytes have one of ours, else by bytes.
#include <algorithm>

#include "structure.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  using namespace wconv::fuzz;
  Random random(seed);
  if (random.below(5) == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const Grammar* grammar :
       {&safetensors_grammar(), &gguf_grammar(), &zip_grammar(), &pickle_grammar(), &onnx_grammar()}) {
    Node root;
    if (!grammar->parse(bytes, root)) continue;
    mutate(root, grammar->words, random);
    if (grammar->settle != nullptr && random.below(2) == 0) grammar->settle(root);
    const std::string written = grammar->write(root);
    if (written.size() > max_size) break;
    std::copy(written.begin(), written.end(), data);
    return random.below(8) == 0 ? LLVMFuzzerMutate(data, written.size(), max_size) : written.size();
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
