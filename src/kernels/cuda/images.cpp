#include "kernels/cuda/images.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "os/fd.h"

#ifdef FORKLIFT_CUDA_IMAGE_FOLDER

// The assembler reads the files, which no C++ compiler of our platforms can do yet (#embed).
#define FORKLIFT_IMAGE(name)                                                         \
  __asm__(".section .rodata\n.balign 64\n.hidden forklift_image_" name               \
          "\n"                                                                       \
          "forklift_image_" name ":\n.incbin \"" FORKLIFT_CUDA_IMAGE_FOLDER "/" name \
          ".fatbin\"\n.balign 64\n.previous\n")
FORKLIFT_IMAGE("map");
FORKLIFT_IMAGE("reduce");
FORKLIFT_IMAGE("matmul");
#undef FORKLIFT_IMAGE

extern "C" {
[[gnu::visibility("hidden")]] extern const char forklift_image_map[];
[[gnu::visibility("hidden")]] extern const char forklift_image_reduce[];
[[gnu::visibility("hidden")]] extern const char forklift_image_matmul[];
}

#endif

namespace forklift::inline abi_0_1::kernels::cuda {
namespace {

constexpr std::array<const char*, kImages> kImageNames = {"map", "reduce", "matmul"};

#ifdef FORKLIFT_CUDA_IMAGE_FOLDER
constexpr bool kBuiltIn = true;
const void* built_in(Image image) noexcept {
  switch (image) {
    case Image::kMap: return forklift_image_map;
    case Image::kReduce: return forklift_image_reduce;
    default: return forklift_image_matmul;
  }
}
#else
constexpr bool kBuiltIn = false;
const void* built_in(Image) noexcept { return nullptr; }
#endif

Result<std::vector<char>> contents_of(const std::string& path) {
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return Status::system("open", errno, path);
  std::vector<char> bytes;
  for (;;) {
    constexpr std::size_t kMore = std::size_t{1} << 20;
    const std::size_t before = bytes.size();
    bytes.resize(before + kMore);
    const ssize_t got = ::read(file.get(), bytes.data() + before, kMore);
    if (got < 0 && errno == EINTR) {
      bytes.resize(before);
      continue;
    }
    if (got < 0) return Status::system("read", errno, path);
    bytes.resize(before + static_cast<std::size_t>(got));
    if (got == 0) break;
  }
  bytes.push_back('\0');  // PTX is text that ends with a zero
  return bytes;
}

// Of the folder that the environment names.
Result<const void*> read_image(const std::string& folder, Image image) {
  static std::mutex mutex;
  static auto* const read = new std::array<std::vector<char>, kImages>;  // never destroyed
  const std::lock_guard held(mutex);
  std::vector<char>& bytes = (*read)[static_cast<std::size_t>(image)];
  if (bytes.empty()) {
    Result<std::vector<char>> found =
        contents_of(folder + "/" + kImageNames[static_cast<std::size_t>(image)] + ".fatbin");
    if (!found) return found.status();
    bytes = *std::move(found);
  }
  return static_cast<const void*>(bytes.data());
}

}  // namespace

bool has_images() noexcept { return kBuiltIn; }

Result<const void*> image_of(Image image) {
  if (const char* const folder = std::getenv("FORKLIFT_CUDA_IMAGES"); folder != nullptr && *folder != '\0')
    return read_image(folder, image);
  if (kBuiltIn) return built_in(image);
  return {Code::kUnsupported,
          "this build of Forklift has no kernels for GPUs: it was compiled without nvcc; copy tensors with "
          "to(\"CPU\")"};
}

}  // namespace forklift::inline abi_0_1::kernels::cuda
