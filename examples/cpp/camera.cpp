// A camera that anybody may look at, and that may come and go: a service that meets its viewers by name.
//
//   camera [--name NAME] [--frames N] [--size HxW] [--log FILE]
//
// Pictures go to the queue "frames" of the domain NAME ("forklift-camera"):
//   {"by": pid, "number": 3, "image": uint8 tensor (H, W, 3)}
// Whoever comes first, camera or viewer, serves the name and makes the queue; the other one attaches. Either
// may be killed and started again at any moment: the queue, and the pictures in it, stay with the other one.
// See examples/camera_viewer.py.
//
// It ends after N frames, or on SIGTERM. With --log it writes down "+ pid number" before it sends a frame and
// "= pid number" afterwards, from which tests/chaos/meeting.py sees what a kill has cost.
#include <fcntl.h>
#include <unistd.h>

#include <forklift/multiprocessing.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

using forklift::Domain;
using forklift::DType;
using forklift::Queue;
using forklift::Tensor;
using forklift::Value;

struct Settings {
  std::string name = "forklift-camera";
  std::int64_t frames = -1;  // without end
  int height = 480;
  int width = 640;
  const char* log = nullptr;
};

volatile std::sig_atomic_t asked_to_stop = 0;

// A line a call of write(2): what was written survives any death.
class Log {
 public:
  explicit Log(const char* file)
      : file_(file == nullptr ? -1 : ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
  ~Log() { ::close(file_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void line(char what, std::int64_t number) const {
    if (file_ < 0) return;
    char text[64];
    const int length = std::snprintf(text, sizeof text, "%c %d %lld\n", what, static_cast<int>(::getpid()),
                                     static_cast<long long>(number));
    if (::write(file_, text, static_cast<std::size_t>(length)) != length) throw std::runtime_error("the log");
  }

 private:
  int file_;
};

// Rows of brightness that move with the number: a viewer can tell that a picture is whole.
Tensor take_picture(const Settings& settings, std::int64_t number) {
  Tensor image = Tensor::empty({settings.height, settings.width, 3}, DType::kUInt8);
  const auto bytes = image.span<std::uint8_t>();
  const auto row_bytes = static_cast<std::size_t>(settings.width) * 3;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i / row_bytes + static_cast<std::size_t>(number));
  return image;
}

void run(const Settings& settings) {
  const Log log(settings.log);
  Domain domain = Domain::meet(settings.name);
  auto frames = domain.open_or_create<Queue<Value>>("frames", forklift::QueueOptions{.capacity = 8});
  log.line('i', 0);
  for (std::int64_t number = 0; number != settings.frames && asked_to_stop == 0; ++number) {
    const Value frame(
        Value::Map{{"by", ::getpid()}, {"number", number}, {"image", take_picture(settings, number)}});
    log.line('+', number);
    // A full queue waits for a viewer, and this for SIGTERM.
    bool sent = false;
    while (!sent && asked_to_stop == 0) sent = frames.try_put(frame, std::chrono::milliseconds(100));
    if (sent) log.line('=', number);
  }
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    const char* const value = argv[i + 1];
    if (option == "--name") {
      settings.name = value;
    } else if (option == "--frames") {
      settings.frames = std::atoll(value);
    } else if (option == "--log") {
      settings.log = value;
    } else if (option != "--size" || std::sscanf(value, "%dx%d", &settings.height, &settings.width) != 2) {
      argc = 0;
    }
  }
  if (argc % 2 == 0 || settings.height < 1 || settings.width < 1)
    throw std::invalid_argument("usage: camera [--name NAME] [--frames N] [--size HxW] [--log FILE]");
  return settings;
}

int main(int argc, char** argv) {
  std::signal(SIGTERM, [](int) { asked_to_stop = 1; });
  try {
    forklift::init(argc, argv);
    run(parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "camera: %s\n", error.what());
    return 1;
  }
}
