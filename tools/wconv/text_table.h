// Columns of text for people, and the other small things that the reports of inspect and verify share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace wconv::tool {

// Columns on a terminal that a text of printable UTF-8 takes: its code points.
std::size_t display_width(std::string_view text);
// The text filled up with spaces on its right or left.
std::string pad_right(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);
// The first `width` columns; the last of them is '…' where the text was longer.
std::string shortened(std::string_view text, std::size_t width);

// Rows of equally many cells, two spaces apart.
class TextTable {
 public:
  // One letter for each column: 'l' left, 'r' right.
  explicit TextTable(std::string alignment) : alignment_(std::move(alignment)), widths_(alignment_.size()) {}
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Lines that begin with `indent`, without spaces at their ends.
  std::string text(std::string_view indent) const;

 private:
  std::string alignment_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

// "1 tensor", "5,771 tensors"
std::string counted(std::uint64_t count, std::string_view one);
// "5.77 M"
std::string short_count(std::uint64_t number);
// Four significant digits: "0.02041", "1.2e-05", "inf", "nan"
std::string short_number(double number);

}  // namespace wconv::tool
