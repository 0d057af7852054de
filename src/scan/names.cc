#include "scan/names.h"

#include <algorithm>
#include <array>
#include <string>

#include "formats/pytorch/globals.h"

namespace wconv::scan {
namespace {

// Data to the reader of tensors, but read by running another pickle.
constexpr std::string_view kNotData[] = {"joblib.numpy_pickle.NumpyArrayWrapper"};

// The tensor types of torch before 0.4, by which old checkpoints name their tensors: torch.FloatTensor.
bool is_tensor_type(std::string_view name) {
  for (const std::string_view module : {"torch.cuda.", "torch."}) {
    if (!name.starts_with(module) || !name.ends_with("Tensor")) continue;
    name.remove_prefix(module.size());
    const std::string storage = "torch." + std::string(name.substr(0, name.size() - 6)) + "Storage";
    return pytorch::lookup_global(storage).meaning == pytorch::Meaning::kStorage;
  }
  return false;
}

// Modules that are known from attacks. Only the verdict's word depends on this list: a name that it lacks is refused
// as unknown.
constexpr auto kDangerous = std::to_array<std::string_view>({
    "__builtin__", "_io",        "_operator",     "_pickle",    "_posixsubprocess",
    "_pyrepl",     "_thread",    "aiohttp",       "asyncio",    "bdb",
    "builtins",    "cProfile",   "cloudpickle",   "code",       "codeop",
    "commands",    "ctypes",     "dill",          "distutils",  "doctest",
    "ensurepip",   "ftplib",     "functools",     "http",       "httplib",
    "idlelib",     "imaplib",    "importlib",     "io",         "lib2to3",
    "linecache",   "logging",    "marshal",       "mmap",       "multiprocessing",
    "nt",          "numpy.f2py", "numpy.testing", "operator",   "os",
    "pathlib",     "pdb",        "pickle",        "pip",        "pkgutil",
    "platform",    "popen2",     "posix",         "posixpath",  "profile",
    "pty",         "pydoc",      "requests",      "runpy",      "shelve",
    "shutil",      "site",       "smtplib",       "socket",     "sqlite3",
    "ssl",         "subprocess", "sys",           "tempfile",   "test",
    "threading",   "timeit",     "torch.hub",     "torch.load", "torch.serialization",
    "trace",       "types",      "urllib",        "urllib2",    "uuid",
    "venv",        "webbrowser", "zipimport",
});

}  // namespace

Verdict verdict_of_global(std::string_view name) {
  if (is_tensor_type(name)) return Verdict::kData;
  const bool data = pytorch::lookup_global(name).meaning != pytorch::Meaning::kUnknown;
  if (data && std::find(std::begin(kNotData), std::end(kNotData), name) == std::end(kNotData)) return Verdict::kData;
  const bool known = std::any_of(kDangerous.begin(), kDangerous.end(), [&](std::string_view module) {
    return name == module || (name.starts_with(module) && name[module.size()] == '.');
  });
  return known ? Verdict::kDanger : Verdict::kUnknown;
}

}  // namespace wconv::scan
