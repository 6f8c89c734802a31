// expects: forklift: shared memory holds trivially copyable types without pointers
#include <string>

#include "forklift/shared_value.h"
forklift::SharedValue<std::string> value;
