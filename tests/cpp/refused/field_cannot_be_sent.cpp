// expects: forklift: a field of this struct cannot be sent to another process
#include <string>

#include "forklift/value.h"
struct Job {
  std::string name;
  const char* title = "";
};
template <>
struct forklift::ValueTraits<Job> : forklift::Fields<&Job::name, &Job::title> {};
forklift::Value value = Job();
