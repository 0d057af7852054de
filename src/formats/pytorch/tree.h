// From the nodes of a pickle to a Model: which part of a nested checkpoint is taken, what its tensors are called, what
// becomes metadata, and what stays an inert object.
#pragma once

#include "formats/pytorch/objects.h"
#include "wconv/format.h"
#include "wconv/model.h"

namespace wconv::pytorch {

// Adds tensors, metadata, findings and left_out to `model`. A pickle that refers to itself, is nested too deep or would
// unfold without end is Error(kCorrupt); one without tensors is Error(kUnsupported) that names its classes; an
// options.key that leads nowhere is Error(kUsage) with the keys that there are.
void read_tree(Objects& objects, const ReadOptions& options, Model& model);

}  // namespace wconv::pytorch
