// PyTorch checkpoints, without pickle's power: zip archives, TorchScript, the legacy stream, the older tar, bare
// pickles.
#pragma once

#include "wconv/format.h"

namespace wconv {

const FormatReader& pytorch_reader();
const FormatWriter& pytorch_writer();

}  // namespace wconv
