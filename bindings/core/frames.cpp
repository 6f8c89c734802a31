#include "bindings/core/frames.h"

#include <frameobject.h>

#include <algorithm>
#include <string_view>

#include "domain/waiting.h"
#include "node/node.h"
#include "os/limits.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

std::string& package() {
  static auto* const folder = new std::string;
  return *folder;
}

// A frame of this package, or one that starts every program and thread, says nothing of where the program is.
bool is_told(std::string_view file) {
  if (!package().empty() && file.starts_with(package())) return false;
  constexpr std::string_view kMachinery[] = {"/threading.py",
                                             "/multiprocessing/process.py",
                                             "/multiprocessing/popen_fork.py",
                                             "/multiprocessing/popen_spawn_posix.py",
                                             "/multiprocessing/context.py",
                                             "/multiprocessing/spawn.py",
                                             "/multiprocessing/forkserver.py"};
  if (file.starts_with("<frozen")) return false;
  return std::none_of(std::begin(kMachinery), std::end(kMachinery),
                      [&](std::string_view each) { return file.ends_with(each); });
}

std::string text_of(nb::handle code, int line, bool innermost) {
  const std::string file = nb::cast<std::string>(code.attr("co_filename"));
  if (!is_told(file)) return {};
  const char* const kName = nb::hasattr(code, "co_qualname") ? "co_qualname" : "co_name";
  const std::string name = nb::cast<std::string>(code.attr(kName));
  return (innermost ? file : file.substr(file.rfind('/') + 1)) + ':' + std::to_string(line) + " in " + name;
}

}  // namespace

std::string own_frames() {
  constexpr int kMost = 12;
  std::string text;
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  for (int told = 0; frame.is_valid() && told < kMost;) {
    auto* const at = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    const std::string one = text_of(code, PyFrame_GetLineNumber(at), text.empty());
    if (!one.empty()) {
      text += (text.empty() ? "" : " < ") + one;
      ++told;
    }
    frame = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return text;
}

bool explains() noexcept {
  static const bool wanted = os::set_in_environment("FORKLIFT_EXPLAIN");
  return wanted;
}

void label_with_line(sync::Label& label) {
  if (!explains()) return;
  std::string line = own_frames();
  line.resize(std::min(line.size(), line.find(" in ")));
  line.erase(0, line.rfind('/') + 1);
  (void)label.set(line);  // too long: it has none
}

void name_process_in_domain() {
  const nb::dict modules = nb::borrow<nb::dict>(PyImport_GetModuleDict());
  const char* const kModule = "multiprocessing.process";
  node::Node* const node = node::Node::existing();
  if (node == nullptr || !modules.contains(kModule)) return;
  const nb::object process = nb::object(modules[kModule]).attr("current_process")();
  node->domain().name_self(nb::cast<std::string>(process.attr("name")));
}

void install_frames(std::string folder) {
  package() = std::move(folder);
  // Waits without hooks of ours are of the library's own threads, whose C++ frames say nothing to a Python programmer.
  domain::call_site_hook.store([] { return std::string(); }, std::memory_order_relaxed);
}

}  // namespace forklift::py
