// The pickle of a state_dict, protocol 2, as torch.save writes it and torch.load(weights_only=True) takes it.
//
// Source: torch/_tensor.py (Tensor._reduce_ex_internal), torch/serialization.py (persistent_id).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "wconv/tensor.h"

namespace wconv::pytorch {

// A dict from each tensor's name to a dense tensor in storage `storages[i]` (its record is data/<number>).
std::vector<std::byte> state_dict_pickle(std::span<const Tensor> tensors, std::span<const std::size_t> storages);

}  // namespace wconv::pytorch
