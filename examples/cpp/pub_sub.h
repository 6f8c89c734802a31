// The messages of pub_sub.cpp, what a reader checks of them, and what the alternative is called.
#pragma once

#include <cstdint>

struct Quote {
  std::int64_t run;     // of the publisher: the one that takes over counts on
  std::int64_t number;  // in this run
  double price;
};

// What a reader has seen, and whether anything was missing.
struct Seen {
  bool visitor = false;
  std::int64_t quotes = 0;
  std::int64_t gaps = 0;
  Quote last{.run = -1, .number = -1, .price = 0};

  void add(const Quote& quote) {
    const bool next = quote.run == last.run ? quote.number == last.number + 1 : quote.number == 0;
    if (!next && quotes > 0) ++gaps;  // a reader may begin anywhere
    ++quotes;
    last = quote;
  }
};

inline double price_of(std::int64_t number) { return 100 + static_cast<double>(number % 7); }

// pub_sub_alternative.cpp: Unix datagrams, sent to each reader. How many each reader has seen, all together.
std::int64_t with_datagrams(std::int64_t quotes, int readers);
