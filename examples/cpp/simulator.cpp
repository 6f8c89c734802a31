// A simulator that shows its pictures to a consumer (in Python, say) and is steered by its answers.
//
//   simulator [--steps N] [--size HxW] [--seed S] [--alone]
//
// A disc drifts over a noisy background and bounces off its edges. Each step is a picture, rendered straight
// into shared memory, and goes to the queue "frames":
//   {"step": 3, "image": uint8 tensor (H, W, 3), "truth": [x, y]}
// The consumer, who sees the picture only, tells "answers" where it sees the disc:
//   {"step": 3, "x": 311.5, "y": 200.25}
// and the disc is pushed from there towards the middle. While one picture is looked at, the next is rendered.
// At the end comes {"done": true, "mean_error": pixels}. The same seed and answers give the same pictures.
//
// The queues come from the program that starts this one (see examples/simulator.py); with --alone the
// simulator forks a consumer of its own.
#include <forklift/multiprocessing.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

using forklift::DType;
using forklift::Queue;
using forklift::Tensor;
using forklift::Value;

struct Settings {
  int steps = 500;
  int height = 480;
  int width = 640;
  std::uint64_t seed = 1;
  bool alone = false;
};

struct Point {
  double x = 0;
  double y = 0;
};

class World {
 public:
  explicit World(const Settings& settings)
      : height_(settings.height), width_(settings.width), random_(settings.seed) {
    at_ = {uniform(kRadius, width_ - kRadius), uniform(kRadius, height_ - kRadius)};
    speed_ = {uniform(-6, 6), uniform(-6, 6)};
  }

  Point truth() const { return at_; }

  // The disc drifts; where it was seen says which way it is pushed.
  void step(const std::optional<Point>& seen) {
    speed_.x += uniform(-0.5, 0.5);
    speed_.y += uniform(-0.5, 0.5);
    if (seen) {
      speed_.x += (width_ / 2.0 - seen->x) * 0.002;
      speed_.y += (height_ / 2.0 - seen->y) * 0.002;
    }
    move(at_.x, speed_.x, width_);
    move(at_.y, speed_.y, height_);
  }

  Tensor render() {
    Tensor image = Tensor::empty({height_, width_, 3}, DType::kUInt8);
    const std::span<std::uint8_t> bytes = image.span<std::uint8_t>();
    // Noise: eight bytes a number, each 16 to 47.
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
      const std::uint64_t noise = (random_() & 0x1f1f1f1f1f1f1f1fULL) + 0x1010101010101010ULL;
      std::memcpy(&bytes[i], &noise, std::min<std::size_t>(8, bytes.size() - i));
    }
    const int top = std::max(0, static_cast<int>(at_.y - kRadius));
    const int left = std::max(0, static_cast<int>(at_.x - kRadius));
    for (int y = top; y < std::min(height_, top + 2 * static_cast<int>(kRadius) + 2); ++y) {
      for (int x = left; x < std::min(width_, left + 2 * static_cast<int>(kRadius) + 2); ++x) {
        if (std::hypot(x - at_.x, y - at_.y) > kRadius) continue;
        for (std::size_t colour = 0; colour < 3; ++colour) {
          std::uint8_t& byte = bytes[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                                      static_cast<std::size_t>(x)) *
                                         3 +
                                     colour];
          byte = static_cast<std::uint8_t>(byte + 200 - 40 * static_cast<int>(colour));
        }
      }
    }
    return image;
  }

 private:
  static constexpr double kRadius = 12;

  double uniform(double low, double high) {
    return low + (high - low) * (static_cast<double>(random_() >> 11) * 0x1p-53);
  }
  static void move(double& place, double& speed, int length) {
    speed = std::clamp(speed * 0.99, -10.0, 10.0);
    place += speed;
    if (place < kRadius || place > length - 1 - kRadius) {
      speed = -speed;
      place = std::clamp(place, kRadius, length - 1 - kRadius);
    }
  }

  int height_;
  int width_;
  std::mt19937_64 random_;
  Point at_;
  Point speed_;
};

double number(const Value& map, const char* key) { return map.at(key).as<double>(); }

Point take_answer(Queue<Value>& answers, int step) {
  const std::optional<Value> answer = answers.try_get(std::chrono::seconds(30));
  if (!answer) throw std::runtime_error("no answer to frame " + std::to_string(step) + " for 30 s");
  if (number(*answer, "step") != step)
    throw std::runtime_error("an answer to another frame than " + std::to_string(step));
  return {number(*answer, "x"), number(*answer, "y")};
}

double simulate(const Settings& settings, Queue<Value> frames, Queue<Value> answers) {
  World world(settings);
  double error = 0;
  Point shown;  // the truth of the frame that the next answer is for
  for (int step = 0; step <= settings.steps; ++step) {
    std::optional<Tensor> image;
    if (step < settings.steps) image = world.render();
    std::optional<Point> seen;
    if (step > 0) {
      seen = take_answer(answers, step - 1);
      error += std::hypot(seen->x - shown.x, seen->y - shown.y);
    }
    if (!image) break;
    shown = world.truth();
    frames.put(
        Value::Map{{"step", step}, {"image", *std::move(image)}, {"truth", Value::List{shown.x, shown.y}}});
    world.step(seen);
  }
  const double mean = settings.steps > 0 ? error / settings.steps : 0;
  frames.put(Value::Map{{"done", true}, {"mean_error", mean}});
  return mean;
}

// What a consumer does: the centre of what is bright.
void consume(Queue<Value> frames, Queue<Value> answers) {
  for (Value frame = frames.get(); frame.find("done") == nullptr; frame = frames.get()) {
    const auto image = frame.at("image").as<Tensor>();
    const std::int64_t width = image.shape()[1];
    const std::uint8_t* red = image.data<std::uint8_t>();
    double weight = 0;
    Point sum;
    for (std::int64_t i = 0; i < image.numel() / 3; ++i) {
      if (red[3 * i] < 128) continue;
      weight += 1;
      sum.x += static_cast<double>(i % width);
      sum.y += std::floor(static_cast<double>(i) / static_cast<double>(width));
    }
    answers.put(Value::Map{{"step", frame.at("step")}, {"x", sum.x / weight}, {"y", sum.y / weight}});
  }
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--alone") {
      settings.alone = true;
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : "";
    bool good = true;
    if (option == "--steps") {
      settings.steps = std::atoi(value);
      good = settings.steps > 0;
    } else if (option == "--seed") {
      settings.seed = std::strtoull(value, nullptr, 10);
    } else if (option == "--size") {
      good = std::sscanf(value, "%dx%d", &settings.height, &settings.width) == 2;
      good = good && settings.height >= 32 && settings.width >= 32;
    } else {
      good = false;
    }
    if (!good) {
      throw std::invalid_argument(
          "usage: simulator [--steps N] [--size HxW (from 32x32)] [--seed S] [--alone]");
    }
  }
  return settings;
}

int main(int argc, char** argv) {
  try {
    forklift::init(argc, argv);
    const Settings settings = parse(argc, argv);
    if (!settings.alone) {
      simulate(settings, Queue<Value>::inherited("frames"), Queue<Value>::inherited("answers"));
      return 0;
    }
    Queue<Value> frames;
    Queue<Value> answers;
    auto consumer = forklift::Process::fork([&] { consume(frames, answers); }).start();
    const double mean = simulate(settings, frames, answers);
    consumer.join();
    std::printf("%d frames, %.3f pixels off on average\n", settings.steps, mean);
    return mean < 1 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simulator: %s\n", error.what());
    return 1;
  }
}
