// The libraries that are mapped into this process, as the dynamic linker knows them.
//
//   const std::shared_ptr<const Libraries> mapped = mapped_libraries();
//   if (const Library* library = mapped->find(address)) use(library->file);
//
// The list is made again only after a library was loaded or unloaded, which the linker counts, so that asking
// costs a microsecond. Nothing here loads a library or runs code of one.
// Thread safety: yes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace forklift::inline abi_0_1::guard {

struct Library {
  std::string path;
  std::string file;  // the last part of the path
  struct Range {
    std::uintptr_t begin;
    std::uintptr_t end;
  };
  std::vector<Range> text;  // its executable segments
};

class Libraries {
 public:
  std::vector<Library> all;  // the program first
  // How many times a library was loaded or unloaded before this list was made.
  std::uint64_t changes = 0;

  // The library that has the code at this address; nullptr if none has.
  const Library* find(std::uintptr_t address) const noexcept;

 private:
  friend std::shared_ptr<const Libraries> mapped_libraries();
  struct Row {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::size_t library;
  };
  std::vector<Row> rows_;  // by address
};

std::shared_ptr<const Libraries> mapped_libraries();

// Of all tables of this room. It is never held while another lock is taken or a guard runs, and rest.h holds it
// across forks, so that a child finds the tables whole and the mutex free.
std::mutex& tables_mutex();

// The file of the code of Forklift itself: an extension module, a shared library or the program.
std::string own_file();

// A function or variable of this one library under one of these names; nullptr if the library has none.
void* symbol_of(const Library& library, std::initializer_list<const char*> names);

}  // namespace forklift::inline abi_0_1::guard
