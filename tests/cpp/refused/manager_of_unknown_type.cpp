// expects: forklift: this type does not become a Value
#include "forklift/manager.h"

struct Pose {
  int x;
};

void start(const forklift::ManagedDict& poses) { poses.set("home", Pose{1}); }
