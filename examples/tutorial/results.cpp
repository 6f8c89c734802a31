// results: answers instead of exceptions, labels, a log sink, settings.
#include <forklift/attempt.h>
#include <forklift/label.h>
#include <forklift/log.h>
#include <forklift/multiprocessing.h>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace {

void tell(const char* what, const forklift::Status& status) {
  std::printf("%s: %s\n", what, status.ok() ? "done" : status.to_string().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  forklift::init(argc, argv);
  // Before the shared memory is made.
  forklift::configure({.reservation_bytes = std::size_t{16} << 30, .huge_pages = true});
  forklift::set_log_sink([](forklift::Severity, std::string_view message) {
    std::printf("logged: %.*s\n", static_cast<int>(message.size()), message.data());
  });

  // A handle on no queue yet, and a queue with a name for people.
  forklift::Queue<std::string> words(nullptr);
  tell("put into none", forklift::attempt([&] { words.put("lost"); }));
  words = forklift::Queue<std::string>({.capacity = 8, .label = "words"});
  tell("put", forklift::attempt([&] { words.put("kept"); }));

  const forklift::Result<std::string> word = forklift::attempt([&] { return words.get(); });
  std::printf("got: %s\n", word.value_or("nothing").c_str());
  words.close();
  tell("get after the end", forklift::attempt([&] { return words.get(); }).status());

  // A failed child is a Status, too.
  auto child = forklift::Process::fork([] { throw std::runtime_error("no such file"); });
  tell("start", forklift::attempt([&] { child.start(); }));
  const forklift::Status joined = forklift::attempt([&] { child.join(); });
  std::printf("join: %s\n", std::string(forklift::code_name(joined.code())).c_str());
}
