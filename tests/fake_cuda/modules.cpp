#include "modules.h"

#include <cstring>
#include <memory>
#include <vector>

#include "contexts.h"
#include "engine.h"
#include "host_kernels/table.h"
#include "space.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

constexpr char kMagic[8] = FAKE_CUDA_MAGIC;
constexpr auto kInvalidImage = static_cast<CudaError>(200);  // CUDA_ERROR_INVALID_IMAGE
constexpr unsigned kMaximalBlock = 1024;                     // threads, of all devices of capability 9.0

// A launch while its kernel runs: FakeCudaLaunch comes first, so that the kernel's pointer leads here.
struct Running {
  FakeCudaLaunch launch;
  DeviceNumber device;
  bool failed;
};

char* find_memory(const FakeCudaLaunch* launch, Pointer address, std::size_t bytes, Use use) {
  const Lock lock(process_mutex());
  auto* const running = const_cast<Running*>(reinterpret_cast<const Running*>(launch));
  char* const found = space().access(address, bytes, running->device, use, By::kKernel);
  if (found == nullptr) running->failed = true;
  return found;
}

void* memory_of(const FakeCudaLaunch* launch, unsigned long long address, std::size_t bytes) {
  return find_memory(launch, address, bytes, Use::kWrite);
}

const void* input_of(const FakeCudaLaunch* launch, unsigned long long address, std::size_t bytes) {
  return find_memory(launch, address, bytes, Use::kRead);
}

// What a launch copies: "the number of kernel parameters and their offsets and sizes do not need to be specified as
// that information is retrieved directly from the kernel's image".
struct Launch {
  FakeCudaKernel run = nullptr;
  std::vector<std::vector<char>> parameters;
  unsigned grid[3] = {};
  unsigned block[3] = {};
  unsigned shared_bytes = 0;

  CudaError operator()(DeviceNumber device) {
    std::vector<void*> places;
    for (std::vector<char>& each : parameters) places.push_back(each.data());
    Running running{{memory_of, input_of, shared_bytes}, device, false};
    run(places.data(), grid, block, &running.launch);
    return running.failed ? CudaError::kIllegalAddress : CudaError::kSuccess;
  }
};

CudaError launch_kernel(Function function, const unsigned (&grid)[3], const unsigned (&block)[3],
                        unsigned shared_bytes, Stream handle, void** parameters) {
  const FakeCudaFunction* const known = modules().find(function);
  const auto stream = engine().find(handle);
  if (known == nullptr || stream == nullptr) return CudaError::kInvalidHandle;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] == 0 || block[i] == 0) return CudaError::kInvalidValue;
  }
  if (std::uint64_t{block[0]} * block[1] * block[2] > kMaximalBlock) return CudaError::kInvalidValue;
  if (known->parameter_count > 0 && parameters == nullptr) return CudaError::kInvalidValue;
  const auto launch = std::make_shared<Launch>();
  launch->run = known->run;
  for (unsigned i = 0; i < known->parameter_count; ++i) {
    const auto* const begin = static_cast<const char*>(parameters[i]);
    launch->parameters.emplace_back(begin, begin + known->parameter_sizes[i]);
  }
  std::memcpy(launch->grid, grid, sizeof grid);
  std::memcpy(launch->block, block, sizeof block);
  launch->shared_bytes = shared_bytes;
  const DeviceNumber device = stream->device;
  engine().submit(stream, {.run = [launch, device](Lock& lock) {
                    return engine().run_unlocked(lock, [&] { return (*launch)(device); });
                  }});
  return CudaError::kSuccess;
}

}  // namespace

Modules& modules() {
  static auto* const made = new Modules;
  return *made;
}

CudaError Modules::load(const void* image, DeviceNumber device, Module* module) {
  if (module == nullptr || image == nullptr) return CudaError::kInvalidValue;
  if (is_compiled_image(image)) image = &host_kernels();
  if (std::memcmp(image, kMagic, sizeof kMagic) != 0) return kInvalidImage;
  *module = reinterpret_cast<Module>(next_);
  next_ += 16;
  modules_[*module] = Loaded{device, static_cast<const FakeCudaImage*>(image)};
  return CudaError::kSuccess;
}

CudaError Modules::unload(Module module) {
  if (modules_.erase(module) == 0) return CudaError::kInvalidHandle;
  std::erase_if(functions_, [&](const auto& each) { return each.second.module == module; });
  return CudaError::kSuccess;
}

CudaError Modules::function(Module module, const char* name, Function* function) {
  if (function == nullptr || name == nullptr) return CudaError::kInvalidValue;
  const auto found = modules_.find(module);
  if (found == modules_.end()) return CudaError::kInvalidHandle;
  const FakeCudaImage& image = *found->second.image;
  for (unsigned i = 0; i < image.function_count; ++i) {
    if (std::strcmp(image.functions[i].name, name) != 0) continue;
    *function = reinterpret_cast<Function>(next_);
    next_ += 16;
    functions_[*function] = Known{module, &image.functions[i]};
    return CudaError::kSuccess;
  }
  return CudaError::kNotFound;
}

const FakeCudaFunction* Modules::find(Function function) const {
  const auto found = functions_.find(function);
  return found == functions_.end() ? nullptr : found->second.function;
}

void Modules::end_context(DeviceNumber device) {
  std::vector<Module> gone;
  for (const auto& [module, loaded] : modules_) {
    if (loaded.device == device) gone.push_back(module);
  }
  for (Module module : gone) unload(module);
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake

namespace fake = forklift::device::cuda::fake;
using fake::enter;
using fake::Lock;
using fake::modules;
using fake::Needs;
using forklift::device::cuda::CudaError;
using forklift::device::cuda::Function;
using forklift::device::cuda::Module;
using forklift::device::cuda::Stream;

FAKE_CUDA CudaError cuModuleLoadData(Module* module, const void* image) {
  return enter("cuModuleLoadData", Needs::kContext,
               [&](Lock&) { return modules().load(image, fake::contexts().current_device(), module); });
}

// Queued launches keep nothing of the module, so they are done first.
FAKE_CUDA CudaError cuModuleUnload(Module module) {
  return enter("cuModuleUnload", Needs::kContext, [&](Lock& lock) {
    fake::engine().finish_context(fake::contexts().current_device(), lock);
    if (fake::poison() != CudaError::kSuccess) return fake::poison();
    return modules().unload(module);
  });
}

FAKE_CUDA CudaError cuModuleGetFunction(Function* function, Module module, const char* name) {
  return enter("cuModuleGetFunction", Needs::kContext,
               [&](Lock&) { return modules().function(module, name, function); });
}

FAKE_CUDA CudaError cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z,
                                   unsigned shared_bytes, Stream stream, void** parameters, void** extra) {
  return enter("cuLaunchKernel", Needs::kContext, [&](Lock&) {
    if (extra != nullptr) return CudaError::kNotSupported;
    return fake::launch_kernel(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
                               stream, parameters);
  });
}
