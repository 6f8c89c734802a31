// The work of image_pipeline.cpp: three stages on grey pictures of 1920x1080, and what the alternatives are called.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>

inline constexpr std::size_t kWidth = 1920;
inline constexpr std::size_t kHeight = 1080;

struct Frame {
  std::uint64_t number;
  std::array<std::uint8_t, kWidth * kHeight> pixels;
};

// The first stage: a picture whose brightness depends on its number, with an edge in the middle of each row.
inline void capture(std::uint64_t number, Frame& frame) {
  frame.number = number;
  const auto dark = static_cast<std::uint8_t>(number % 100);
  auto* pixel = frame.pixels.data();
  for (std::size_t row = 0; row < kHeight; ++row) {
    pixel = std::fill_n(pixel, kWidth / 2, dark);
    pixel = std::fill_n(pixel, kWidth / 2, static_cast<std::uint8_t>(dark + 100));
  }
}

// The second stage: each pixel becomes the mean of itself and its neighbour.
inline void smooth(const Frame& in, Frame& out) {
  out.number = in.number;
  for (std::size_t i = 0; i + 1 < in.pixels.size(); ++i)
    out.pixels[i] = static_cast<std::uint8_t>((in.pixels[i] + in.pixels[i + 1]) / 2);
  out.pixels.back() = in.pixels.back();
}

// The third stage, and what comes out of the whole pipeline.
struct Report {
  std::uint64_t frames = 0;  // that came in their order
  std::uint64_t light = 0;   // of all pixels

  void add(const Frame& frame) {
    if (frame.number == frames) ++frames;
    light = std::accumulate(frame.pixels.begin(), frame.pixels.end(), light);
  }
  bool operator==(const Report&) const = default;
};

// One stage after the other: what the others are compared with.
inline Report in_one_thread(std::uint64_t count) {
  const auto taken = std::make_unique<Frame>();
  const auto smoothed = std::make_unique<Frame>();
  Report report;
  for (std::uint64_t i = 0; i < count; ++i) {
    capture(i, *taken);
    smooth(*taken, *smoothed);
    report.add(*smoothed);
  }
  return report;
}

// image_pipeline_alternative.cpp
Report with_threads(std::uint64_t count);  // a thread for each stage: none of them may crash
Report with_pipes(std::uint64_t count);    // a process for each stage
