#include "text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tool.h"

namespace wconv::tool {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

}  // namespace

std::size_t display_width(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t used = display_width(text);
  return std::string(text) + std::string(used < width ? width - used : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t used = display_width(text);
  return std::string(used < width ? width - used : 0, ' ') + std::string(text);
}

std::string shortened(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  std::size_t end = 0, columns = 0;
  while (end < text.size() && columns + 1 < width) {
    ++end;
    while (end < text.size() && is_continuation(text[end])) ++end;
    ++columns;
  }
  return std::string(text.substr(0, end)) + "…";
}

void TextTable::add(std::vector<std::string> cells) {
  cells.resize(alignment_.size());
  for (std::size_t c = 0; c < cells.size(); ++c) widths_[c] = std::max(widths_[c], display_width(cells[c]));
  rows_.push_back(std::move(cells));
}

std::string TextTable::text(std::string_view indent) const {
  std::string out;
  for (const auto& row : rows_) {
    out += indent;
    for (std::size_t c = 0; c < row.size(); ++c) {
      out += c == 0 ? "" : "  ";
      out += alignment_[c] == 'r' ? pad_left(row[c], widths_[c]) : pad_right(row[c], widths_[c]);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  return out;
}

std::string counted(std::uint64_t count, std::string_view one) {
  return fmt::format("{} {}{}", grouped(count), one, count == 1 ? "" : "s");
}

std::string short_count(std::uint64_t number) {
  static constexpr std::array<std::string_view, 5> kUnits = {"", " K", " M", " B", " T"};
  double value = static_cast<double>(number);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return std::to_string(number);
  return fmt::format("{:.{}f}{}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string short_number(double number) { return fmt::format("{:.4g}", number); }

}  // namespace wconv::tool
