#include "guard/runtimes.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <map>
#include <memory>

#include "guard/known_runtimes.h"
#include "guard/rest.h"

namespace forklift::inline abi_0_1::guard {

namespace {

// The digits of a name such as "libarrow.so.2601.0.0".
std::string version_in(const std::string& file) {
  const std::size_t at = file.find(".so.");
  return at == std::string::npos ? std::string() : file.substr(at + 4);
}

std::string text_of(const Library& library, std::initializer_list<const char*> functions) {
  void* const found = symbol_of(library, functions);
  const char* const text = found ? reinterpret_cast<const char* (*)()>(found)() : nullptr;
  return text ? text : "";
}

std::string count_in_words(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " thread" : " threads");
}

// Threads that are still to be attributed. take() removes those that the predicate accepts.
class Rest {
 public:
  explicit Rest(const std::vector<Thread>& threads) : threads_(threads) {}
  template <class Accepts>
  std::vector<Thread> take(Accepts&& accepts) {
    std::vector<Thread> taken;
    std::erase_if(threads_, [&](const Thread& each) {
      if (!accepts(each)) return false;
      taken.push_back(each);
      return true;
    });
    return taken;
  }

 private:
  std::vector<Thread> threads_;
};

void add_threads(Finding& finding, const std::vector<Thread>& threads) {
  bool busy = false;
  for (const Thread& thread : threads) {
    finding.threads.push_back(thread.name);
    busy = busy || thread.busy();
  }
  finding.state = threads.empty() ? "loaded" : busy ? "busy" : "idle";
}

Finding judge_gomp(const Library& library, const std::vector<Thread>& threads) {
  Finding finding;
  finding.library = "libgomp";
  finding.version = version_in(library.file);
  finding.reference = "GCC bug 60035, pytorch/pytorch#17199";
  add_threads(finding, threads);
  const bool pauses = can_pause(library);
  finding.evidence =
      library.file + (pauses ? " has" : " has no") + " omp_pause_resource_all; " +
      (threads.empty() ? "no parallel region has run"
                       : "its pool has " + count_in_words(threads.size()) + ", which a child would wait for");
  switch (rest_mode()) {
    case RestMode::kOn:
      finding.remedy = pauses ? "done: the pool ends before a fork and begins anew on both sides"
                              : "done: the child computes on one thread";
      break;
    case RestMode::kSingle: finding.remedy = "done: the child computes on one thread"; break;
    case RestMode::kOff:
      if (!threads.empty()) finding.verdict = Verdict::kWillHang;
      finding.remedy = std::string("FORKLIFT_FORK_REST=on in the environment, or ") + kOtherMethod;
      break;
  }
  return finding;
}

Finding judge_openblas(const Library& library, const std::vector<Thread>& threads) {
  Finding finding;
  finding.library = "OpenBLAS";
  finding.version = text_of(library, {"openblas_get_config", "openblas_get_config64_",
                                      "scipy_openblas_get_config", "scipy_openblas_get_config64_"});
  if (finding.version.starts_with("OpenBLAS ")) {
    finding.version = finding.version.substr(9, finding.version.find(' ', 9) - 9);
  }
  finding.reference = "OpenMathLib/OpenBLAS#294";
  add_threads(finding, threads);
  finding.evidence = library.file +
                     " ends its threads at a fork; a call in flight in another thread then hangs "
                     "the parent";
  if (rest_mode() == RestMode::kOff) {
    finding.verdict = Verdict::kSafeIfIdle;
    finding.remedy = "FORKLIFT_FORK_REST=on in the environment";
  } else {
    finding.remedy = "done: a fork waits until calls of other threads have ended";
  }
  return finding;
}

Finding judge_runtime(const Runtime& runtime, const Library* library, const std::vector<Thread>& threads) {
  Finding finding;
  finding.library = runtime.name;
  if (library) finding.version = version_in(library->file);
  add_threads(finding, threads);
  finding.verdict = threads.empty() ? runtime.loaded : finding.state == "busy" ? runtime.busy : runtime.idle;
  finding.evidence = library ? library->file : std::string("threads of its names");
  finding.evidence +=
      threads.empty() ? " is loaded and has no threads" : " has " + count_in_words(threads.size());
  finding.evidence += std::string("; ") + runtime.why;
  finding.reference = runtime.reference;
  if (finding.verdict != Verdict::kSafe) finding.remedy = runtime.remedy;
  return finding;
}

void judge_known(const Libraries& libraries, Rest& rest, std::vector<Finding>& findings) {
  for (const Library& library : libraries.all) {
    const auto of_this = [&](const Thread& thread) { return thread.owner == library.file; };
    if (is_gomp(library)) findings.push_back(judge_gomp(library, rest.take(of_this)));
    if (is_openblas(library)) findings.push_back(judge_openblas(library, rest.take(of_this)));
  }
  for (const Runtime& runtime : known_runtimes()) {
    const auto library = std::ranges::find_if(
        libraries.all, [&](const Library& each) { return matches(runtime.files, each.file); });
    const std::vector<Thread> threads = rest.take([&](const Thread& thread) {
      return matches(runtime.files, thread.owner) || matches(runtime.threads, thread.name);
    });
    const bool mapped = library != libraries.all.end();
    if (mapped || !threads.empty()) {
      findings.push_back(judge_runtime(runtime, mapped ? &*library : nullptr, threads));
    }
  }
}

bool is_python(const std::string& file) {
  return file.starts_with("libpython") || file.starts_with("python");
}

void judge_others(Rest& rest, std::vector<Finding>& findings) {
  const std::string own = own_file();
  rest.take([&](const Thread& each) { return !own.empty() && each.owner == own; });  // they stop at a fork
  const std::vector<Thread> pythons = rest.take([](const Thread& each) { return is_python(each.owner); });
  if (!pythons.empty()) {
    Finding finding;
    finding.library = "Python threads";
    add_threads(finding, pythons);
    finding.verdict = Verdict::kSafeIfIdle;
    finding.evidence =
        count_in_words(pythons.size()) +
        " besides the one that forks; a lock that one of them holds is never released in the child";
    finding.reference = "python/cpython#100228";
    finding.remedy = std::string("fork before starting threads, or ") + kOtherMethod;
    findings.push_back(std::move(finding));
  }
  std::map<std::string, std::vector<Thread>> unknown;
  for (Thread& thread : rest.take([](const Thread&) { return true; })) {
    const std::string key = thread.owner.empty() ? "threads of unknown origin" : thread.owner;
    unknown[key].push_back(std::move(thread));
  }
  for (const auto& [owner, threads] : unknown) {
    Finding finding;
    finding.library = owner;
    add_threads(finding, threads);
    finding.verdict = Verdict::kMayHang;
    finding.evidence =
        count_in_words(threads.size()) + " of which nothing is known; the child has none of them";
    finding.remedy = kOtherMethod;
    findings.push_back(std::move(finding));
  }
}

// CUDA is initialised if the driver is mapped and a device is open. Asking the driver might initialise it.
void judge_cuda(const Libraries& libraries, Rest& rest, std::vector<Finding>& findings) {
  const auto driver = std::ranges::find_if(
      libraries.all, [](const Library& each) { return each.file.starts_with("libcuda.so"); });
  if (driver == libraries.all.end()) return;
  std::size_t devices = 0;
  if (DIR* const folder = ::opendir("/proc/self/fd")) {
    while (const dirent* entry = ::readdir(folder)) {
      char target[PATH_MAX];
      const ssize_t length = ::readlinkat(::dirfd(folder), entry->d_name, target, sizeof target);
      if (length > 0 && std::string_view(target, static_cast<std::size_t>(length)).starts_with("/dev/nvidia"))
        ++devices;
    }
    ::closedir(folder);
  }
  Finding finding;
  finding.library = "CUDA";
  finding.version = version_in(driver->file);
  add_threads(finding, rest.take([&](const Thread& each) {
    return each.owner == driver->file || each.name.starts_with("cuda");
  }));
  if (devices > 0) {
    finding.verdict = Verdict::kWillHang;
    finding.remedy = kOtherMethod;
  }
  finding.evidence = driver->file + " is mapped, " +
                     (devices > 0 ? std::to_string(devices) +
                                        " descriptors of /dev/nvidia* are open: its calls "
                                        "fail in the child"
                                  : "but no device is open: it is not initialised");
  finding.reference = "pytorch/pytorch#40403 (\"Cannot re-initialize CUDA in forked subprocess\")";
  findings.push_back(std::move(finding));
}

// glibc makes the locks of all streams anew in the child (fork(3) there); other C libraries may not.
void judge_stdio(std::vector<Finding>& findings) {
  for (FILE* stream : {stdin, stdout, stderr}) {
    if (::ftrylockfile(stream) == 0) {
      ::funlockfile(stream);
      continue;
    }
    Finding finding;
    finding.library = "C stdio";
    finding.state = "busy";
#ifndef __GLIBC__
    finding.verdict = Verdict::kWillHang;
    finding.remedy = "fork while no thread writes";
#endif
    finding.evidence = std::string("another thread has the lock of ") +
                       (stream == stdin    ? "stdin"
                        : stream == stdout ? "stdout"
                                           : "stderr") +
                       "; glibc makes it anew in the child";
    findings.push_back(std::move(finding));
  }
}

}  // namespace

std::vector<Finding> judge(const Libraries& libraries, const std::vector<Thread>& threads) {
  std::vector<Finding> findings;
  Rest rest(threads);
  judge_known(libraries, rest, findings);
  judge_cuda(libraries, rest, findings);
  judge_others(rest, findings);
  return findings;
}

std::vector<Finding> examine_runtimes() {
  const std::shared_ptr<const Libraries> libraries = mapped_libraries();
  std::vector<Finding> findings = judge(*libraries, other_threads(*libraries));
  judge_stdio(findings);
  return findings;
}

}  // namespace forklift::inline abi_0_1::guard
