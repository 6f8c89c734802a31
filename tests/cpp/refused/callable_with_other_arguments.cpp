// expects: forklift: this callable cannot be called with these arguments
#include <string>

#include "forklift/context.h"

void start() {
  (void)forklift::fork_context().process([](int number) { return number; }, std::string("one"));
}
