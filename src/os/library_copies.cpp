#include "os/library_copies.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

// The word to which the note leads: 1 while this copy is in use. The word's name and the note's form are the
// same in every release.
extern "C" {
[[gnu::used, gnu::visibility("hidden")]] constinit std::atomic<std::uint32_t> forklift_copy_in_use{0};
}

// The note has the name "forklift" and the type 1; its description is the distance from itself to the word.
asm(R"(
  .pushsection .note.forklift, "a", %note
  .balign 4
  .long 9, 8, 1
  .asciz "forklift"
  .balign 4
  .quad forklift_copy_in_use - .
  .popsection
)");

namespace forklift::inline abi_0_1::os {

namespace {

constexpr std::string_view kNoteName("forklift\0", 9);
constexpr std::uint32_t kNoteType = 1;

std::string path_of(const dl_phdr_info& module) {
  if (module.dlpi_name != nullptr && module.dlpi_name[0] != '\0') return module.dlpi_name;
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "the program";
}

// The word of the copy in this module; nullptr if the module contains no copy.
const std::atomic<std::uint32_t>* word_in(const dl_phdr_info& module) {
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr) & segment = module.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const std::size_t align = segment.p_align == 8 ? 8 : 4;
    const auto padded = [align](std::size_t size) { return (size + align - 1) & ~(align - 1); };
    const auto* const notes = reinterpret_cast<const std::byte*>(module.dlpi_addr + segment.p_vaddr);
    for (std::size_t at = 0; at + sizeof(ElfW(Nhdr)) <= segment.p_memsz;) {
      ElfW(Nhdr) note;
      std::memcpy(&note, notes + at, sizeof note);
      const std::byte* const name = notes + at + sizeof note;
      const std::byte* const description = name + padded(note.n_namesz);
      at += sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
      if (at > segment.p_memsz) break;
      std::int64_t distance = 0;
      if (note.n_type != kNoteType || note.n_namesz != kNoteName.size() || note.n_descsz != sizeof distance ||
          std::memcmp(name, kNoteName.data(), kNoteName.size()) != 0)
        continue;
      std::memcpy(&distance, description, sizeof distance);
      return reinterpret_cast<const std::atomic<std::uint32_t>*>(description + distance);
    }
  }
  return nullptr;
}

struct Copies {
  std::string own;
  std::string other;  // another copy that is in use; empty if there is none
};

Copies find_copies() {
  Copies copies;
  ::dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* found) {
        const std::atomic<std::uint32_t>* const word = word_in(*module);
        auto& result = *static_cast<Copies*>(found);
        if (word == &forklift_copy_in_use) {
          result.own = path_of(*module);
        } else if (word != nullptr && word->load() != 0) {
          result.other = path_of(*module);
        }
        return 0;
      },
      &copies);
  return copies;
}

}  // namespace

Status claim_process() {
  forklift_copy_in_use.store(1);
  const Copies copies = find_copies();
  if (copies.other.empty()) return {};
  const char* const allowed = std::getenv("FORKLIFT_COPIES");
  if (allowed != nullptr && std::string_view(allowed) == "separate") return {};
  unclaim_process();
  return Status(Code::kRefused,
                "this process has two copies of libforklift, and the one in " + copies.other +
                    " is in use; the one in " + copies.own +
                    " has tables of its own. Link both with the shared library (BUILD_SHARED_LIBS=ON). Where "
                    "no queue, tensor or lock goes from one to the other, FORKLIFT_COPIES=separate in the "
                    "environment lets each have a domain");
}

void unclaim_process() noexcept { forklift_copy_in_use.store(0); }

}  // namespace forklift::inline abi_0_1::os
