// Deflated zip records, unpacked once.
#pragma once

#include <memory>

#include "core/spill.h"
#include "formats/pytorch/zip_archive.h"

namespace wconv::pytorch {

// The bytes of a deflated record. Unpacked into `spill` at the first read, when Error(kCorrupt) is thrown unless size
// and CRC-32 are as the directory says.
std::shared_ptr<const TensorData> inflated_tensor(std::shared_ptr<const File> file, const ZipRecord& record,
                                                  std::shared_ptr<Spill> spill);

}  // namespace wconv::pytorch
