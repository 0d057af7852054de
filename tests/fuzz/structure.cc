#include "structure.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "wconv/error.h"

namespace wconv::fuzz {
namespace {

constexpr std::size_t kLongText = 300;  // more than one byte can count

// A node and where it hangs.
struct Place {
  Node* parent;
  std::size_t index;
  Node& node() const { return parent->parts[index]; }
};

void collect(Node& group, std::vector<Place>& places) {
  for (std::size_t i = 0; i < group.parts.size(); ++i) {
    places.push_back({&group, i});
    collect(group.parts[i], places);
  }
}

void mutate_number(Node& node, const std::vector<Place>& places, Random& random) {
  switch (random.below(4)) {
    case 0:
      node.number = random.extreme();
      break;
    case 1:
      node.number += random.below(2) == 0 ? 1 : std::uint64_t(0) - 1;
      break;
    case 2:
      node.number = random.below(20);
      break;
    default:
      node.number = places[random.below(places.size())].node().number;
  }
}

void mutate_text(Node& node, std::span<const std::string_view> words, const std::vector<Place>& places,
                 Random& random) {
  std::string& text = node.text;
  const auto at = static_cast<std::ptrdiff_t>(random.below(text.size()));
  switch (random.below(7)) {
    case 0:
      text = words[random.below(words.size())];
      break;
    case 1:
      text = std::string(places[random.below(places.size())].node().text);
      break;
    case 2:
      text.resize(static_cast<std::size_t>(at));
      break;
    case 3:
      text.insert(text.begin() + at, static_cast<char>(random.below(256)));
      break;
    case 4:
      text.resize(text.size() + random.below(kLongText), 'x');
      break;
    case 5: {  // eight bytes of numbers inside bytes
      const std::string number = little_endian(random.extreme(), std::size_t{1} << random.below(4));
      text.replace(static_cast<std::size_t>(at), number.size(), number);
      break;
    }
    default:
      if (!text.empty()) text[static_cast<std::size_t>(at)] ^= static_cast<char>(1 << random.below(8));
  }
}

void lie(Node& node, Random& random) {
  const std::uint64_t size = node.kind == NodeKind::kText ? node.text.size() : node.parts.size();
  node.lie = random.below(2) == 0 ? random.below(5) - 2 : random.extreme() - size;
}

// Removes, doubles, exchanges or replaces a node.
void rearrange(const Place& place, const std::vector<Place>& places, Random& random) {
  auto& siblings = place.parent->parts;
  const auto at = siblings.begin() + static_cast<std::ptrdiff_t>(place.index);
  switch (random.below(4)) {
    case 0:
      siblings.erase(at);
      break;
    case 1: {
      Node copy = place.node();
      siblings.insert(siblings.begin() + static_cast<std::ptrdiff_t>(random.below(siblings.size() + 1)),
                      std::move(copy));
      break;
    }
    case 2:
      std::swap(*at, siblings[random.below(siblings.size())]);
      break;
    default: {  // from the first node of its kind and label that comes after a random one
      const std::size_t first = random.below(places.size());
      for (std::size_t i = 0; i < places.size(); ++i) {
        const Node& other = places[(first + i) % places.size()].node();
        const bool fits = other.kind == NodeKind::kMark || other.label == place.node().label;
        if (&other == &place.node() || other.kind != place.node().kind || !fits) continue;
        Node copy = other;
        place.node() = std::move(copy);
        break;
      }
    }
  }
}

}  // namespace

std::optional<std::uint64_t> small_size(std::optional<DType> dtype, std::span<const std::uint64_t> shape) {
  constexpr std::uint64_t kSmall = 4096;
  try {
    const std::uint64_t size = dtype ? storage_bytes(*dtype, shape) : kSmall + 1;
    return size <= kSmall ? std::optional(size) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string little_endian(std::uint64_t number, std::size_t width) {
  std::string bytes;
  for (std::size_t i = 0; i < width; ++i) bytes += static_cast<char>(i < 8 ? number >> (8 * i) : 0);
  return bytes;
}

std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number > 0x7f; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes += static_cast<char>(number);
}

std::string_view Cursor::take(std::uint64_t size) {
  ok_ = ok_ && size <= rest_.size();
  if (!ok_) return {};
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

std::string_view Cursor::take_line() {
  const std::size_t size = rest_.find('\n');
  const std::string_view line = take(size == std::string_view::npos ? rest_.size() + 1 : size + 1);
  return line.substr(0, line.empty() ? 0 : line.size() - 1);
}

std::uint64_t Cursor::number(std::size_t width) {
  std::uint64_t number = 0;
  const std::string_view bytes = take(width);
  for (std::size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

std::uint64_t Cursor::varint() {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint64_t group = this->number(1);
    number |= (group & 0x7f) << shift;
    if (group < 0x80) return number;
  }
  ok_ = false;
  return 0;
}

std::uint64_t Random::extreme() {
  static constexpr std::uint64_t kExtremes[] = {
      0,          0x7f,       0xff,       0x7fff,     0xffff,     0x7fffffff,         0x80000000, 0xffffffff,
      1ull << 32, 1ull << 42, 1ull << 61, 1ull << 62, 1ull << 63, 0x7fffffffffffffff, ~0ull};
  const std::uint64_t number = kExtremes[below(std::size(kExtremes))];
  return below(3) == 0 ? number + below(5) - 2 : number;
}

void mutate(Node& root, std::span<const std::string_view> words, Random& random) {
  for (std::size_t changes = random.below(2) == 0 ? 1 : 1 + random.below(3); changes > 0; --changes) {
    std::vector<Place> places;
    collect(root, places);
    if (places.empty()) return;
    const Place place = places[random.below(places.size())];
    Node& node = place.node();
    if (random.below(3) == 0 || node.kind == NodeKind::kMark)
      rearrange(place, places, random);
    else if (node.kind == NodeKind::kNumber)
      mutate_number(node, places, random);
    else if (node.kind == NodeKind::kGroup || random.below(6) == 0)
      random.below(2) == 0 ? lie(node, random) : rearrange(place, places, random);
    else
      mutate_text(node, words, places, random);
  }
}

}  // namespace wconv::fuzz
