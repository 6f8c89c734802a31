#include "guard/libraries.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace forklift::inline abi_0_1::guard {

namespace {

std::string program_path() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string("program");
}

std::uint64_t changes_so_far() {
  std::uint64_t changes = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* out) {
        *static_cast<std::uint64_t*>(out) = module->dlpi_adds + module->dlpi_subs;
        return 1;  // every module tells the same counts
      },
      &changes);
  return changes;
}

int add_module(dl_phdr_info* module, std::size_t, void* out) {
  auto& found = *static_cast<Libraries*>(out);
  found.changes = module->dlpi_adds + module->dlpi_subs;
  const bool is_program = found.all.empty();
  Library library;
  library.path = is_program || !module->dlpi_name ? program_path() : module->dlpi_name;
  library.file = library.path.substr(library.path.rfind('/') + 1);
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr) & segment = module->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = module->dlpi_addr + segment.p_vaddr;
    library.text.push_back({begin, begin + segment.p_memsz});
  }
  found.all.push_back(std::move(library));
  return 0;
}

}  // namespace

std::mutex& tables_mutex() {
  static auto* const mutex = new std::mutex;  // an examination may run while the program ends
  return *mutex;
}

const Library* Libraries::find(std::uintptr_t address) const noexcept {
  auto row = std::upper_bound(rows_.begin(), rows_.end(), address,
                              [](std::uintptr_t value, const Row& each) { return value < each.begin; });
  if (row == rows_.begin()) return nullptr;
  --row;
  return address < row->end ? &all[row->library] : nullptr;
}

std::shared_ptr<const Libraries> mapped_libraries() {
  static auto* const cached = new std::shared_ptr<const Libraries>;
  const std::uint64_t changes = changes_so_far();
  const std::lock_guard<std::mutex> lock(tables_mutex());
  if (*cached && (*cached)->changes == changes) return *cached;
  auto made = std::make_shared<Libraries>();
  ::dl_iterate_phdr(add_module, made.get());
  for (std::size_t at = 0; at < made->all.size(); ++at) {
    for (const Library::Range& range : made->all[at].text)
      made->rows_.push_back({range.begin, range.end, at});
  }
  std::sort(made->rows_.begin(), made->rows_.end(),
            [](const Libraries::Row& a, const Libraries::Row& b) { return a.begin < b.begin; });
  *cached = made;
  return made;
}

std::string own_file() {
  const std::shared_ptr<const Libraries> mapped = mapped_libraries();
  const Library* own = mapped->find(reinterpret_cast<std::uintptr_t>(&own_file));
  return own ? own->file : std::string();
}

void* symbol_of(const Library& library, std::initializer_list<const char*> names) {
  void* const handle = ::dlopen(library.path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
  if (!handle) return nullptr;
  void* found = nullptr;
  for (const char* name : names) {
    void* const address = ::dlsym(handle, name);
    Dl_info where{};
    // dlsym also looks into the libraries that this one needs.
    if (address && ::dladdr(address, &where) != 0 && where.dli_fname && library.path == where.dli_fname) {
      found = address;
      break;
    }
  }
  ::dlclose(handle);
  return found;
}

}  // namespace forklift::inline abi_0_1::guard
