// expects: forklift: a pointer, view or reference means nothing in another process
#include "forklift/broadcast.h"
forklift::Broadcast<int*> broadcast;
