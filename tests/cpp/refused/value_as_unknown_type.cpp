// expects: forklift: a Value does not become this type
#include "forklift/value.h"

struct Pose {
  int x;
};

void start(const forklift::Value& value) { (void)value.as<Pose>(); }
