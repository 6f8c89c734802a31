// expects: forklift: a field of this struct cannot be sent to another process
#include <string>

#include "forklift/queue.h"
struct Title {
  std::string text;
};
struct Job {
  std::string name;
  Title title;
};
template <>
struct forklift::ValueTraits<Job> : forklift::Fields<&Job::name, &Job::title> {};
void run(forklift::Queue<Job>& jobs) { jobs.put(jobs.get()); }
