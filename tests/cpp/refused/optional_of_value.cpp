// expects: forklift: an optional of what may be null itself
#include <optional>
#include <string>

#include "forklift/value.h"
struct Job {
  std::string name;
  std::optional<forklift::Value> extra;
};
template <>
struct forklift::ValueTraits<Job> : forklift::Fields<&Job::name, &Job::extra> {};
forklift::Value value = Job();
