// expects: forklift: a pointer, view or reference means nothing in another process
#include "forklift/shared_value.h"
forklift::SharedValue<int*> value;
