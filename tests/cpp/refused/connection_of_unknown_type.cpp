// expects: forklift: a connection carries what a Queue can carry
#include <string>

#include "forklift/pipe.h"
struct Job {
  std::string name;
};
auto ends = forklift::make_pipe<Job>();
