// domains: a program with a domain of its own is in two others beside it, and carries tensors between them.
#include <forklift/domain.h>
#include <forklift/multiprocessing.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

using forklift::Domain;
using forklift::Event;
using forklift::Tensor;
using Frames = forklift::Queue<Tensor>;
constexpr auto kLong = std::chrono::seconds(30);

// A sensor: a program of its own, whose frames lie in its own domain.
int sensor(const std::string& name, float value) {
  Domain domain = Domain::serve(name);
  auto done = domain.open_or_create<Event>("done");
  auto frames = domain.open_or_create<Frames>("frames");
  Tensor frame = Tensor::zeros({480, 640}, forklift::DType::kFloat32);
  frame.data<float>()[0] = value;
  frames.put(frame);
  return done.try_wait(kLong) ? 0 : 1;
}

int main(int argc, char** argv) {
  forklift::init(argc, argv);
  const std::string of_this_run = "-" + std::to_string(::getpid());

  // Three programs in one, for the sake of the tutorial: these forks know nothing of Forklift yet.
  for (const auto& [name, value] : {std::pair{"camera", 1.0F}, std::pair{"lidar", 2.0F}}) {
    if (::fork() == 0) return sensor(name + of_this_run, value);
  }

  Frames mine;  // this program's home; it attaches all the same, now or whenever a sensor comes
  const auto camera = Domain::try_attach("camera" + of_this_run, kLong);
  const auto lidar = Domain::try_attach("lidar" + of_this_run, kLong);
  if (!camera || !lidar) return 1;
  auto images = camera->try_open<Frames>("frames", kLong);
  auto scans = lidar->try_open<Frames>("frames", kLong);
  if (!images || !scans) return 1;

  float sum = 0;
  for (int i = 0; i < 2; ++i) {
    // A wait for objects of both.
    Frames& ready = forklift::wait_any({*images, *scans}).front() == 0 ? *images : *scans;
    const Tensor frame = ready.get();  // the sensor's own memory
    mine.put(frame);                   // into the home: copied, once
    sum += mine.get().data<float>()[0];
  }
  auto results = camera->make<forklift::Queue<float>>();  // made in the camera's domain
  results.put(sum);
  std::printf("%.0f\n", static_cast<double>(results.get()));

  camera->open<Event>("done").set();
  lidar->open<Event>("done").set();
  int status = 0;
  bool well = true;
  while (::wait(&status) > 0) well = well && status == 0;
  return well ? 0 : 1;
}
