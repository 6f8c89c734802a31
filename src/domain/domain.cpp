#include "domain/domain.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <string>

#include "os/clock.h"
#include "os/limits.h"
#include "os/memfd.h"
#include "os/proc.h"

namespace forklift::inline abi_0_1::domain {

namespace {

std::uint64_t random_id() {
  std::uint64_t id = 0;
  while (id == 0) {
    if (::getrandom(&id, sizeof id, 0) != sizeof id) id = static_cast<std::uint64_t>(os::now_ns());
  }
  return id;
}

HugePageUse use_of(std::optional<bool> wish) {
  constexpr const char* kVariable = "FORKLIFT_HUGE_PAGES";
  const char* const value = std::getenv(kVariable);
  if (!wish && (value == nullptr || *value == '\0')) return HugePageUse::kWhereAdvised;
  return wish.value_or(os::set_in_environment(kVariable)) ? HugePageUse::kAlways : HugePageUse::kNever;
}

}  // namespace

Result<std::unique_ptr<Domain>> Domain::create(const Options& options) {
  // The largest size of the data segment.
  Result<std::uint64_t> wish = os::bytes_in_environment("FORKLIFT_SEGMENT_SIZE");
  if (!wish) return wish.status();
  const std::uint64_t space =
      options.address_space_bytes ? options.address_space_bytes : os::address_space_limit();
  const os::LiftedFileSizeLimit files;
  if (options.segment_bytes != 0) *wish = std::min(*wish, options.segment_bytes);
  Plan plan = make_plan({.address_space = space, .file_size = files.bytes(), .segment = *wish});
  std::unique_ptr<Domain> domain(new Domain);
  for (;;) {
    Status made = domain->make_files(plan, files.bytes());
    if (made) break;
    // A limit on locked memory, an overcommit rule or a tool that simulates the machine (valgrind answers
    // EINVAL) may refuse this size; a smaller one may pass.
    const int error = made.errno_value();
    const bool refused = made.call() == "mmap" && (error == ENOMEM || error == EAGAIN || error == EINVAL);
    if (!refused || plan.data_bytes == kSmallestSegment) return made;
    plan = plan_for(plan.data_bytes / 2);
  }

  Header& header = domain->header();
  header.magic = kMagic;
  header.layout_version = kLayoutVersion;
  header.mutex_bytes = sizeof(pthread_mutex_t);
  header.domain_id = random_id();
  header.control_bytes = plan.control_bytes;
  header.data_bytes = plan.data_bytes;
  header.page_bytes = os::page_size();
  header.pid_namespace = os::pid_namespace();
  header.user = ::geteuid();
  header.regions = plan.regions;
  header.budget.store(options.budget_bytes, std::memory_order_relaxed);
  header.huge_pages.store(static_cast<std::uint64_t>(use_of(options.huge_pages)), std::memory_order_relaxed);
  if (Status status = header.reap_mutex.init(); !status) return status;

  header.trace.categories.store(
      os::set_in_environment("FORKLIFT_TRACE") ? trace::kEverything : trace::kByDefault,
      std::memory_order_relaxed);
  if (Status status = domain->claim_sentinel(); !status) return status;
  Result<ChildSlot> slot = domain->claim_slot();
  if (!slot) return slot.status();
  domain->adopt(*std::move(slot));
  return domain;
}

// Makes the two files and maps the control segment. Also verifies that the data segment and a view of its
// half can be mapped.
Status Domain::make_files(const Plan& plan, std::uint64_t file_size_limit) {
  if (plan.control_bytes > file_size_limit) {
    return {Code::kNoSpace,
            "files of " + std::to_string(file_size_limit) +
                " bytes are all that this process may make, and shared memory is one of at least " +
                std::to_string(plan.control_bytes) + ": raise the limit (RLIMIT_FSIZE, ulimit -f)"};
  }
  Result<os::Fd> control = os::create_memfd("forklift-control", plan.control_bytes);
  if (!control) return control.status();
  Result<os::Fd> data = os::create_memfd("forklift-data", plan.data_bytes);
  if (!data) return data.status();
  Result<os::Mapping> mapping = os::Mapping::shared(*control, 0, plan.control_bytes);
  if (!mapping) return mapping.status();
  // With a margin: whatever is mapped before the arena maps the segment counts against the same limits.
  const Result<os::Mapping> whole = os::Mapping::shared(*data, 0, plan.data_bytes / 4 * 5);
  if (!whole) return whole.status();
  const Result<os::Mapping> view = os::Mapping::shared(*data, plan.data_bytes / 2, plan.data_bytes / 2);
  if (!view) return view.status();
  control_file_ = *std::move(control);
  data_file_ = *std::move(data);
  control_ = *std::move(mapping);
  return {};
}

Result<std::unique_ptr<Domain>> Domain::attach(os::Fd control, os::Fd data, std::optional<ChildSlot> slot) {
  std::unique_ptr<Domain> domain(new Domain);
  domain->control_file_ = std::move(control);
  domain->data_file_ = std::move(data);
  // The process that passed the descriptors on had to make them inheritable. Programs that this process
  // starts must not inherit them: they would keep its slot alive.
  for (const os::Fd* file : {&domain->control_file_, &domain->data_file_, slot ? &slot->lock : nullptr}) {
    if (file == nullptr) continue;
    if (Status status = file->set_close_on_exec(); !status) return status;
  }
  if (Status status = domain->map_files(); !status) return status;
  if (Status status = domain->check_header(); !status) return status;
  if (Status status = domain->claim_sentinel(); !status) return status;
  if (slot && !domain->is_reserved(slot->slot)) {
    return Status(Code::kInvalid,
                  "slot " + std::to_string(slot->slot.index) + " was not reserved for this process");
  }
  if (!slot) {
    Result<ChildSlot> fresh = domain->claim_slot();
    if (!fresh) return fresh.status();
    slot = *std::move(fresh);
  }
  domain->adopt(*std::move(slot));
  return domain;
}

Domain::~Domain() {
  disown_foreign_descriptors();
  if (alive_here_) ::munmap(alive_here_, os::page_size());
  delete called_.load(std::memory_order_relaxed);
}

void Domain::call_it(std::string_view name) {
  auto called = std::make_unique<const std::string>(name);
  const std::string* none = nullptr;
  if (called_.compare_exchange_strong(none, called.get(), std::memory_order_acq_rel)) (void)called.release();
}

std::string Domain::described() const {
  if (const std::string* const called = called_.load(std::memory_order_acquire))
    return "the domain \"" + *called + '"';
  return set_aside_ ? "a domain without a name" : "this process's own domain";
}

Status Domain::map_files() {
  // Touching a page behind the end of a file would be fatal (SIGBUS), so the size of the file is checked
  // against what the header says before all of it is mapped.
  const off_t size = ::lseek(control_file_.get(), 0, SEEK_END);
  if (size < 0) return Status::system("lseek", errno, "control segment");
  if (static_cast<std::uint64_t>(size) < os::page_size())
    return Status(Code::kCorrupt, "the inherited descriptor is no Forklift control segment");
  Result<os::Mapping> first = os::Mapping::shared(control_file_, 0, os::page_size());
  if (!first) return first.status();
  const auto* seen = reinterpret_cast<const Header*>(first->data());
  if (seen->magic != kMagic)
    return Status(Code::kCorrupt, "the inherited descriptor is no Forklift control segment");
  if (seen->layout_version != kLayoutVersion || seen->mutex_bytes != sizeof(pthread_mutex_t)) {
    return Status(Code::kVersion, "the domain has layout version " + std::to_string(seen->layout_version) +
                                      ", this build speaks " + std::to_string(kLayoutVersion) +
                                      "; use one Forklift version in all processes of a tree");
  }
  if (static_cast<std::uint64_t>(size) != seen->control_bytes) {
    return Status(Code::kCorrupt, "the control segment has " + std::to_string(size) +
                                      " bytes, its header says " + std::to_string(seen->control_bytes));
  }
  Result<os::Mapping> whole = os::Mapping::shared(control_file_, 0, seen->control_bytes);
  if (!whole) return whole.status();
  control_ = *std::move(whole);
  return {};
}

Status Domain::check_header() const {
  const Header& seen = header();
  if (seen.ready.load(std::memory_order_acquire) != 1)
    return {Code::kCorrupt, "the domain was never completed"};
  if (seen.page_bytes != os::page_size()) return {Code::kVersion, "the domain uses another page size"};
  if (seen.user != ::geteuid()) {
    return {Code::kRefused, "the domain belongs to user " + std::to_string(seen.user)};
  }
  if (seen.pid_namespace != os::pid_namespace()) {
    return {Code::kRefused, "the domain lives in another pid namespace"};
  }
  const off_t size = ::lseek(data_file_.get(), 0, SEEK_END);
  if (size < 0 || static_cast<std::uint64_t>(size) != seen.data_bytes) {
    return {Code::kCorrupt, "the data segment has another size than its header says"};
  }
  const Plan plan = plan_for(seen.data_bytes);
  bool planned = std::has_single_bit(seen.data_bytes) && plan.control_bytes == seen.control_bytes;
  for (std::size_t i = 0; i < kRegions; ++i) {
    planned = planned && seen.regions[i].offset == plan.regions[i].offset &&
              seen.regions[i].bytes == plan.regions[i].bytes;
  }
  if (!planned) return {Code::kCorrupt, "the control segment is not laid out as its size says"};
  return {};
}

Status Domain::claim_sentinel() {
  control_inode_ = control_file_.inode();
  data_inode_ = data_file_.inode();
  void* page = ::mmap(nullptr, os::page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return Status::system("mmap", errno, "fork sentinel");
  if (::madvise(page, os::page_size(), MADV_WIPEONFORK) != 0) {
    const int error = errno;
    ::munmap(page, os::page_size());
    return Status::system("madvise(MADV_WIPEONFORK)", error, "fork sentinel");
  }
  alive_here_ = new (page) sync::Word[2]{};
  tracer_.open(region(Region::kTraces), header().trace, self_word());
  return {};
}

std::span<std::byte> Domain::region(Region region) const noexcept {
  const Extent extent = header().regions[static_cast<std::size_t>(region)];
  return {control_.data() + extent.offset, extent.bytes};
}

void Domain::disown_foreign_descriptors() noexcept {
  if (control_inode_ == 0) return;
  if (control_file_.inode() != control_inode_) control_file_.release();
  if (data_file_.inode() != data_inode_) data_file_.release();
  if (slot_lock_.inode() != control_inode_) slot_lock_.release();
}

bool Domain::descriptors_intact() const noexcept {
  return control_file_.inode() == control_inode_ && data_file_.inode() == data_inode_;
}

Status Domain::not_attached() const {
  const std::string why = header().pid_namespace != os::pid_namespace()
                              ? "it is in another pid namespace, so no member could tell whether it lives"
                              : "it was made behind fork's back (raw clone), or all " +
                                    std::to_string(kSlotCount) + " slots were taken when it was forked";
  return {Code::kNotAttached, "process " + std::to_string(::getpid()) + " belongs to no domain: " + why};
}

std::uint64_t Domain::budget(std::uint64_t committed) noexcept {
  if (const std::uint64_t set = header().budget.load(std::memory_order_relaxed)) return set;
  std::uint64_t derived = derived_budget_.load(std::memory_order_relaxed);
  if (derived == 0 || committed >= derived) {
    // A tenth is left for other heaps.
    derived = committed + os::available_memory() / 10 * 9;
    derived_budget_.store(derived, std::memory_order_relaxed);
  }
  return derived;
}

}  // namespace forklift::inline abi_0_1::domain
