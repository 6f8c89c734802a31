// expects: one line makes it known
#include <string>

#include "forklift/latest.h"
struct Job {
  std::string name;
};
forklift::Latest<Job> latest;
