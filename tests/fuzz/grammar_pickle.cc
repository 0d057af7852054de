// Pickles: one after the other, then bytes (the storages of a legacy .pth). The label of a node is its opcode.
#include "structure.h"

namespace wconv::fuzz {
namespace {

using namespace std::literals;

enum : int { kPickle = 256, kRest };

constexpr char kStop = '.';

// What follows an opcode: a number of `width` bytes, text after its length of `width` bytes, or lines.
enum class Argument : std::uint8_t { kNone, kNumber, kText, kLine, kTwoLines, kFrame };
struct Form {
  Argument argument;
  std::size_t width;
  std::string_view opcodes;
};
constexpr Form kForms[] = {
    {Argument::kNone, 0, "(.012NQRabd}el]ost)u\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98"sv},
    {Argument::kNumber, 1, "Khq\x80\x82"sv},
    {Argument::kNumber, 2, "M\x83"sv},
    {Argument::kNumber, 4, "Jjr\x84"sv},
    {Argument::kNumber, 8, "G"sv},
    {Argument::kText, 1, "UC\x8a\x8c"sv},
    {Argument::kText, 4, "TXB\x8b"sv},
    {Argument::kText, 8, "\x8d\x8e\x96"sv},
    {Argument::kLine, 0, "FILPSVgp"sv},
    {Argument::kTwoLines, 0, "ci"sv},
    {Argument::kFrame, 8, "\x95"sv},
};

constexpr std::string_view kWords[] = {"torch._utils\n_rebuild_tensor_v2",
                                       "torch._utils\n_rebuild_tensor_v3",
                                       "torch._utils\n_rebuild_parameter",
                                       "torch._utils\n_rebuild_qtensor",
                                       "torch._utils\n_rebuild_sparse_tensor",
                                       "torch._tensor\n_rebuild_from_type_v2",
                                       "torch._utils\n_rebuild_device_tensor_from_numpy",
                                       "torch\nFloatStorage",
                                       "torch\nBoolStorage",
                                       "torch\nComplexFloatStorage",
                                       "torch.storage\nUntypedStorage",
                                       "torch.storage\n_load_from_bytes",
                                       "torch\nfloat8_e4m3fn",
                                       "torch\nSize",
                                       "collections\nOrderedDict",
                                       "collections\ndefaultdict",
                                       "numpy.core.multiarray\n_reconstruct",
                                       "numpy.core.numeric\n_frombuffer",
                                       "numpy.core.multiarray\nscalar",
                                       "numpy\ndtype",
                                       "numpy\nndarray",
                                       "builtins\nset",
                                       "_codecs\nencode",
                                       "os\nsystem",
                                       "storage",
                                       "0",
                                       "cpu",
                                       "meta",
                                       "f4",
                                       "state_dict",
                                       "99999999999999999999",
                                       "-1",
                                       "\xff\xff\xff\xff\xff\xff\xff\x7f",
                                       "\0\0\0\0\0\0\0\x80"sv,
                                       ""};

const Form* form_of(int opcode) {
  for (const Form& form : kForms) {
    if (form.opcodes.find(static_cast<char>(opcode)) != std::string_view::npos) return &form;
  }
  return nullptr;
}

bool parse_opcode(Cursor& cursor, Node& node) {
  node.label = static_cast<int>(cursor.number(1));
  const Form* form = form_of(node.label);
  if (form == nullptr) return false;
  node.kind = form->argument == Argument::kNone     ? NodeKind::kMark
              : form->argument == Argument::kNumber ? NodeKind::kNumber
                                                    : NodeKind::kText;
  switch (form->argument) {
    case Argument::kNone:
      break;
    case Argument::kNumber:
      node.number = cursor.number(form->width);
      break;
    case Argument::kFrame:
      cursor.number(form->width);
      break;
    case Argument::kText:
      node.text = cursor.take(cursor.number(form->width));
      break;
    case Argument::kLine:
    case Argument::kTwoLines:
      node.text = cursor.take_line();
      if (form->argument == Argument::kTwoLines) node.text.append("\n").append(cursor.take_line());
  }
  return cursor.ok();
}

bool parse(std::string_view bytes, Node& root) {
  root = group_node(0);
  Cursor cursor(bytes);
  while (true) {
    const std::string_view rest = cursor.rest();
    Node pickle = group_node(kPickle);
    do {
      if (!parse_opcode(cursor, pickle.parts.emplace_back())) {
        if (!rest.empty()) root.parts.push_back(text_node(kRest, rest));
        return root.parts.size() > 1 || (root.parts.size() == 1 && root.parts[0].label == kPickle);
      }
    } while (pickle.parts.back().label != kStop);
    root.parts.push_back(std::move(pickle));
  }
}

std::string opcode_text(const Node& node, std::size_t bytes_after) {
  const std::string opcode(1, static_cast<char>(node.label));
  const Form* form = form_of(node.label);
  switch (form->argument) {
    case Argument::kNone:
      return opcode;
    case Argument::kNumber:
      return opcode + little_endian(node.number, form->width);
    case Argument::kFrame:
      return opcode + little_endian(bytes_after + node.lie, form->width);
    case Argument::kText:
      return opcode + little_endian(node.text.size() + node.lie, form->width) + node.text;
    default:
      return opcode + node.text + '\n';
  }
}

std::string pickle_text(const Node& pickle) {
  std::vector<std::string> opcodes;  // from the last to the first: a frame counts what comes after it
  std::size_t size = 0;
  for (std::size_t i = pickle.parts.size(); i-- > 0;) {
    opcodes.push_back(opcode_text(pickle.parts[i], size));
    size += opcodes.back().size();
  }
  std::string text;
  for (std::size_t i = opcodes.size(); i-- > 0;) text += opcodes[i];
  return text;
}

std::string write(const Node& root) {
  std::string bytes;
  for (const Node& part : root.parts) bytes += part.kind == NodeKind::kText ? part.text : pickle_text(part);
  return bytes;
}

}  // namespace

const Grammar& pickle_grammar() {
  static const Grammar grammar{parse, write, kWords};
  return grammar;
}

}  // namespace wconv::fuzz
