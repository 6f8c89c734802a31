#!/usr/bin/env bash
# Prints the clang-tidy to use: 14 where there is one, otherwise the nearest newer one.
for name in clang-tidy-14 clang-tidy-15 clang-tidy-16 clang-tidy-17 clang-tidy-18 clang-tidy-19 clang-tidy; do
  if command -v "$name"; then exit 0; fi
done
exit 1
