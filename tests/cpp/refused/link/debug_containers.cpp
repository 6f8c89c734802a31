// Linked with a library whose std::vector is another one (tests/cpp/CMakeLists.txt).
#include "forklift/queue.h"

int main() {
  forklift::Queue<int> numbers;
  numbers.put(1);
  return numbers.get();
}
