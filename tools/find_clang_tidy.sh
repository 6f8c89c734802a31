#!/usr/bin/env bash
# Prints the path of the clang-tidy to use: version 14 if it is installed, otherwise the next newer one.
for name in clang-tidy-14 clang-tidy-15 clang-tidy-16 clang-tidy-17 clang-tidy-18 clang-tidy-19 clang-tidy; do
  if command -v "$name"; then exit 0; fi
done
exit 1
