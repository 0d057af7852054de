#include "wconv/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/compare.h"
#include "verify/explain.h"
#include "verify/key_map.h"
#include "verify/values.h"
#include "wconv/engine.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv {
namespace {

using namespace verify_detail;

void set_metrics(TensorComparison& tensor, const Sums& sums) {
  tensor.measured = true;
  tensor.values = sums.values;
  tensor.different_values = sums.different;
  tensor.first_difference = sums.first_difference;
  tensor.nonfinite_mismatches = sums.nonfinite;
  std::copy(std::begin(sums.nans), std::end(sums.nans), std::begin(tensor.nans));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (sums.nonfinite > 0) {
    tensor.max_abs = tensor.rmse = kInfinity;
    tensor.cosine = std::numeric_limits<double>::quiet_NaN();
    tensor.snr_db = -kInfinity;
    return;
  }
  tensor.max_abs = sums.max_abs;
  const std::uint64_t finite = sums.values - sums.set_aside;
  tensor.rmse = finite == 0 ? 0 : std::sqrt(sums.noise / static_cast<double>(finite));
  if (sums.noise == 0 && sums.max_abs == 0) {
    tensor.cosine = 1;
    tensor.snr_db = kInfinity;
    return;
  }
  const bool zero = sums.reference == 0 || sums.candidate == 0;
  tensor.cosine =
      zero ? 0 : std::clamp(sums.product / std::sqrt(sums.reference) / std::sqrt(sums.candidate), -1.0, 1.0);
  tensor.snr_db = sums.reference == 0 ? -kInfinity : 10 * std::log10(sums.reference / sums.noise);
}

bool within(const TensorComparison& tensor, const VerifyOptions& options) {
  if (!options.max_rmse && !options.min_cosine) return false;
  if (tensor.nonfinite_mismatches > 0) return false;
  return (!options.max_rmse || tensor.rmse <= *options.max_rmse) &&
         (!options.min_cosine || tensor.cosine >= *options.min_cosine);
}

std::vector<std::uint64_t> reversed(const std::vector<std::uint64_t>& shape) { return {shape.rbegin(), shape.rend()}; }

// The tensor read as if its two dimensions were exchanged.
Tensor transposed_view(const Tensor& tensor) {
  Tensor view = tensor;
  view.info.shape = reversed(tensor.info.shape);
  const std::vector<std::int64_t> strides = {1, static_cast<std::int64_t>(tensor.info.shape[1])};
  view.data = strided_tensor(tensor.data, info(tensor.info.dtype).block_bytes, 0, view.info.shape, strides);
  return view;
}

class Comparison {
 public:
  Comparison(const Model& reference, const Model& candidate, const VerifyOptions& options)
      : reference_(reference),
        candidate_(candidate),
        options_(options),
        keys_(match_keys(reference, candidate)),
        reading_(options.threads, options.progress, options.interrupted) {}

  VerifyReport run() {
    for (const auto& [r, c] : keys_.pairs) add_tensor(reference_.tensors[r], candidate_.tensors[c]);
    same_flat_.resize(report_.tensors.size());
    if (!options_.keys_only) {
      check_expansion(reference_);
      check_expansion(candidate_);
      check_records(reference_, options_.threads, options_.interrupted);
      check_records(candidate_, options_.threads, options_.interrupted);
      compare_bytes();
      compare_decoded();
      look_for_transposed();
      look_for_reshaped();
      for (const Model* model : {&reference_, &candidate_}) {
        for (const SourceFile& file : model->files) file.file->check_unchanged();
      }
    }
    finish();
    return std::move(report_);
  }

 private:
  void add_tensor(const Tensor& a, const Tensor& b) {
    TensorComparison tensor;
    tensor.name = a.info.name;
    tensor.candidate_name = b.info.name;
    tensor.dtypes[0] = a.info.dtype;
    tensor.dtypes[1] = b.info.dtype;
    tensor.shape = a.info.shape;
    tensor.candidate_shape = b.info.shape;
    tensor.status = a.info.shape != b.info.shape ? "shape" : a.info.dtype != b.info.dtype ? "dtype" : "equal";
    report_.tensors.push_back(std::move(tensor));
  }

  Pair pair_of(std::size_t i) const {
    return {&reference_.tensors[keys_.pairs[i].first], &candidate_.tensors[keys_.pairs[i].second]};
  }

  template <typename Wanted>
  std::vector<std::size_t> select(const Wanted& wanted) const {
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < report_.tensors.size(); ++i) {
      if (wanted(report_.tensors[i])) chosen.push_back(i);
    }
    return chosen;
  }

  std::vector<Pair> pairs_of(const std::vector<std::size_t>& tensors) const {
    std::vector<Pair> pairs;
    for (const std::size_t i : tensors) pairs.push_back(pair_of(i));
    return pairs;
  }

  // Most tensors of two models that should be equal are, byte by byte; the others are decoded afterwards.
  void compare_bytes() {
    const auto tensors = select([](const TensorComparison& t) { return t.status == "equal"; });
    const std::vector<bool> same = same_bytes(pairs_of(tensors), reading_);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      TensorComparison& tensor = report_.tensors[tensors[k]];
      const std::uint64_t values = value_count(pair_of(tensors[k]).reference->info);
      report_.values += values;
      if (!same[k]) {
        tensor.status = "different";
        tensor.same_bits = false;
      } else if (has_values(tensor.dtypes[0])) {
        Sums sums;
        sums.values = values;
        set_metrics(tensor, sums);
      }
    }
  }

  void compare_decoded() {
    const auto tensors =
        select([](const TensorComparison& t) { return t.status == "different" || t.status == "dtype"; });
    std::vector<std::size_t> decodable;
    for (const std::size_t i : tensors) {
      TensorComparison& tensor = report_.tensors[i];
      if (comparable(tensor.dtypes[0], tensor.dtypes[1])) {
        decodable.push_back(i);
      } else if (tensor.status == "dtype") {
        tensor.status = "undecodable";
      }
    }
    const std::vector<Sums> sums = compare_values(pairs_of(decodable), reading_);
    for (std::size_t k = 0; k < decodable.size(); ++k) {
      TensorComparison& tensor = report_.tensors[decodable[k]];
      if (tensor.status == "dtype") report_.values += sums[k].values;
      set_metrics(tensor, sums[k]);
      if (sums[k].different > 0) {
        tensor.status = within(tensor, options_) ? "within" : "different";
      } else if (tensor.status == "different") {
        tensor.status = "equal";
      }
    }
  }

  void look_for_transposed() {
    std::vector<std::size_t> chosen;
    std::vector<Tensor> views;
    for (std::size_t i = 0; i < report_.tensors.size(); ++i) {
      const TensorComparison& tensor = report_.tensors[i];
      const bool candidate_fits = tensor.shape.size() == 2 && reversed(tensor.shape) == tensor.candidate_shape &&
                                  (tensor.status == "shape" || tensor.status == "different") &&
                                  element_count(tensor.shape) > 0;
      if (!candidate_fits || !comparable(tensor.dtypes[0], tensor.dtypes[1])) continue;
      if (!info(tensor.dtypes[0]).whole_bytes() || !info(tensor.dtypes[1]).whole_bytes()) continue;
      Tensor view = transposed_view(*pair_of(i).candidate);
      if (!sample_equal({pair_of(i).reference, &view})) continue;
      chosen.push_back(i);
      views.push_back(std::move(view));
    }
    std::vector<Pair> pairs;
    for (std::size_t k = 0; k < chosen.size(); ++k) pairs.push_back({pair_of(chosen[k]).reference, &views[k]});
    const std::vector<Sums> sums = compare_values(pairs, reading_);
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      if (sums[k].different == 0) report_.tensors[chosen[k]].status = "transposed";
    }
  }

  // Other shapes of as many elements: perhaps the values are the same, in the same order.
  void look_for_reshaped() {
    const auto tensors = select([](const TensorComparison& t) {
      return t.status == "shape" && element_count(t.shape) == element_count(t.candidate_shape) &&
             comparable(t.dtypes[0], t.dtypes[1]);
    });
    const std::vector<Sums> sums = compare_values(pairs_of(tensors), reading_);
    for (std::size_t k = 0; k < tensors.size(); ++k) same_flat_[tensors[k]] = sums[k].different == 0;
  }

  void finish() {
    for (const std::size_t i : keys_.missing) report_.missing.push_back(reference_.tensors[i].info.name);
    for (const std::size_t i : keys_.unexpected) report_.unexpected.push_back(candidate_.tensors[i].info.name);
    report_.explanations = explain_keys(reference_, candidate_, keys_);
    auto more = explain_tensors(report_.tensors, same_flat_, options_.keys_only);
    std::move(more.begin(), more.end(), std::back_inserter(report_.explanations));
    report_.equal = keys_.missing.empty() && keys_.unexpected.empty() && keys_.rules.empty();
    const TensorComparison* worst = nullptr;
    const auto rank = [](const TensorComparison& t) { return std::pair(t.nonfinite_mismatches == 0, t.snr_db); };
    for (const TensorComparison& tensor : report_.tensors) {
      report_.equal = report_.equal && tensor.passes();
      if (!tensor.measured || tensor.different_values == 0) continue;
      if (!worst || rank(tensor) < rank(*worst)) worst = &tensor;
    }
    if (worst) report_.worst = worst->name;
  }

  const Model& reference_;
  const Model& candidate_;
  const VerifyOptions& options_;
  KeyMap keys_;
  Reading reading_;
  VerifyReport report_;
  std::vector<bool> same_flat_;  // for each of report_.tensors
};

}  // namespace

VerifyReport verify(const Model& reference, const Model& candidate, const VerifyOptions& options) {
  return Comparison(reference, candidate, options).run();
}

}  // namespace wconv
