#include "mpi/job_core.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

#include "forklift/error.h"
#include "mpi/exchange.h"

namespace forklift::inline abi_0_1::mpi {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr unsigned kSpins = 10;
constexpr double kPart = 0.02;
constexpr Seconds kShortest{20e-6}, kLongest{5e-3}, kLongestForData{50e-6};
constexpr Seconds kUnslept{1e-3};
constexpr std::chrono::milliseconds kBetweenLooks{500};
// So long an abort waits for the lock, and then for MPI_Abort to end this process.
constexpr std::chrono::seconds kLastCall{1};
constexpr std::chrono::seconds kAbort{10};

// What launchers and MPI libraries pass to a rank in its environment. With these a child would take itself for the rank.
constexpr std::array<std::string_view, 10> kOfRanks = {"OMPI_",        "PMIX_",     "PMI_",     "PRTE_",
                                                       "ORTE_",        "MPI_LOCAL", "MPIEXEC_", "HYDRA_",
                                                       "I_MPI_HYDRA_", "MV2_COMM_"};

void forget_launcher() {
  std::vector<std::string> names;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view entry = *each;
    if (std::ranges::any_of(kOfRanks, [&](std::string_view start) { return entry.starts_with(start); }))
      names.emplace_back(entry.substr(0, entry.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

std::atomic<JobCore*> living{nullptr};  // NOLINT: one for the process

void at_exit(int status, void*) {
  JobCore* const core = living.load();
  if (core != nullptr && core->me().pid == ::getpid()) core->process_exits(status);
}

int color_of(std::size_t number) { return static_cast<int>(number); }

}  // namespace

Seconds sleep_between(Polling polling, Seconds quiet, unsigned polls) {
  if (polls < kSpins || (polling == Polling::kYields && quiet < Seconds(1))) return Seconds(0);
  return std::clamp(quiet * kPart, kShortest, polling == Polling::kYields ? kLongestForData : kLongest);
}

void pause_between(Polling polling, Clock::time_point since, unsigned polls) {
  const Seconds waited = Clock::now() - since;
  // A rank that is only a little behind is not slept through.
  const Seconds pause = waited < kUnslept ? Seconds(0) : sleep_between(polling, waited, polls);
  if (pause.count() == 0) {
    ::sched_yield();
  } else {
    std::this_thread::sleep_for(pause);
  }
}

void JobCore::check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> words{};
  int length = 0;
  MPI_Error_string(code, words.data(), &length);
  throw Error({Code::kSystem, std::string(call) + " failed: " + words.data()});
}

JobCore::JobCore(int argc, char** argv) : parent_(::getppid()) {
  if (living.load() != nullptr)
    throw Error({Code::kInvalid, "this process has a forklift::mpi::Job already"});
  begin_mpi(argc, argv);
  try {
    meet();
  } catch (const std::exception& error) {
    // Without this the rank would wait in MPI_Finalize, and the others for the rank.
    abort(std::string("a rank cannot go on: ") + error.what(), 1);
  }
  living = this;
  // NOLINTNEXTLINE(cert-err33-c): where it fails, only an exit() before the Job's end goes unnoticed by the other ranks
  static const int registered = ::on_exit(at_exit, nullptr);
  (void)registered;
  if (size() > 1) heart_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
}

void JobCore::begin_mpi(int argc, char** argv) {
  int begun = 0, level = MPI_THREAD_SINGLE;
  check(MPI_Initialized(&begun), "MPI_Initialized");
  if (begun != 0) {
    check(MPI_Query_thread(&level), "MPI_Query_thread");
  } else {
    check(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    owns_mpi_ = true;
  }
  if (level < MPI_THREAD_SERIALIZED)
    throw Error({Code::kUnsupported,
                 "MPI does not give MPI_THREAD_SERIALIZED, which forklift::mpi needs: " +
                     std::string(begun != 0 ? "the program has called MPI_Init_thread for less"
                                            : "this MPI library was built without support for threads")});
  forget_launcher();
}

void JobCore::meet() {
  check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  RankInfo info = this_rank();
  check(MPI_Comm_rank(world_, &info.rank), "MPI_Comm_rank");
  int size = 0;
  check(MPI_Comm_size(world_, &size), "MPI_Comm_size");
  MPI_Comm machine = MPI_COMM_NULL;
  check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, info.rank, MPI_INFO_NULL, &machine),
        "MPI_Comm_split_type");
  info.machine = info.rank;
  check(MPI_Bcast(&info.machine, 1, MPI_INT, 0, machine), "MPI_Bcast");
  check(MPI_Comm_free(&machine), "MPI_Comm_free");
  ranks_.resize(static_cast<std::size_t>(size));
  check(MPI_Allgather(&info, sizeof info, MPI_BYTE, ranks_.data(), sizeof info, MPI_BYTE, world_),
        "MPI_Allgather");
  own_ = static_cast<std::size_t>(info.rank);
  for (const RankInfo& each : ranks_) {
    if (each.version != info.version)
      throw Error({Code::kVersion, described(each) + " has Forklift " + each.version.data() + ", and " +
                                       described(info) + " has " + info.version.data() +
                                       ": run the same program on all nodes"});
  }
  silence_ = value_or_throw(silence(std::getenv("FORKLIFT_MPI_SILENCE")));
  nodes_ = grouped(ranks_, value_or_throw(node_ranks(std::getenv("FORKLIFT_MPI_NODE_RANKS"))));
  for (std::size_t number = 0; number < nodes_.size(); ++number) {
    const auto at = std::ranges::find(nodes_[number].ranks, info.rank);
    if (at == nodes_[number].ranks.end()) continue;
    node_number_ = number;
    local_rank_ = static_cast<int>(at - nodes_[number].ranks.begin());
  }
  check(MPI_Comm_split(world_, color_of(node_number_), local_rank_, &local_), "MPI_Comm_split");
  check(MPI_Comm_split(world_, local_rank_, color_of(node_number_), &lane_), "MPI_Comm_split");
  if (info.rank != 0) check(MPI_Irecv(nullptr, 0, MPI_BYTE, 0, kLeaveTag, world_, &leaving_), "MPI_Irecv");
}

Status JobCore::await(std::span<MPI_Request> requests, Polling polling, const Wait& wait) {
  const Wait begun = wait.begun();
  const Clock::time_point since = Clock::now();
  for (unsigned polls = 0;; ++polls) {
    int done = 0;
    try {
      const std::unique_lock lock = serialized();
      check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
            "MPI_Testall");
    } catch (const Error& error) {
      return error.status();
    }
    if (done != 0) return {};
    if (polls >= kSpins && begun.over()) {
      if (begun.stop().stop_requested())
        return {Code::kInterrupted, "a stop was requested while other nodes were waited for"};
      return {Code::kTimeout, "other nodes did not come in time"};
    }
    pause_between(polling, since, polls);
  }
}

MPI_Comm JobCore::duplicate(MPI_Comm of) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const std::unique_lock lock = serialized();
    check(MPI_Comm_idup(of, &made, &request), "MPI_Comm_idup");
  }
  throw_if_failed(await({&request, 1}, Polling::kSleeps, Wait::forever()));
  return made;
}

void JobCore::release(MPI_Comm& communicator) noexcept {
  // MPI_Comm_free may wait for the other ranks, so those of a job that cannot go on stay.
  if (communicator == MPI_COMM_NULL || is_doomed()) return;
  const std::unique_lock lock = serialized();
  (void)MPI_Comm_free(&communicator);
}

// --- signs of life

void JobCore::send_beat() {
  const std::unique_lock lock = serialized();
  int done = 1;
  check(MPI_Test(&beat_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done == 0) return;  // the next rank does not take what was sent before; the rank after it will notice
  check(MPI_Isend(nullptr, 0, MPI_BYTE, (rank() + 1) % size(), kBeatTag, world_, &beat_), "MPI_Isend");
}

bool JobCore::hear_beats() {
  const std::unique_lock lock = serialized();
  const int before = (rank() + size() - 1) % size();
  bool heard = false;
  for (int flag = 1;;) {
    check(MPI_Iprobe(before, kBeatTag, world_, &flag, MPI_STATUS_IGNORE), "MPI_Iprobe");
    if (flag == 0) return heard;
    check(MPI_Recv(nullptr, 0, MPI_BYTE, before, kBeatTag, world_, MPI_STATUS_IGNORE), "MPI_Recv");
    heard = true;
  }
}

void JobCore::beat(const std::stop_token& stop) {
  const Seconds between(kBeatSeconds), look = kBetweenLooks;
  Seconds unsent = between, quiet{0};
  Clock::time_point before = Clock::now();
  while (!stop.stop_requested()) {
    try {
      if (unsent >= between) {
        send_beat();
        unsent = Seconds(0);
      }
      if (hear_beats()) quiet = Seconds(0);
    } catch (const Error& error) {
      abort("the MPI library failed in " + described(me()) + ": " + error.what(), 1);
    }
    const Clock::time_point now = Clock::now();
    quiet += std::min<Seconds>(now - before, look);
    unsent += now - before;
    before = now;
    if (quiet.count() > silence_) {
      const auto last = static_cast<std::size_t>((rank() + size() - 1) % size());
      abort(described(ranks_[last]) + " has not been heard of for " +
                std::to_string(static_cast<int>(silence_)) +
                " s: it was killed or stopped, or its machine cannot be reached",
            1);
    }
    // The launcher's process on this machine has ended without ending the job.
    if (::getppid() != parent_ && parent_ != 1) std::_Exit(1);
    std::unique_lock lock(pulse_mutex_);
    (void)pulse_.wait_for(lock, stop, kBetweenLooks, [] { return false; });
  }
}

// --- the end

bool JobCore::has_left() {
  if (left_) return true;
  const std::unique_lock lock = serialized();
  int done = 0;
  check(MPI_Test(&leaving_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  left_ = done != 0;
  return left_;
}

void JobCore::doom(const std::string& why) noexcept {
  static std::mutex one;
  const std::lock_guard lock(one);
  if (is_doomed()) return;
  doom_ = why;
  doomed_.store(true, std::memory_order_release);
}

void JobCore::end() {
  std::vector<MPI_Request> requests;
  if (rank() == 0) {
    const std::unique_lock lock = serialized();
    requests.resize(static_cast<std::size_t>(size() - 1), MPI_REQUEST_NULL);
    for (int to = 1; to < size(); ++to)
      check(
          MPI_Isend(nullptr, 0, MPI_BYTE, to, kLeaveTag, world_, &requests[static_cast<std::size_t>(to - 1)]),
          "MPI_Isend");
  } else if (!left_) {
    requests.push_back(leaving_);
  }
  throw_if_failed(await(requests, Polling::kSleeps, Wait::forever()));
  // Signs of life go on until all ranks are here: a rank that is late must not miss its neighbour's.
  MPI_Request barrier = MPI_REQUEST_NULL;
  {
    const std::unique_lock lock = serialized();
    check(MPI_Ibarrier(world_, &barrier), "MPI_Ibarrier");
  }
  throw_if_failed(await({&barrier, 1}, Polling::kSleeps, Wait::forever()));
  heart_ = {};
  // Beats that are on their way are received, or MPI would keep them.
  if (size() > 1) {
    if (beat_ != MPI_REQUEST_NULL) check(MPI_Request_free(&beat_), "MPI_Request_free");
    (void)hear_beats();
  }
  ended_ = true;
  living = nullptr;
  release(lane_);
  release(local_);
  release(world_);
  if (owns_mpi_) check(MPI_Finalize(), "MPI_Finalize");
}

void JobCore::process_exits(int status) {
  if (ended_) return;
  abort(is_doomed() ? doom_
                    : described(me()) + " exits with status " + std::to_string(status) +
                          " before its forklift::mpi::Job was gone",
        status != 0 ? status : 1);
}

JobCore::~JobCore() = default;  // of the exchange nothing is left then

void JobCore::abort(const std::string& why, int status) {
  std::fprintf(stderr, "forklift.mpi: %s\n", why.c_str());
  std::thread([] {
    std::this_thread::sleep_for(kAbort);
    ::kill(::getpid(), SIGKILL);
  }).detach();
  const Clock::time_point until = Clock::now() + kLastCall;
  bool mine = false;
  while (!(mine = mutex_.try_lock()) && Clock::now() < until) std::this_thread::sleep_for(kShortest);
  (void)MPI_Abort(world_ != MPI_COMM_NULL ? world_ : MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace forklift::inline abi_0_1::mpi
